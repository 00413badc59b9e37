"""Everything in a snapshot that is not as the classes want it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from schedclass.domain import compliance, inheritance
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import NamespaceKeys, desired_keys
from schedclass.domain.insight.snapshot import Part, PodRecord
from schedclass.domain.insight.world import Health, World
from schedclass.domain.scheduling import Decisions, Scope
from schedclass.domain.schedulingclass import SchedulingClass


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that a violation is about."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """As kubectl writes it: `pod shop/web-0`."""
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else (f"{self.kind} {self.name}")
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is not as it should be.

    Attributes:
        kind: which rule it breaks.
        subject: the object.
        finding: reason and sentence.
        class_name: the class that is concerned.
        node: the node that is concerned, empty for none.
    """

    kind: ViolationKind
    subject: Subject
    finding: Finding
    class_name: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All violations, and what could not be judged."""

    violations: tuple[Violation, ...]
    examined: dict[str, int] = field(default_factory=dict)
    unjudged: tuple[str, ...] = ()


def check(world: World) -> CheckReport:
    """Find all violations, in the order classes, namespaces, pods; each group by name."""
    snapshot = world.snapshot
    return CheckReport(
        violations=(
            *_class_violations(world),
            *_namespace_violations(world),
            *(v for found in pod_violations(world).values() for v in found),
        ),
        examined={
            "classes": len(snapshot.classes),
            "namespaces": len(snapshot.namespaces),
            "pods": len(snapshot.pods),
            "nodes": len(snapshot.nodes),
        },
        unjudged=tuple(_unjudged(world)),
    )


def _unjudged(world: World) -> Iterator[str]:
    snapshot = world.snapshot
    if not snapshot.knows(Part.NODES):
        yield "nodes are not known, so where pods run and what classes match is not judged"
    if not snapshot.knows(Part.CLASSES):
        yield "classes are not all known, so none is called missing"
    if not snapshot.knows(Part.NAMESPACES):
        yield "namespaces are not all known, so inheritance is taken as it is written on them"
    if not snapshot.knows(Part.PODS):
        yield "pods are not all known, so anti-affinity and spread are judged by those seen"


def _class_violations(world: World) -> Iterator[Violation]:
    for name in sorted({*world.classes, *world.bound}):
        bound = world.bound.get(name, ())
        for finding in _class_findings(world, name, len(bound)):
            yield Violation(ViolationKind.CLASS, Subject("SchedulingClass", name), finding, name)


def _class_findings(world: World, name: str, bound: int) -> Iterator[Finding]:
    cls = world.classes.get(name)
    used = f"{bound} namespace{'' if bound == 1 else 's'} bound to it"
    match world.health(name):
        case Health.MISSING:
            message = f"does not exist, with {used}; pods there are not pinned: create it"
            yield Finding(Reason.CLASS_NOT_FOUND, message, Severity.ERROR)
        case Health.DELETING if bound:
            message = f"is being deleted, with {used}; give them another class"
            yield Finding(Reason.DELETING, message, Severity.ERROR)
        case Health.NO_NODES:
            count = len(world.snapshot.nodes)
            message = f"matches none of {count} nodes, with {used}; label nodes or correct it"
            yield Finding(Reason.NO_MATCHING_NODES, message, Severity.ERROR)
        case _:
            pass
    if cls is not None:
        yield from _spec_findings(cls)


def _spec_findings(cls: SchedulingClass) -> Iterator[Finding]:
    yield from cls.errors


def _namespace_violations(world: World) -> Iterator[Violation]:
    for name in sorted(world.namespaces):
        record = world.namespaces[name]
        effective = world.effective(name)
        subject = Subject("Namespace", name)
        class_name = effective.class_name or ""
        for finding in inheritance.findings(world.tree, record.namespace, effective):
            yield Violation(ViolationKind.INHERITANCE, subject, finding, class_name)
        drift = why_drifted(world, name)
        if drift is not None:
            yield Violation(ViolationKind.DRIFT, subject, drift, class_name)


def why_drifted(world: World, name: str) -> Finding | None:
    """Say which of our keys on a namespace are not what they should be; None if all are.

    A namespace that no API server has stored (without uid) is not judged: the operator has yet to
    write on it. Neither is one that is being deleted.
    """
    record = world.namespaces[name]
    ns = record.namespace
    effective = world.effective(name)
    stored = bool(ns.uid) and not ns.deleting and name not in world.tree.excluded
    if not stored or not world.snapshot.knows(Part.NAMESPACES):
        return None
    exists = world.exists(effective.class_name) if effective.class_name is not None else False
    current = NamespaceKeys.of(ns)
    desired = desired_keys(ns, effective, class_exists=exists)
    if current == desired:
        return None
    wrong = [
        f"{key} is {_shown(now)} instead of {_shown(then)}"
        for now_keys, then_keys in (
            (current.labels(), desired.labels()),
            (current.annotations(), desired.annotations()),
        )
        for key, now, then in ((k, now_keys[k], then_keys[k]) for k in then_keys)
        if now != then
    ]
    message = f"{'; '.join(wrong)}. The operator has not written it yet, or somebody reverts it"
    return Finding(Reason.LABEL_DRIFT, message, Severity.WARNING, "metadata")


def _shown(value: str | None) -> str:
    return "absent" if value is None else f'"{value}"'


@lru_cache(maxsize=2)  # of a world and of the world after a change
def pod_violations(world: World) -> Mapping[str, tuple[Violation, ...]]:
    """Violations of pods by namespace and name; pods without any are left out."""
    cluster = world.cluster(own_terms=False)
    decisions = Decisions(cluster, Scope.CLASS)
    found: dict[str, tuple[Violation, ...]] = {}
    # Pods of one namespace together: they share what decisions have compiled.
    for name in sorted(world.pods_by_namespace):
        for record in world.pods_by_namespace[name]:
            violations = tuple(_of_pod(world, record, decisions))
            if violations:
                found[record.key] = violations
    return found


def _of_pod(world: World, record: PodRecord, decisions: Decisions) -> Iterator[Violation]:
    pod = record.pod
    of_namespace = world.effective(pod.namespace).class_name
    class_name = of_namespace or pod.class_annotation
    if class_name is None:
        return
    subject = Subject("Pod", pod.name, pod.namespace)
    node = world.nodes.get(pod.node_name)
    for breach in compliance.pod_breaches(
        record,
        world.classes.get(class_name),
        node.node if node is not None else None,
        decisions,
        of_namespace=of_namespace,
        exempt_daemon_sets=world.policy.exempt_daemon_sets,
    ):
        yield Violation(breach.kind, subject, breach.finding, class_name, pod.node_name)
