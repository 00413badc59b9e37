"""A whole simulation: every pod that waits, and every pod that workloads still want, in turn."""

from dataclasses import dataclass, replace
from typing import Final

from schedclass.domain.insight.capacity import NODE_PORTS, NODE_RESOURCES
from schedclass.domain.insight.foreseen import refusal
from schedclass.domain.insight.preemption import Preemption, preemption
from schedclass.domain.insight.priorities import unknown_priorities
from schedclass.domain.insight.simulation import Judgement, Simulator
from schedclass.domain.insight.snapshot import Part, PodRecord
from schedclass.domain.insight.wanted import (
    MOST,
    Candidate,
    candidates,
    left_out,
)
from schedclass.domain.insight.world import World
from schedclass.domain.scheduling import Plugin

KUBELET_RULES: Final = (Plugin.NODE_AFFINITY.value, NODE_PORTS, NODE_RESOURCES)
"""What a kubelet checks once more of a pod that comes to its node (`GeneralPredicates`)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one pod goes.

    Attributes:
        pod: namespace and name.
        group: what it belongs to, e.g. `Deployment shop/web`; for a pod of its own its name.
        class_name: the class that was applied.
        node: the node, empty if there is none for it.
        message: why there is none, or why no scheduler was asked for it.
        preempted: pods that have to end for it.
    """

    pod: str
    group: str
    class_name: str | None
    node: str
    message: str = ""
    preempted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that look alike: those of a workload, or one by itself.

    Attributes:
        name: e.g. `Deployment shop/web`.
        first: what is said of its first pod, before any of them is placed.
        placements: of its pods, in turn.
    """

    name: str
    first: Judgement
    placements: tuple[Placement, ...]

    @property
    def placed(self) -> int:
        """How many of them found a node."""
        return sum(bool(placement.node) for placement in self.placements)


def run(world: World) -> tuple[Group, ...]:
    """Place all candidates in turn.

    Returns:
        Groups in the order in which their first pod had its turn.
    """
    simulator = Simulator(world)
    alive = {record.pod.uid: record for record in world.snapshot.pods if record.running}
    queue = candidates(world)
    for candidate in queue:  # what was given with a node, and admission would not let in
        given = alive.pop(candidate.record.pod.uid, None)
        if given is not None:
            simulator.remove(given, given.pod.node_name)
    first: dict[str, Judgement] = {}
    placements: dict[str, list[Placement]] = {}
    stuck: tuple[Candidate, Judgement] | None = None
    for candidate in queue:
        record = candidate.record
        made, known = None, stuck is not None and _alike(candidate, stuck[0])
        judgement = stuck[1] if stuck and known else _judged(world, simulator, candidate)
        first.setdefault(candidate.group, judgement)
        if not (judgement.node or judgement.gated or known):
            made = preemption(simulator, record, judgement, alive.values())
        placement = _settle(simulator, candidate, judgement, made)
        for victim in made.victims if made else ():
            del alive[victim.pod.uid]
        if placement.node:
            alive[record.pod.uid] = replace(record, pod=record.pod.on(placement.node))
        stuck = None if placement.node else (candidate, judgement)
        placements.setdefault(candidate.group, []).append(placement)
    return tuple(Group(name, first[name], tuple(placements[name])) for name in placements)


def _alike(one: Candidate, other: Candidate) -> bool:
    """Whether two pods differ by name only: the second fares as the first if nothing moved."""
    if one.group != other.group or one.only != other.only:
        return False
    pod = replace(one.record.pod, uid=other.record.pod.uid, name=other.record.pod.name)
    return replace(one.record, pod=pod) == other.record


def _judged(world: World, simulator: Simulator, candidate: Candidate) -> Judgement:
    """What becomes of a pod before any scheduler sees it, else what the scheduler says."""
    record = candidate.record
    refused = refusal(world, record)
    if refused is not None:
        return _unasked(world, record, "", f"admission would refuse it: {refused}")
    node = record.pod.node_name
    if not node:
        return simulator.judge(record, candidate.only)
    named = f'it names node "{node}" itself'
    if node not in world.nodes:
        return _unasked(world, record, "", f"{named}, which is not known")
    unplaced = replace(record, pod=record.pod.on(""))
    for check in simulator.judge(unplaced, (node,)).verdicts[0].rejections:
        if check.rule in KUBELET_RULES and not check.class_name:
            why = f"{named}, whose kubelet would reject it: {check.message}"
            return _unasked(world, record, "", why)
    return _unasked(world, record, node, f"{named}, so no scheduler is asked")


def _unasked(world: World, record: PodRecord, node: str, why: str) -> Judgement:
    return Judgement(
        class_name=world.class_applied(record),
        scheduler=record.scheduler,
        verdicts=(),
        node=node,
        message=why,
    )


def _settle(
    simulator: Simulator, candidate: Candidate, judgement: Judgement, made: Preemption | None
) -> Placement:
    record, node = candidate.record, judgement.node
    if made is not None:
        node = made.node
        for victim in made.victims:
            simulator.remove(victim, victim.pod.node_name)
    if node:
        simulator.place(record, node)
    return Placement(
        pod=record.key,
        group=candidate.group,
        class_name=judgement.class_name,
        node=node,
        message=judgement.message,
        preempted=tuple(victim.key for victim in made.victims) if made else (),
    )


NOT_MODELLED = (
    "volumes, devices (DRA), images, gang scheduling and PodDisruptionBudgets are not modelled"
)


def caveats(world: World) -> tuple[str, ...]:
    """What the answer does not take into account."""
    found = [
        f"cordon, ports, resources, default spreading and preemption are a model; {NOT_MODELLED}"
    ]
    if any(record.allocatable is None for record in world.snapshot.nodes):
        found.append("nodes without status.allocatable are taken to have room for everything")
    if not world.snapshot.knows(Part.PODS):
        found.append(f"pods: {world.snapshot.unknown[Part.PODS]}; others may take up room")
    if not world.snapshot.knows(Part.CLASSES):
        found.append(f"classes: {world.snapshot.unknown[Part.CLASSES]}; those constrain nothing")
    found += [
        f"PriorityClass {name} is not known: its pods are taken to have priority 0"
        for name in unknown_priorities(world.snapshot)
    ]
    found += [
        f"{workload} wants {missing} more pods: only the first {MOST} are placed"
        for workload, missing in left_out(world)
    ]
    return tuple(found)
