"""Everything in a snapshot that is not as the classes want it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from schedclass.domain import compliance, inheritance, names
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import NamespaceKeys, desired_keys
from schedclass.domain.insight.scheduler_sign import scheduler_missing_by_status
from schedclass.domain.insight.snapshot import Part, PodRecord
from schedclass.domain.insight.world import Health, World
from schedclass.domain.near import did_you_mean
from schedclass.domain.podfields import ClassSpec
from schedclass.domain.scheduling import Decisions, Scope
from schedclass.domain.schedulingclass import SchedulingClass

NOTES: Final = frozenset(
    {
        Reason.OVERRIDE_IGNORED,
        Reason.EMPTY_SPEC,
        Reason.UNKNOWN_KEY,
        Reason.ALREADY_RIGHT,
        Reason.CLASS_DIFFERS,
        Reason.SELECTOR_NOT_FILLED,
    }
)
"""What may be meant as it is, and may stay so for ever: worth a look, and nothing is broken."""


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

    @property
    def is_note(self) -> bool:
        """Whether it is told only, and fails nothing."""
        return self.finding.reason in NOTES


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found.

    Attributes:
        violations: what is not as it should be.
        notes: what may be meant so, see `NOTES`.
        examined: how many objects were judged, by kind.
        unjudged: what could not be judged, a sentence each.
    """

    violations: tuple[Violation, ...]
    notes: tuple[Violation, ...] = ()
    examined: dict[str, int] = field(default_factory=dict)
    unjudged: tuple[str, ...] = ()


def check(world: World, namespace: str = "") -> CheckReport:
    """Find everything, in the order manifests, classes, namespaces, pods; each group by name.

    Args:
        world: what is judged.
        namespace: judge only this one: itself, its pods, and the classes that apply to them;
            empty for all.
    """
    snapshot = world.snapshot
    spaces = [name for name in sorted(world.namespaces) if namespace in ("", name)]
    classes = _classes_of(world, namespace) if namespace else {*world.classes, *world.bound}
    found = (
        *_faults(world, namespace, classes),
        *_class_violations(world, classes),
        *_namespace_violations(world, spaces),
        *_differences(world, spaces),
        *_without_effect(world, namespace),
        *(
            v
            for violations in pod_violations(world).values()
            for v in violations
            if namespace in ("", v.subject.namespace)
        ),
    )
    return CheckReport(
        violations=tuple(violation for violation in found if not violation.is_note),
        notes=tuple(violation for violation in found if violation.is_note),
        examined={
            "classes": len(classes & set(world.classes)),
            "namespaces": len(spaces),
            "pods": sum(namespace in ("", record.pod.namespace) for record in snapshot.pods),
            "nodes": len(snapshot.nodes),
        },
        unjudged=tuple(_unjudged(world, namespace)),
    )


def _classes_of(world: World, namespace: str) -> set[str]:
    """The classes that apply to a namespace and to its pods."""
    found = {world.effective(namespace).class_name}
    found |= {world.class_name_of(r) for r in world.pods_by_namespace.get(namespace, ())}
    return {name for name in found if name is not None}


def _faults(world: World, namespace: str, classes: Collection[str]) -> Iterator[Violation]:
    for fault in world.snapshot.faults:
        of_class = fault.kind.lower() == names.KIND.lower()
        place = fault.namespace or ("" if of_class else fault.name)
        if namespace not in ("", place) and not (of_class and fault.name in classes):
            continue
        subject = Subject(fault.kind, fault.name, fault.namespace)
        class_name = fault.name if of_class else ""
        yield Violation(ViolationKind.MANIFEST, subject, fault.finding, class_name)


def fault_violations(world: World) -> tuple[Violation, ...]:
    """What is wrong with objects as they were given."""
    return tuple(_faults(world, "", ()))


def _unjudged(world: World, namespace: str) -> Iterator[str]:
    snapshot = world.snapshot
    if namespace and namespace not in world.namespaces:
        yield f"namespace {namespace} is not seen, so nothing of it is judged"
    if not snapshot.knows(Part.NODES):
        yield "nodes are not known, so where pods run and what classes match is not judged"
    if not snapshot.knows(Part.CLASSES):
        yield "classes are not all known, so none is called missing"
    if not snapshot.knows(Part.NAMESPACES):
        yield "namespaces are not all known, so inheritance is taken as it is written on them"
    if not snapshot.knows(Part.PODS):
        yield "pods are not all known, so anti-affinity and spread are judged by those seen"


def _class_violations(world: World, classes: Collection[str]) -> Iterator[Violation]:
    for name in sorted(classes):
        bound = world.bound.get(name, ())
        for finding in _class_findings(world, name, len(bound)):
            yield Violation(ViolationKind.CLASS, Subject("SchedulingClass", name), finding, name)


def _class_findings(world: World, name: str, bound: int) -> Iterator[Finding]:
    cls = world.classes.get(name)
    used = f"{bound} namespace{'' if bound == 1 else 's'} bound to it"
    match world.health(name):
        case Health.MISSING:
            near = did_you_mean(name, world.classes)
            message = f"does not exist, with {used}; pods there are not pinned: create it{near}"
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
    if bound and (missing := scheduler_missing_by_status(cls)) is not None:
        yield missing
    if cls is not None:
        yield from cls.errors
        yield from spec_notes(cls)


def spec_notes(cls: SchedulingClass) -> Iterator[Finding]:
    """What in a valid class is probably not as it was meant."""
    unknown = [found for found in cls.warnings if found.reason is Reason.UNSUPPORTED_FIELD]
    yield from unknown
    if cls.spec == ClassSpec() and not unknown:
        message = "constrains nothing: its pods may run on every node"
        yield Finding(Reason.EMPTY_SPEC, message, path="spec")


def _namespace_violations(world: World, spaces: Collection[str]) -> Iterator[Violation]:
    for name in spaces:
        record = world.namespaces[name]
        effective = world.effective(name)
        subject = Subject("Namespace", name)
        class_name = effective.class_name or ""
        for finding in inheritance.findings(world.tree, record.namespace, effective):
            yield Violation(ViolationKind.INHERITANCE, subject, finding, class_name)
        for finding in record.stray:
            yield Violation(ViolationKind.INHERITANCE, subject, finding, class_name)
        drift = why_drifted(world, name)
        if drift is not None:
            yield Violation(ViolationKind.DRIFT, subject, drift, class_name)


def _differences(world: World, spaces: Collection[str]) -> Iterator[Violation]:
    """Pods that name another class than their namespace has: one line for all that name the same.

    A change of class leaves every older pod of the tenants below like that.
    """
    for name in spaces:
        class_name = world.effective(name).class_name
        if class_name is None:
            continue
        pods: dict[str, list[str]] = {}
        for record in world.pods_by_namespace.get(name, ()):
            named = _class_named_instead(record, class_name)
            if named is not None:
                pods.setdefault(named, []).append(record.pod.name)
        for named, found in sorted(pods.items()):
            message = f"{_such_as(found)}: {_difference(named, class_name)}"
            finding = Finding(Reason.CLASS_DIFFERS, message)
            yield Violation(ViolationKind.DRIFT, Subject("Namespace", name), finding, class_name)


def _without_effect(world: World, namespace: str) -> Iterator[Violation]:
    """Parts of classes that have no effect: one line for all pods that lack the same labels.

    Every pod of a Job, and every bare pod, of an application may lack them.
    """
    for name in sorted(world.pods_by_namespace):
        if namespace not in ("", name):
            continue
        pods: dict[tuple[str, Finding], list[str]] = {}
        for record in world.pods_by_namespace[name]:
            lost, class_name = world.not_filled(record), world.class_applied(record)
            if lost is not None and class_name is not None:
                pods.setdefault((class_name, lost), []).append(record.pod.name)
        for (class_name, lost), found in sorted(pods.items(), key=lambda entry: entry[1]):
            finding = replace(lost, message=f"{_such_as(found)}: {lost.message}")
            yield Violation(ViolationKind.CLASS, Subject("Namespace", name), finding, class_name)


def _such_as(pods: Collection[str]) -> str:
    number = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    return f"{number}, such as {min(pods)}"


def class_differs(record: PodRecord, class_name: str) -> Finding | None:
    """The finding about a pod that names another class than `class_name`, its namespace's."""
    named = _class_named_instead(record, class_name)
    if named is None:
        return None
    message = _difference(named, class_name)
    return Finding(Reason.CLASS_DIFFERS, message, path="metadata.annotations")


def _class_named_instead(record: PodRecord, class_name: str) -> str | None:
    annotation = record.pod.class_annotation
    return compliance.named_instead(record.scheduler, annotation, class_name, stored=record.stored)


def _difference(named: str, class_name: str) -> str:
    return (
        f'the annotation names class "{named}", while the namespace\'s "{class_name}" counts; '
        "create the pod anew to have that written"
    )


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
