"""What a what-if leads to beyond the pods of today: classes that cannot hold those to come."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from schedclass.domain import inheritance
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.insight.checks import Subject, Violation, fault_violations, spec_notes
from schedclass.domain.insight.world import Health, World
from schedclass.domain.near import did_you_mean

Wishes = Mapping[str, str | None]
"""Class by tenant, as asked for; None takes the class off."""

_TROUBLED: Final = (Health.MISSING, Health.INVALID, Health.NO_NODES, Health.DELETING)


def consequences(
    before: World, after: World, wishes: Wishes, placing: Collection[str]
) -> Iterator[Violation]:
    """Troubles of classes that the change makes, or that it leads tenants into.

    What was wrong before and stays as it was is the business of `check`.

    Args:
        before: as it is.
        after: as it would be.
        wishes: what tenants ask for by the change.
        placing: namespaces that are looked at whatever has changed there: those of the pods that
            are placed, and those that were given.
    """
    led: dict[str, list[str]] = {wish: [] for wish in wishes.values() if wish is not None}
    led |= {name: [] for name in after.classes if _is_new(before, after, name)}
    for name in sorted(after.namespaces):
        class_name = after.effective(name).class_name
        if class_name is None:
            continue
        stays = before.effective(name).class_name == class_name
        same = stays and before.health(class_name) is after.health(class_name)
        if name in placing or not same or class_name in led:
            led.setdefault(class_name, []).append(name)
    for class_name in sorted(led):
        if after.health(class_name) in _TROUBLED:
            finding = _trouble(after, class_name, len(led[class_name]))
            subject = Subject("SchedulingClass", class_name)
            yield Violation(ViolationKind.CLASS, subject, finding, class_name)


def _is_new(before: World, after: World, name: str) -> bool:
    old, new = before.classes.get(name), after.classes[name]
    return old is None or (old.spec, old.findings) != (new.spec, new.findings)


def _trouble(world: World, name: str, number: int) -> Finding:
    tenants = f"{number} tenant{'' if number == 1 else 's'}"
    match world.health(name):
        case Health.MISSING:
            reason = Reason.CLASS_NOT_FOUND
            what, then = "does not exist", f"new pods of {tenants} would not be pinned"
        case Health.INVALID:
            reason = Reason.INVALID_SPEC
            what = f"is not valid ({world.classes[name].errors[0]})"
            then = f"new pods of {tenants} would find no node"
        case Health.DELETING:
            reason = Reason.DELETING
            what, then = "is being deleted", f"{tenants} would have to get another one"
        case _:
            reason = Reason.NO_MATCHING_NODES
            what = f"matches none of {len(world.nodes)} nodes"
            then = f"new pods of {tenants} would wait for one"
    then = then if number else "no tenant would have it"
    hint = did_you_mean(name, world.classes) if reason is Reason.CLASS_NOT_FOUND else ""
    return Finding(reason, f"class {name} {what}: {then}{hint}", Severity.ERROR)


def without_effect(before: World, after: World, wishes: Wishes) -> Iterator[Violation]:
    """Why wishes come to nothing, each with its reason."""
    for tenant in sorted(wishes):
        finding = _no_effect(before, after, tenant, wishes[tenant])
        if finding is not None:
            class_name = after.effective(tenant).class_name or ""
            subject = Subject("Namespace", tenant)
            yield Violation(ViolationKind.INHERITANCE, subject, finding, class_name)


def _no_effect(before: World, after: World, tenant: str, wish: str | None) -> Finding | None:
    told = f"{tenant}={wish or ''} has no effect"
    if tenant in after.tree.excluded:
        message = f"{told}: {tenant} is never pinned"
        return Finding(Reason.NAMESPACE_EXCLUDED, message)
    old, new = before.effective(tenant), after.effective(tenant)
    if new.kept:
        message = f"{told}: {new.class_name} is kept although {new.origin}, which gave it, is gone"
        return Finding(Reason.PARENT_MISSING, message)
    if new.class_name != wish or (new.origin not in ("", tenant) and old.class_name == wish):
        message = f"{told}: {new.origin} sets {new.class_name} for all tenants below it"
        return Finding(Reason.OVERRIDE_IGNORED, message)
    if old.class_name == wish:
        already = f"has class {wish} already" if wish else "has no class anyway"
        return Finding(Reason.ALREADY_RIGHT, f"{told}: {tenant} {already}", Severity.NORMAL)
    return None


def ignored_wishes(after: World, changed: Collection[str]) -> Iterator[Violation]:
    """What inheritance has to say of namespaces that were changed by manifests."""
    for name in sorted(changed):
        record = after.namespaces.get(name)
        if record is None:
            continue
        effective = after.effective(name)
        for finding in inheritance.findings(after.tree, record.namespace, effective):
            subject = Subject("Namespace", name)
            yield Violation(ViolationKind.INHERITANCE, subject, finding, effective.class_name or "")


def faults_of(before: World, after: World, changed: Collection[str]) -> Iterator[Violation]:
    """What is wrong with the objects that were given, and with those that were changed.

    Args:
        before: as it is.
        after: as it would be.
        changed: names of the namespaces among them.
    """
    yield from fault_violations(after)
    for cls in after.snapshot.classes:
        for finding in spec_notes(cls):
            if finding.reason is Reason.EMPTY_SPEC and not _is_new(before, after, cls.name):
                continue
            subject = Subject("SchedulingClass", cls.name)
            yield Violation(ViolationKind.CLASS, subject, finding, cls.name)
    for name in sorted(changed & after.namespaces.keys()):
        for finding in after.namespaces[name].stray:
            yield Violation(ViolationKind.INHERITANCE, Subject("Namespace", name), finding)


def uncertain(world: World, wishes: Wishes) -> Iterator[str]:
    """What cannot be told of the classes that were asked for, a sentence each."""
    for name in sorted({wish for wish in wishes.values() if wish is not None}):
        if world.exists(name) is None:
            yield f"whether class {name} exists is not known"
