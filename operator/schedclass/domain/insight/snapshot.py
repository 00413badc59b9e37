"""One moment of a cluster, frozen, together with what could not be seen of it.

Who gathers it (from an API server, from manifests) says what is unknown; who reads it never takes
unknown for absent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from schedclass.domain import names
from schedclass.domain.compliance import is_mirror
from schedclass.domain.findings import Finding
from schedclass.domain.namespaces import Namespace
from schedclass.domain.nodes import Node, parse_node
from schedclass.domain.resources import Amounts, Demand, parse_amounts, parse_demand
from schedclass.domain.scheduling.pods import Pod, parse_pod
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.domain.tenants import Tenant

NEVER: Final = "Never"
"""The `preemptionPolicy` of pods that wait until there is room."""


class Part(StrEnum):
    """A part of a snapshot that may be known or not."""

    NODES = "nodes"
    NAMESPACES = "namespaces"
    TENANTS = "tenants"
    CLASSES = "classes"
    PODS = "pods"
    WORKLOADS = "workloads"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node with what it can hold.

    Attributes:
        node: what placement by constraints needs.
        allocatable: what pods can take of it; None where it was not told, so not checked.
    """

    node: Node
    allocatable: Amounts | None = None


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace with all its labels.

    Attributes:
        namespace: the record that inheritance needs.
        labels: all labels.
        implied: nobody gave the namespace itself; something that was given says that it will be.
        stray: its labels and annotations that look like ours and are none.
    """

    namespace: Namespace
    labels: Mapping[str, str] = field(default_factory=dict)
    implied: bool = False
    stray: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an object as it was given, so that it does not count or not as meant.

    Attributes:
        kind, name, namespace: the object, as it calls itself.
        finding: reason and sentence.
    """

    kind: str
    name: str
    namespace: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod or workload."""

    kind: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The condition PodScheduled: the real scheduler's last word on a pod.

    Attributes:
        status: `True`, `False` or `Unknown`.
        reason: e.g. `Unschedulable`.
        message: e.g. "0/3 nodes are available: ...".
    """

    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """What a PriorityClass gives to pods that name it.

    Attributes:
        value: their priority.
        preempts: whether running pods may end for them (`preemptionPolicy`).
    """

    value: int
    preempts: bool = True


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod with what the placement of others does not depend on.

    Attributes:
        pod: what placement needs.
        demand: what it takes of its node.
        scheduler: `spec.schedulerName`.
        phase: `status.phase`, empty for a pod that no API server has seen.
        stored: whether it comes from an API server (it has a uid), so has met admission.
        mirror: whether it is a node's own, see `is_mirror`.
        owner: its controller.
        scheduled: the condition PodScheduled.
        created: `metadata.creationTimestamp`.
        preempts: whether running pods may end for it (`spec.preemptionPolicy`).
        priority_class: the PriorityClass that it names, empty for none.
        priority_known: whether it is known which priority that is; it reads as 0 where not.
    """

    pod: Pod
    demand: Demand
    scheduler: str = ""
    phase: str = ""
    stored: bool = False
    mirror: bool = False
    owner: Owner | None = None
    scheduled: Scheduled | None = None
    created: str = ""
    preempts: bool = True
    priority_class: str = ""
    priority_known: bool = True

    @property
    def unknown_priority(self) -> str:
        """The PriorityClass that it names and that nothing is known of; empty for none."""
        return "" if self.priority_known else self.priority_class

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.pod.namespace}/{self.pod.name}"

    @property
    def running(self) -> bool:
        """Whether it takes a place on a node."""
        return bool(self.pod.node_name) and not self.pod.finished

    @property
    def pending(self) -> bool:
        """Whether it waits for a node."""
        return not (self.pod.node_name or self.pod.finished or self.pod.terminating)


@dataclass(frozen=True, slots=True)
class Workload:
    """An object whose controller makes pods from a template.

    Attributes:
        kind: Deployment, StatefulSet, ReplicaSet, ReplicationController, DaemonSet, Job, CronJob.
        namespace, name, uid: which.
        replicas: how many pods it wants at a time; None for one on each node that takes it.
        template: the first pod it would make.
        owner: its controller, if it has one itself.
        template_key: of a Deployment or ReplicaSet, equal for templates that differ by hash only.
        template_hash: the hash in its template, empty for none.
        make: of a Deployment, the first pod it would make if its template had some hash.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: int | None
    template: PodRecord
    owner: Owner | None = None
    template_key: str = ""
    template_hash: str = ""
    make: Callable[[str], PodRecord] | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """Kind, namespace and name, e.g. `Deployment shop/web`."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a cluster.

    Attributes:
        nodes, namespaces, tenants, classes, pods, workloads: what was seen.
        unknown: parts of which not everything was seen, each with one sentence why.
        origin: where it comes from, for a person.
        faults: what is wrong with objects as they were given.
        priorities: PriorityClasses that were given, by name.
        operator_namespace: where the operator runs; empty where that was not seen.
    """

    nodes: tuple[NodeRecord, ...] = ()
    namespaces: tuple[NamespaceRecord, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    classes: tuple[SchedulingClass, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    workloads: tuple[Workload, ...] = ()
    unknown: Mapping[Part, str] = field(default_factory=dict)
    origin: str = ""
    faults: tuple[Fault, ...] = ()
    priorities: Mapping[str, PriorityClass] = field(default_factory=dict)
    operator_namespace: str = ""

    def knows(self, *parts: Part) -> bool:
        """Whether all of these parts were seen whole."""
        return not any(part in self.unknown for part in parts)


def parse_node_record(obj: Mapping[str, Any]) -> NodeRecord:
    """Read a Node.

    Raises:
        ValueError: with the field, if its allocatable resources cannot be read.
    """
    status = obj.get("status")
    allocatable = status.get("allocatable") if isinstance(status, Mapping) else None
    if allocatable is None:
        return NodeRecord(parse_node(obj))
    return NodeRecord(parse_node(obj), parse_amounts(allocatable, "status.allocatable"))


def parse_pod_record(obj: Mapping[str, Any]) -> PodRecord:
    """Read a Pod.

    Raises:
        ValueError: with the field, if a part that matters cannot be read.
    """
    pod = parse_pod(obj)
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    status = obj.get("status") or {}
    return PodRecord(
        pod=pod,
        demand=parse_demand(spec),
        scheduler=str(spec.get("schedulerName") or names.DEFAULT_SCHEDULER_NAME),
        phase=str(status.get("phase") or ""),
        stored=bool(metadata.get("uid")),
        mirror=is_mirror(metadata, pod.node_name),
        owner=controller_of(metadata),
        scheduled=_scheduled(status.get("conditions")),
        created=str(metadata.get("creationTimestamp") or ""),
        preempts=spec.get("preemptionPolicy") != NEVER,
        priority_class=(named := str(spec.get("priorityClassName") or "")),
        priority_known=not named or spec.get("priority") is not None,
    )


def controller_of(metadata: Mapping[str, Any]) -> Owner | None:
    """The ownerReference with `controller: true`, if there is one."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            return Owner(
                str(reference.get("kind") or ""),
                str(reference.get("name") or ""),
                str(reference.get("uid") or ""),
            )
    return None


def _scheduled(conditions: object) -> Scheduled | None:
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "PodScheduled":
            return Scheduled(
                str(condition.get("status") or ""),
                str(condition.get("reason") or ""),
                str(condition.get("message") or ""),
            )
    return None
