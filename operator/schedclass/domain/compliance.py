"""Whether a pod is where, and as, its class wants it: one vocabulary for controller and CLI."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.nodes import Node, why_node_not_allowed
from schedclass.domain.scheduling import Decisions, Plugin, Pod
from schedclass.domain.schedulingclass import SchedulingClass


class ViolationKind(StrEnum):
    """What is violated; the first four are the label `kind` of the metric on violating pods."""

    NODE = "node"
    AFFINITY = "affinity"
    SPREAD = "spread"
    BYPASS = "bypass"
    CLASS = "class"
    INHERITANCE = "inheritance"
    DRIFT = "drift"


@dataclass(frozen=True, slots=True)
class Breach:
    """One way in which a pod breaks its class."""

    kind: ViolationKind
    finding: Finding


_KINDS: Final = {
    Plugin.POD_AFFINITY: ViolationKind.AFFINITY,
    Plugin.TOPOLOGY_SPREAD: ViolationKind.SPREAD,
}


def why_unpinned(
    scheduler: str, annotation: str | None, class_name: str, *, stored: bool = True
) -> Finding | None:
    """Say how a pod of a pinned namespace escapes its class; None if it does not.

    Another class in the annotation is no escape, because the scheduler goes by the namespace; it
    is what a pod looks like that was made before its namespace changed class.

    Args:
        scheduler: its `spec.schedulerName`.
        annotation: the class that its annotation names, None for none.
        class_name: the effective class of its namespace, which exists.
        stored: whether the pod has met admission at all.
    """
    if not stored:
        return None
    if scheduler != names.SCHEDULER_NAME:
        message = (
            f'is scheduled by "{scheduler}", past scheduling class "{class_name}" of its '
            "namespace; create it anew to pin it"
        )
        return Finding(Reason.BYPASS_DETECTED, message, Severity.ERROR, "spec.schedulerName")
    if annotation is None:
        message = (
            f'lacks the annotation {names.CLASS_KEY} of scheduling class "{class_name}"; '
            "create it anew to pin it"
        )
        return Finding(Reason.BYPASS_DETECTED, message, Severity.ERROR, "metadata.annotations")
    return None


def breaches(
    pod: Pod, cls: SchedulingClass, node: Node | None, decisions: Decisions
) -> tuple[Breach, ...]:
    """How a running pod breaks the hard constraints of its class, each kind once.

    Args:
        pod: the pod, on a node.
        cls: its class; an invalid one constrains nothing.
        node: its node; None if that is not known, and then nothing is said.
        decisions: with `Scope.CLASS`, over a cluster that counts the pod.
    """
    if cls.spec is None or node is None:
        return ()
    found: list[Breach] = []
    refusal = why_node_not_allowed(cls.spec, node)
    if refusal is not None:
        message = f'runs outside scheduling class "{cls.name}": {refusal}'
        found.append(Breach(ViolationKind.NODE, _breach(Reason.NODE_NOT_ALLOWED, message)))
    for plugin, rejection in decisions.explain(pod, (node.name,))[node.name].items():
        if plugin in _KINDS:
            message = (
                f'breaks scheduling class "{rejection.class_name}" on node {node.name}: '
                f"{rejection.message}"
            )
            found.append(Breach(_KINDS[plugin], _breach(rejection.reason, message)))
    return tuple(found)


def _breach(reason: Reason, message: str) -> Finding:
    return Finding(reason, message, Severity.ERROR)
