"""Whether a pod is where, and as, its class wants it: one vocabulary for controller and CLI."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.nodes import Node, why_node_not_allowed
from schedclass.domain.scheduling import Decisions, Plugin, Pod, parse_pod
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
    MANIFEST = "manifest"


COUNTED_KINDS: Final = (
    ViolationKind.NODE,
    ViolationKind.AFFINITY,
    ViolationKind.SPREAD,
    ViolationKind.BYPASS,
)
"""What a single pod can violate."""


class Seen(Protocol):
    """What is seen of a pod besides its placement."""

    @property
    def pod(self) -> Pod:
        """What placement needs."""

    @property
    def scheduler(self) -> str:
        """Its `spec.schedulerName`."""

    @property
    def mirror(self) -> bool:
        """Whether it is a node's own, see `is_mirror`."""

    @property
    def stored(self) -> bool:
        """Whether it has met admission at all."""


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """The part of a pod of an API server that `pod_breaches` reads."""

    pod: Pod
    scheduler: str = names.DEFAULT_SCHEDULER_NAME
    mirror: bool = False
    stored: bool = True


def parse_observed_pod(obj: Mapping[str, Any]) -> ObservedPod:
    """Read a pod as the API server sends it.

    Raises:
        ValueError: see `parse_pod`.
    """
    pod = parse_pod(obj)
    return ObservedPod(
        pod,
        scheduler=(obj.get("spec") or {}).get("schedulerName") or names.DEFAULT_SCHEDULER_NAME,
        mirror=is_mirror(obj["metadata"], pod.node_name),
    )


def is_mirror(metadata: Mapping[str, Any], node_name: str) -> bool:
    """Whether a stored pod shows what its node runs by itself.

    Anybody can write the annotation. The API server lets a node create a mirror pod only with the
    node as its owner (NodeRestriction), and who does not know the uid of the node loses a pod that
    says so to the garbage collector.
    """
    return names.MIRROR_POD in (metadata.get("annotations") or {}) and any(
        owner.get("kind") == "Node"
        and owner.get("apiVersion") == "v1"
        and owner.get("controller") is True
        and owner.get("name") == node_name
        for owner in metadata.get("ownerReferences") or ()
    )


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


def named_instead(
    scheduler: str, annotation: str | None, class_name: str, *, stored: bool = True
) -> str | None:
    """The class that a pinned pod names in its annotation instead of its namespace's; else None.

    It breaks nothing by that: the scheduler goes by the namespace. The arguments are those of
    `why_unpinned`, which tells of pods that are not pinned at all.
    """
    pinned = stored and scheduler == names.SCHEDULER_NAME
    return annotation if pinned and annotation != class_name else None


def pod_breaches(  # noqa: PLR0913 - all that a verdict on a pod rests on
    seen: Seen,
    cls: SchedulingClass | None,
    node: Node | None,
    decisions: Decisions,
    *,
    of_namespace: str | None,
    exempt_daemon_sets: bool = False,
) -> tuple[Breach, ...]:
    """Every way in which a pod that has not ended escapes or breaks its class.

    Args:
        seen: the pod.
        cls: the class that applies to it; None if there is none, and then nothing is said.
        node: its node; None if it has none or it is not known.
        decisions: see `breaches`.
        of_namespace: the effective class of its namespace, None for none.
        exempt_daemon_sets: whether pods of DaemonSets are admitted unpinned.
    """
    pod = seen.pod
    spared = seen.mirror or (pod.daemon and exempt_daemon_sets)
    # What admission has pinned it did not spare, whatever the pod says of itself.
    if cls is None or (spared and seen.scheduler != names.SCHEDULER_NAME):
        return ()
    bypass = None
    if of_namespace is not None:
        bypass = why_unpinned(
            seen.scheduler, pod.class_annotation, of_namespace, stored=seen.stored
        )
    escaped = () if bypass is None else (Breach(ViolationKind.BYPASS, bypass),)
    return escaped + (breaches(pod, cls, node, decisions) if pod.node_name else ())


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
