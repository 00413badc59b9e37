"""What must not outlive the operator: label and finalizer on classes."""

import logging

from schedclass.controller.classes import class_reference
from schedclass.domain import names
from schedclass.domain.schedulingclass import parse_class
from schedclass.kube.client import KubeClient
from schedclass.kube.errors import NotFound
from schedclass.kube.state import CLASSES_PATH

logger = logging.getLogger(__name__)


async def release_classes(client: KubeClient) -> None:
    """Take our label and finalizer off every SchedulingClass, for the removal of the chart.

    Raises:
        ApiError, Unreachable: the first failure; running it again goes on where it stopped.
    """
    try:
        async for items, _ in client.list_pages(CLASSES_PATH):
            for item in items:
                await _release(client, item)
    except NotFound as error:
        if error.object_absent:
            raise
        logger.info("there are no classes: %s is not served", CLASSES_PATH)


async def _release(client: KubeClient, item: dict[str, object]) -> None:
    cls = parse_class(item)
    if names.IN_USE not in cls.labels and names.IN_USE_FINALIZER not in cls.finalizers:
        return
    metadata = {
        "resourceVersion": cls.resource_version,
        "labels": {names.IN_USE: None},
        "finalizers": [name for name in cls.finalizers if name != names.IN_USE_FINALIZER],
    }
    await client.merge_patch(f"{CLASSES_PATH}/{cls.name}", {"metadata": metadata})
    fields = {"k8s": class_reference(cls.name, cls.uid).fields()}
    logger.info("released %s", cls.name, extra=fields)
