"""What-ifs: a snapshot as it would be after a change."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from schedclass.domain import names
from schedclass.domain.insight.snapshot import (
    Fault,
    NamespaceRecord,
    NodeRecord,
    Part,
    Snapshot,
    Workload,
)
from schedclass.domain.insight.world import World
from schedclass.domain.namespaces import is_writable_class_name
from schedclass.domain.near import did_you_mean

T = TypeVar("T")


class ChangeError(ValueError):
    """A change that cannot be made; the message says why and how it is written."""


def overlay(base: Snapshot, changed: Snapshot) -> Snapshot:
    """The base with the objects of another snapshot put in, or in place of those of their name.

    Parts that the base does not know stay unknown: a few objects do not make them whole.
    """
    given = [record for record in changed.namespaces if not record.implied]
    there = {record.namespace.name: record for record in base.namespaces}
    implied = [
        record
        for record in changed.namespaces
        if record.implied and record.namespace.name not in there
    ]
    return replace(
        base,
        nodes=_merged(base.nodes, changed.nodes, lambda record: record.node.name),
        namespaces=_merged(
            base.namespaces,
            [*(_applied(record, there) for record in given), *implied],
            lambda record: record.namespace.name,
        ),
        tenants=_merged(
            base.tenants, changed.tenants, lambda tenant: f"{tenant.namespace}/{tenant.name}"
        ),
        classes=_merged(base.classes, changed.classes, lambda cls: cls.name),
        pods=_merged(base.pods, changed.pods, lambda record: record.key),
        workloads=_merged(base.workloads, changed.workloads, lambda workload: workload.key),
        faults=tuple(
            dict.fromkeys(
                (
                    *(fault for fault in base.faults if not _given_anew(fault, changed)),
                    *changed.faults,
                )
            )
        ),
        origin=f"{base.origin}, changed by {changed.origin}" if changed.origin else base.origin,
    )


def _given_anew(fault: Fault, changed: Snapshot) -> bool:
    if fault.kind == names.KIND:
        return any(cls.name == fault.name for cls in changed.classes)
    given = (r.namespace.name for r in changed.namespaces if not r.implied)
    return fault.kind == "Namespace" and fault.name in given


def of_workloads(known: Iterable[Workload], wanted: Iterable[Workload]) -> tuple[Workload, ...]:
    """Those of the known workloads that are wanted ones or are controlled by them.

    They tell whose the running pods are. What others want is the business of their controllers.
    """
    keys = {workload.key for workload in wanted}
    return tuple(
        workload
        for workload in known
        if workload.key in keys
        or (
            workload.owner is not None
            and f"{workload.owner.kind} {workload.namespace}/{workload.owner.name}" in keys
        )
    )


def _merged(base: Iterable[T], changed: Iterable[T], key: Callable[[T], str]) -> tuple[T, ...]:
    found = {key(item): item for item in base}
    found.update({key(item): item for item in changed})
    return tuple(found.values())


def _applied(record: NamespaceRecord, there: Mapping[str, NamespaceRecord]) -> NamespaceRecord:
    """A manifest without uid changes the namespace that is there; it does not re-create it.

    What the operator wrote on it, and who owns it, stays where the manifest says nothing of it.
    """
    old = there.get(record.namespace.name)
    if old is None or record.namespace.uid:
        return record
    new, was = record.namespace, old.namespace
    kept = {
        key: old.labels[key]
        for key in (names.CLASS_KEY, names.ENFORCED)
        if key in old.labels and key not in record.labels
    }
    namespace = replace(
        new,
        uid=was.uid,
        label=was.label if names.CLASS_KEY not in record.labels else new.label,
        enforced=was.enforced if names.ENFORCED not in record.labels else new.enforced,
        inherited_from=new.inherited_from or was.inherited_from,
        inherited_class=new.inherited_class or was.inherited_class,
        inherited_from_uid=new.inherited_from_uid or was.inherited_from_uid,
        requested=new.requested or was.requested,
        owners=new.owners or was.owners,
        deleting=new.deleting or was.deleting,
    )
    return replace(record, namespace=namespace, labels={**record.labels, **kept})


def set_class(world: World, name: str, class_name: str | None) -> Snapshot:
    """A namespace asks for another class, or (None) for none any more.

    The wish is written where it counts: into the Tenant that speaks for the namespace, else onto
    the namespace.

    Raises:
        ChangeError: there is no such namespace, or the name cannot be a class.
    """
    record = world.namespaces.get(name)
    if record is None:
        near = did_you_mean(name, world.namespaces)
        raise ChangeError(f"there is no namespace {name} to give a class to{near}")
    if class_name is not None and not is_writable_class_name(class_name):
        raise ChangeError(f'"{class_name}" is no class name')
    snapshot, ns = world.snapshot, record.namespace
    tenant = world.tree.tenant_of(ns)
    if tenant is not None:
        tenants = (
            replace(t, class_name=class_name) if t == tenant else t for t in snapshot.tenants
        )
        return replace(snapshot, tenants=tuple(tenants))
    if ns.inherited_from is not None:
        ns = replace(ns, requested=class_name, label=ns.inherited_class or ns.label)
    else:
        ns = replace(ns, requested=None, label=class_name)
    changed = replace(record, namespace=ns)
    return replace(
        snapshot,
        namespaces=tuple(changed if r is record else r for r in snapshot.namespaces),
    )


def remove_node(snapshot: Snapshot, name: str) -> Snapshot:
    """A node goes; see `impact.displaced` for its pods.

    Raises:
        ChangeError: there is no such node.
    """
    _node(snapshot, name)
    return replace(
        snapshot,
        nodes=tuple(record for record in snapshot.nodes if record.node.name != name),
    )


def relabel_node(snapshot: Snapshot, name: str, changes: Mapping[str, str | None]) -> Snapshot:
    """A node gets labels (None: loses them).

    Raises:
        ChangeError: there is no such node.
    """
    record = _node(snapshot, name)
    labels = {**record.node.labels, **{k: v for k, v in changes.items() if v is not None}}
    for key, value in changes.items():
        if value is None:
            labels.pop(key, None)
    changed = replace(record, node=replace(record.node, labels=labels))
    return replace(snapshot, nodes=tuple(changed if r is record else r for r in snapshot.nodes))


def _node(snapshot: Snapshot, name: str) -> NodeRecord:
    for record in snapshot.nodes:
        if record.node.name == name:
            return record
    known = "" if snapshot.knows(Part.NODES) else f" ({snapshot.unknown[Part.NODES]})"
    near = did_you_mean(name, (record.node.name for record in snapshot.nodes))
    raise ChangeError(f"there is no node {name}{known}{near}")
