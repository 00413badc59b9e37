"""A snapshot with the decisions that follow from it: tree, classes, and the index of scheduling."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from schedclass.domain import names
from schedclass.domain.findings import Finding
from schedclass.domain.inheritance import Effective, effective_class
from schedclass.domain.insight.hashes import with_hashes
from schedclass.domain.insight.priorities import with_priorities
from schedclass.domain.insight.scheduler_sign import scheduler_missing_by_status
from schedclass.domain.insight.snapshot import (
    NamespaceRecord,
    NodeRecord,
    Owner,
    Part,
    PodRecord,
    Snapshot,
)
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.domain.podfields import ClassSpec
from schedclass.domain.scheduling import CompiledClass, compile_class
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.domain.tree import NamespaceTree
from schedclass.domain.unfilled import selector_not_filled


@dataclass(frozen=True, slots=True)
class Policy:
    """How the operator of the cluster is configured, as far as decisions depend on it.

    Attributes:
        excluded: patterns of namespaces that are never pinned.
        label_keys: `defaultLabelSelectorKeys`.
        exempt_daemon_sets: whether pods of DaemonSets are admitted unpinned.
    """

    excluded: tuple[str, ...] = names.SYSTEM_NAMESPACES
    label_keys: tuple[str, ...] = names.LINEAGE_LABELS
    exempt_daemon_sets: bool = False


class Health(StrEnum):
    """How a class is, in one word; the words of the condition Ready where it has one."""

    READY = "Ready"
    NO_NODES = "NoMatchingNodes"
    INVALID = "InvalidSpec"
    DELETING = "Deleting"
    MISSING = "ClassNotFound"
    UNSCHEDULED = "SchedulerMissing"
    UNKNOWN = "Unknown"


class World:
    """What follows from one snapshot. It never changes; a what-if makes another one."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        """Link the namespaces; everything else is computed when first asked for."""
        self.snapshot = snapshot = with_priorities(with_hashes(snapshot))
        self.policy = policy
        self.tree = NamespaceTree(ExcludedNamespaces(policy.excluded))
        self.namespaces: dict[str, NamespaceRecord] = {}
        for record in snapshot.namespaces:
            self.namespaces[record.namespace.name] = record
            self.tree.put(record.namespace)
        for tenant in snapshot.tenants:
            self.tree.tenants.put(f"{tenant.namespace}/{tenant.name}", tenant)
        self.classes: Mapping[str, SchedulingClass] = {cls.name: cls for cls in snapshot.classes}
        self.nodes: Mapping[str, NodeRecord] = {
            record.node.name: record for record in snapshot.nodes
        }
        self._effective: dict[str, Effective] = {}

    def effective(self, name: str) -> Effective:
        """The class that applies to a namespace; none for one that is not known."""
        found = self._effective.get(name)
        if found is None:
            found = self._effective[name] = self._decide(name)
        return found

    def _decide(self, name: str) -> Effective:
        ns = self.tree.get(name)
        if ns is None:
            return Effective()
        decided = effective_class(self.tree, ns)
        origin_unseen = ns.inherited_from is not None and self.tree.get(ns.inherited_from) is None
        if origin_unseen and not self.snapshot.knows(Part.NAMESPACES):
            # The ancestor is out of sight, not gone: what the operator wrote is the best we have.
            return Effective(
                ns.inherited_class or ns.label,
                ns.inherited_from or "",
                ns.inherited_from_uid or "",
                decided.own_request,
            )
        return decided

    def class_name_of(self, record: PodRecord) -> str | None:
        """The class that applies to a pod: of its namespace, else the one its annotation names."""
        return self.effective(record.pod.namespace).class_name or record.pod.class_annotation

    def class_applied(self, record: PodRecord) -> str | None:
        """The class that scheduling applies to a pod; None if it goes past all classes.

        A pod that nobody has stored yet is taken as admission would leave it.
        """
        name = self.class_name_of(record)
        if record.stored:
            return name if record.scheduler == names.SCHEDULER_NAME else None
        exempt = record.pod.daemon and self.policy.exempt_daemon_sets
        if exempt or name is None or self.exists(name) is False:
            return None
        return name

    def not_filled(self, record: PodRecord) -> Finding | None:
        """What of its class has no effect on a pod for want of labels; None if all of it has."""
        name = self.class_applied(record)
        cls = self.classes.get(name) if name is not None else None
        return selector_not_filled(cls, record.pod.labels, self.policy.label_keys)

    def exists(self, class_name: str) -> bool | None:
        """Whether a class exists; None where that cannot be known."""
        if class_name in self.classes:
            return True
        return False if self.snapshot.knows(Part.CLASSES) else None

    @cached_property
    def _compiled(self) -> dict[str, CompiledClass]:
        return {name: compile_class(cls) for name, cls in self.classes.items()}

    def matching_nodes(self, class_name: str) -> list[NodeRecord]:
        """The nodes that a valid class allows by its node constraints."""
        compiled = self._compiled.get(class_name)
        if compiled is None or compiled.constraints is None:
            return []
        restriction = compiled.constraints.node
        return [
            record
            for record in self.snapshot.nodes
            if restriction is None or restriction.allows(record.node)
        ]

    def health(self, class_name: str) -> Health:
        """How a class is."""
        cached = self._health.get(class_name)
        if cached is None:
            cached = self._health[class_name] = self._judge(class_name)
        return cached

    @cached_property
    def _health(self) -> dict[str, Health]:
        return {}

    def _judge(self, class_name: str) -> Health:
        cls = self.classes.get(class_name)
        if cls is None:
            return Health.MISSING if self.exists(class_name) is False else Health.UNKNOWN
        if cls.deleting:
            return Health.DELETING
        if cls.spec is None:
            return Health.INVALID
        if self.snapshot.knows(Part.NODES) and not self.matching_nodes(class_name):
            return Health.NO_NODES
        return Health.UNSCHEDULED if scheduler_missing_by_status(cls) is not None else Health.READY

    @cached_property
    def bound(self) -> Mapping[str, tuple[str, ...]]:
        """Namespaces by their effective class."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.namespaces):
            class_name = self.effective(name).class_name
            if class_name is not None:
                found.setdefault(class_name, []).append(name)
        return {class_name: tuple(bound) for class_name, bound in found.items()}

    @cached_property
    def pods_by_namespace(self) -> Mapping[str, tuple[PodRecord, ...]]:
        """Pods that are not finished, by namespace."""
        found: dict[str, list[PodRecord]] = {}
        for record in self.snapshot.pods:
            if not record.pod.finished:
                found.setdefault(record.pod.namespace, []).append(record)
        return {name: tuple(records) for name, records in found.items()}

    @cached_property
    def pod_keys(self) -> Set[str]:
        """Namespaces and names of pods that are not finished."""
        return {record.key for record in self.snapshot.pods if not record.pod.finished}

    @cached_property
    def _owners(self) -> Mapping[str, Owner]:
        return {
            workload.key: workload.owner
            for workload in self.snapshot.workloads
            if workload.owner is not None
        }

    def group_of(self, record: PodRecord) -> str:
        """What a pod belongs to, e.g. `Deployment shop/web`; for one on its own `Pod shop/web`.

        The Deployment is named where the pod's ReplicaSet is known to belong to one.
        """
        if record.owner is None:
            return f"Pod {record.key}"
        namespace, owner = record.pod.namespace, record.owner
        above = self._owners.get(f"{owner.kind} {namespace}/{owner.name}", owner)
        return f"{above.kind} {namespace}/{above.name}"

    def cluster(self, *, own_terms: bool = True, with_classes: bool = True) -> Cluster:
        """A new index of the snapshot for decisions on pods.

        A class that cannot be seen constrains nothing here; whoever shows decisions says so.

        Args:
            own_terms: see `Cluster`.
            with_classes: False for the view of a scheduler that knows no classes.
        """
        cluster = Cluster(default_label_keys=self.policy.label_keys, own_terms=own_terms)
        for node in self.snapshot.nodes:
            cluster.put_node(node.node)
        for name, record in self.namespaces.items():
            class_name = self.effective(name).class_name if with_classes else None
            cluster.put_namespace(name, record.labels, class_name)
        if with_classes:
            for compiled in (*self._compiled.values(), *self._unseen_classes()):
                cluster.put_class(compiled)
        for pod in self.snapshot.pods:
            if pod.running:
                plain = pod.pod if with_classes else replace(pod.pod, class_annotation=None)
                cluster.put_pod(plain)
        return cluster

    def _unseen_classes(self) -> list[CompiledClass]:
        if self.snapshot.knows(Part.CLASSES):
            return []
        named = {*self.bound, *(record.pod.class_annotation for record in self.snapshot.pods)}
        return [
            compile_class(SchedulingClass(name, spec=ClassSpec()))
            for name in sorted(name for name in named if name and name not in self.classes)
        ]
