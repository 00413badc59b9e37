"""What a change does: to tenants, to pods that run, to pods that wait."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from schedclass.domain.insight.checks import Violation, pod_violations
from schedclass.domain.insight.snapshot import PodRecord, Snapshot
from schedclass.domain.insight.trial import Group
from schedclass.domain.insight.world import World


@dataclass(frozen=True, slots=True)
class Touched:
    """A tenant that gets another class, or whose class gets another content.

    Attributes:
        namespace: which.
        before, after: names of the classes, None for none; equal if the content changed.
        pods: how many pods run or wait in it.
    """

    namespace: str
    before: str | None
    after: str | None
    pods: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A waiting pod that fares otherwise.

    Attributes:
        pod: namespace and name.
        before, after: the node, empty for none.
        message: why there is none afterwards.
    """

    pod: str
    before: str
    after: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Impact:
    """All that is otherwise afterwards.

    Attributes:
        tenants: touched namespaces.
        breaking: what running pods break that they did not break before; nobody evicts them for
            it by itself.
        mended: what they no longer break.
        starting: waiting pods that find a node only afterwards.
        stopping: waiting pods that find none any more, and pods that lose theirs.
        moved: pods that go elsewhere.
        ending: pods that end and are not made anew.
    """

    tenants: tuple[Touched, ...]
    breaking: tuple[Violation, ...]
    mended: tuple[Violation, ...]
    starting: tuple[Outcome, ...]
    stopping: tuple[Outcome, ...]
    moved: tuple[Outcome, ...]
    ending: tuple[Outcome, ...]


def impact(
    before: World, after: World, groups_before: tuple[Group, ...], groups: tuple[Group, ...]
) -> Impact:
    """Compare two worlds.

    Args:
        before: as it is.
        after: as it would be.
        groups_before: what `trial.run` says of `before`.
        groups: what it says of `after`.
    """
    old, new = _broken(before), _broken(after)
    nodes_before = _nodes(before, groups_before)
    nodes_after = _nodes(after, groups)
    messages = {_key(after, group, p.pod): p.message for group in groups for p in group.placements}
    outcomes = [
        Outcome(key[0], nodes_before[key], node, messages.get(key, ""))
        for key, node in sorted(nodes_after.items())
        if key in nodes_before and nodes_before[key] != node
    ]
    return Impact(
        tenants=_touched(before, after),
        breaking=tuple(new[key] for key in sorted(new) if key not in old),
        mended=tuple(old[key] for key in sorted(old) if key not in new),
        starting=tuple(o for o in outcomes if not o.before),
        stopping=tuple(o for o in outcomes if not o.after),
        moved=tuple(o for o in outcomes if o.before and o.after),
        ending=tuple(
            Outcome(key[0], node, "")
            for key, node in sorted(nodes_before.items())
            if node and key not in nodes_after
        ),
    )


def _broken(world: World) -> dict[tuple[str, str], Violation]:
    return {
        (key, violation.kind.value): violation
        for key, violations in pod_violations(world).items()
        for violation in violations
    }


_Key = tuple[str, str]
"""A pod, and the group that wants it where it does not exist: workloads may agree on a name."""


def _key(world: World, group: Group, pod: str) -> _Key:
    return pod, "" if pod in world.pod_keys else group.name


def _nodes(world: World, groups: tuple[Group, ...]) -> dict[_Key, str]:
    """Where each pod is in the end, empty for nowhere."""
    found: dict[_Key, str] = {
        (record.key, ""): record.pod.node_name for record in world.snapshot.pods if record.running
    }
    preempted: set[str] = set()
    for group in groups:
        for placement in group.placements:
            found[_key(world, group, placement.pod)] = placement.node
            preempted.update(placement.preempted)
    found.update((key, "") for key in list(found) if key[0] in preempted)
    return found


def _touched(before: World, after: World) -> tuple[Touched, ...]:
    found = []
    for name in sorted({*before.namespaces, *after.namespaces}):
        old, new = before.effective(name).class_name, after.effective(name).class_name
        if old == new and (new is None or _same_class(before, after, new)):
            continue
        pods = len(after.pods_by_namespace.get(name, ()))
        found.append(Touched(name, old, new, pods))
    return tuple(found)


def _same_class(before: World, after: World, name: str) -> bool:
    old, new = before.classes.get(name), after.classes.get(name)
    if old is None or new is None:
        return old is new
    return old.spec == new.spec and old.deleting == new.deleting


_OF_NODES = ("DaemonSet", "Node")
"""Who makes pods for one node each: a DaemonSet, and a node that shows what it runs by itself."""


def displaced(snapshot: Snapshot, gone: Collection[str] = ()) -> Snapshot:
    """Pods that cannot stay are made to wait again, as their controllers would make them anew.

    These are pods of nodes that are gone and pods that do not tolerate a NoExecute taint of their
    node. Pods without a controller, and those of DaemonSets, end instead; what a node runs by
    itself ends with the node.

    Args:
        snapshot: the cluster.
        gone: names of nodes that were there before.
    """
    nodes = {record.node.name: record.node for record in snapshot.nodes}
    kept: list[PodRecord] = []
    for record in snapshot.pods:
        node = nodes.get(record.pod.node_name)
        driven_out = (
            node is not None
            and not record.mirror
            and any(
                taint.effect == "NoExecute" and not record.pod.tolerance.covers(taint)
                for taint in node.taints
            )
        )
        if not record.running or not (driven_out or record.pod.node_name in gone):
            kept.append(record)
        elif record.owner is not None and record.owner.kind not in _OF_NODES:
            kept.append(replace(record, pod=replace(record.pod, node_name=""), scheduled=None))
    return replace(snapshot, pods=tuple(kept))
