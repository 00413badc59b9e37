"""The admission handlers that Kopf runs, each a line: ask the service, answer the review."""

from typing import Final

import kopf

from schedclass.domain import names
from schedclass.webhook.reviews import HandlerRule, Review, register
from schedclass.webhook.service import AdmissionService

PODS: Final = HandlerRule("mutate-pods", "", "v1", "pods", frozenset({"CREATE"}))
PRESET_NODES: Final = HandlerRule("validate-pods", "", "v1", "pods", frozenset({"CREATE"}))
NAMESPACES: Final = HandlerRule(
    "mutate-namespaces", "", "v1", "namespaces", frozenset({"CREATE", "UPDATE"})
)
CLASSES: Final = HandlerRule(
    "validate-schedulingclasses",
    names.GROUP,
    names.VERSION,
    names.PLURAL,
    frozenset({"CREATE", "UPDATE"}),
)
RULES: Final = (PODS, PRESET_NODES, NAMESPACES, CLASSES)


def register_handlers(registry: kopf.OperatorRegistry, service: AdmissionService) -> None:
    """Register one handler per rule."""

    async def pods(review: Review) -> None:
        review.answer(await service.pod(review))

    async def preset_nodes(review: Review) -> None:
        review.answer(await service.preset_node(review))

    async def namespaces(review: Review) -> None:
        review.answer(await service.namespace(review))

    async def classes(review: Review) -> None:
        review.answer(await service.scheduling_class(review))

    register(registry, PODS, pods, mutates=True)
    register(registry, PRESET_NODES, preset_nodes, mutates=False)
    register(registry, NAMESPACES, namespaces, mutates=True)
    register(registry, CLASSES, classes, mutates=False)
