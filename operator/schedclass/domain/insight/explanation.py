"""Decisions told step by step, each with its rule and the objects that it rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

from schedclass.domain import inheritance, names
from schedclass.domain.findings import Finding
from schedclass.domain.inheritance import Effective
from schedclass.domain.insight.checks import Subject, why_drifted
from schedclass.domain.insight.scheduler_sign import scheduler_missing_by_status
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.world import Health, World
from schedclass.domain.namespaces import Namespace
from schedclass.domain.near import did_you_mean


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a decision.

    Attributes:
        rule: the rule that is applied.
        says: what it gives here.
        rests_on: the objects and fields that were read for it.
        findings: what is worth acting on.
    """

    rule: str
    says: str
    rests_on: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision about one object.

    Attributes:
        subject: the object.
        steps: how it came about, in order.
        outcome: what it comes to, one sentence.
    """

    subject: Subject
    steps: tuple[Step, ...]
    outcome: str


def explain_namespace(world: World, name: str) -> Explanation:
    """Say which class applies to a namespace, and why; it must be known to the world."""
    steps = tuple(namespace_steps(world, name))
    effective = world.effective(name)
    return Explanation(Subject("Namespace", name), steps, _outcome(world, name, effective))


def _outcome(world: World, name: str, effective: Effective) -> str:
    if name in world.tree.excluded:
        return f"namespace {name} is excluded: no class applies, and pods are not pinned"
    if effective.class_name is None:
        unsure = "" if world.snapshot.knows(Part.NAMESPACES) else ", as far as can be seen"
        return f"no class applies to namespace {name}{unsure}; its pods are not pinned"
    whence = "its own" if effective.origin == name else f"inherited from {effective.origin}"
    missing = scheduler_missing_by_status(world.classes.get(effective.class_name))
    pinned = {
        Health.MISSING: "; the class does not exist, so new pods are not pinned"
        + did_you_mean(effective.class_name, world.classes),
        Health.INVALID: "; the class is invalid, so its pods stay Pending",
        Health.NO_NODES: "; it matches no node, so new pods stay Pending",
        Health.UNSCHEDULED: f"; {missing}",
    }.get(world.health(effective.class_name), "")
    return f'class "{effective.class_name}" applies to namespace {name}, {whence}{pinned}'


def namespace_steps(world: World, name: str) -> Iterator[Step]:
    """The steps that lead to the class of a namespace."""
    ns = world.tree.get(name)
    assert ns is not None, f"{name} is a known namespace"
    if name in world.tree.excluded:
        patterns = ", ".join(world.policy.excluded)
        found = inheritance.findings(world.tree, ns, world.effective(name))
        yield Step("Excluded", f"it matches one of the patterns {patterns}", (), found)
        return
    effective = world.effective(name)
    yield _parent_step(world, ns)
    yield _request_step(world, ns)
    for ancestor in reversed(world.tree.ancestors(ns)):
        yield _ancestor_step(world, ancestor)
    yield _decision_step(world, ns, effective)
    if effective.class_name is not None:
        yield class_step(world, effective.class_name)
    yield _written_step(world, name)


def _parent_step(world: World, ns: Namespace) -> Step:
    parent = world.tree.parent_of(ns)
    rule = "Parent"
    if parent is None:
        if ns.inherited_from and not world.snapshot.knows(Part.NAMESPACES):
            return Step(rule, f"{ns.inherited_from} is above it and cannot be seen", (_note(ns),))
        return Step(
            rule, "none: it has no owner of kind Namespace, and no tenant is above its name"
        )
    owner = next((owner for owner in ns.owners if owner.name == parent), None)
    if owner is not None:
        rests = (f"Namespace {ns.name} metadata.ownerReferences (uid {owner.uid})",)
        return Step(rule, f"{parent}, its owner of kind Namespace", rests)
    how = (
        "the root of all tenants"
        if parent == names.TENANT_ROOT and not ns.name.startswith(f"{parent}-")
        else "the longest existing prefix of its name"
    )
    return Step(rule, f"{parent}, {how}", (f"Namespace {parent}",))


def _request_step(world: World, ns: Namespace) -> Step:
    wish = inheritance.own_request(world.tree, ns)
    where = _wish_origin(world, ns, wish)
    says = f'it asks for class "{wish}"' if wish is not None else "it asks for no class itself"
    return Step("Own request", says, (where,) if where else ())


def _wish_origin(world: World, ns: Namespace, wish: str | None) -> str:
    tenant = world.tree.tenant_of(ns)
    if tenant is not None:
        return f"Tenant {tenant.namespace}/{tenant.name} spec.schedulingClass"
    if wish is None:
        return ""
    if wish == ns.requested and ns.label != wish:
        return f"Namespace {ns.name} annotation {names.REQUESTED_CLASS}"
    return f"Namespace {ns.name} label {names.CLASS_KEY}"


def _ancestor_step(world: World, ancestor: Namespace) -> Step:
    wish = inheritance.own_request(world.tree, ancestor)
    kept = inheritance.kept_class(world.tree, ancestor)
    if kept is not None:
        says = f'{ancestor.name} keeps class "{kept}" from {ancestor.inherited_from}, which is gone'
        return Step("Ancestor", says, (_note(ancestor),))
    if wish is None:
        return Step(
            "Ancestor", f"{ancestor.name} asks for no class", (f"Namespace {ancestor.name}",)
        )
    where = _wish_origin(world, ancestor, wish)
    return Step("Ancestor", f'{ancestor.name} asks for class "{wish}"', (where,))


def _note(ns: Namespace) -> str:
    return f"Namespace {ns.name} annotation {names.INHERITED_FROM}"


def _decision_step(world: World, ns: Namespace, effective: Effective) -> Step:
    found = inheritance.findings(world.tree, ns, effective)
    rule = "Inheritance: the root-most request decides"
    if effective.class_name is None:
        return Step(rule, "nobody asks for a class", (), found)
    if effective.origin == ns.name:
        return Step(rule, f'its own request decides: "{effective.class_name}"', (), found)
    says = f'the request of {effective.origin} decides: "{effective.class_name}"'
    return Step(rule, says, (f"Namespace {effective.origin}",), found)


def class_step(world: World, class_name: str) -> Step:
    """How the class is."""
    rests = (f"SchedulingClass {class_name}",)
    cls = world.classes.get(class_name)
    if cls is None:
        if world.health(class_name) is Health.MISSING:
            near = did_you_mean(class_name, world.classes)
            return Step("Class", f'class "{class_name}" does not exist{near}', rests)
        why = world.snapshot.unknown[Part.CLASSES]
        return Step("Class", f'whether class "{class_name}" exists is not known: {why}', rests)
    if cls.spec is None:
        return Step("Class", f'class "{class_name}" is invalid', rests, cls.findings)
    missing = scheduler_missing_by_status(cls)
    found = cls.findings if missing is None else (*cls.findings, missing)
    if not world.snapshot.knows(Part.NODES):
        why = world.snapshot.unknown[Part.NODES]
        says = f'class "{class_name}" is valid; which nodes it matches is not known: {why}'
        return Step("Class", says, rests, found)
    matching = world.matching_nodes(class_name)
    ready = sum(record.node.takes_pods for record in matching)
    total = len(world.snapshot.nodes)
    deleting = " and is being deleted" if cls.deleting else ""
    says = (
        f'class "{class_name}" is valid{deleting}; it matches {len(matching)} of {total} '
        f"node{'' if total == 1 else 's'}, {ready} of them ready"
    )
    return Step("Class", says, rests, found)


def _written_step(world: World, name: str) -> Step:
    record = world.namespaces[name]
    rests = (f"Namespace {name} metadata",)
    if record.implied:
        return Step("Written", "the namespace itself is not given; it follows from what is")
    if not record.namespace.uid:
        return Step("Written", "no API server has stored it yet, so nothing is written", rests)
    drift = why_drifted(world, name)
    if drift is not None:
        return Step("Written", "labels and annotations are not as decided", rests, (drift,))
    if not world.snapshot.knows(Part.NAMESPACES):
        return Step("Written", "taken as it stands, as not all namespaces can be seen", rests)
    return Step("Written", "labels and annotations are as decided", rests)
