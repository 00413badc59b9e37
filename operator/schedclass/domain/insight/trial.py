"""A whole simulation: every pod that waits, and every pod that workloads still want, in turn."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from schedclass.domain.insight.preemption import Preemption, preemption
from schedclass.domain.insight.simulation import Judgement, Simulator
from schedclass.domain.insight.snapshot import Part, PodRecord, Workload
from schedclass.domain.insight.world import World


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one pod goes.

    Attributes:
        pod: namespace and name.
        group: what it belongs to, e.g. `Deployment shop/web`; for a pod of its own its name.
        class_name: the class that was applied.
        node: the node, empty if there is none for it.
        message: why there is none.
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod to be placed."""

    record: PodRecord
    group: str
    only: tuple[str, ...] = ()


def candidates(world: World) -> list[Candidate]:
    """The pods to be placed, in the order of kube-scheduler's queue: priority, then age."""
    waiting = [
        Candidate(record, world.group_of(record))
        for record in world.snapshot.pods
        if record.pending
    ]
    waiting.sort(key=lambda candidate: candidate.record.created)
    every = [*waiting, *_wanted(world)]
    return sorted(every, key=lambda candidate: -candidate.record.pod.priority)


def run(world: World) -> tuple[Group, ...]:
    """Place all candidates in turn.

    Returns:
        Groups in the order in which their first pod had its turn.
    """
    simulator = Simulator(world)
    alive = {record.key: record for record in world.snapshot.pods if record.running}
    first: dict[str, Judgement] = {}
    placements: dict[str, list[Placement]] = {}
    for candidate in candidates(world):
        record = candidate.record
        judgement = simulator.judge(record, candidate.only)
        first.setdefault(candidate.group, judgement)
        made = None
        if not judgement.node and not judgement.gated:
            made = preemption(simulator, record, judgement, alive.values())
        placement = _settle(simulator, candidate, judgement, made)
        for victim in placement.preempted:
            del alive[victim]
        if placement.node:
            alive[record.key] = replace(record, pod=record.pod.on(placement.node))
        placements.setdefault(candidate.group, []).append(placement)
    return tuple(Group(name, first[name], tuple(placements[name])) for name in placements)


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


def _wanted(world: World) -> Iterator[Candidate]:
    """Pods that controllers have yet to make of their templates."""
    if not world.snapshot.workloads:
        return
    there: dict[str, int] = {}
    for record in world.snapshot.pods:
        if not record.pod.finished:
            group = world.group_of(record)
            there[group] = there.get(group, 0) + 1
    given = {workload.key for workload in world.snapshot.workloads}
    for workload in world.snapshot.workloads:
        owner = workload.owner
        if owner is not None and f"{owner.kind} {workload.namespace}/{owner.name}" in given:
            continue  # its owner wants these very pods
        if workload.replicas is None:
            yield from _daemons(world, workload)
            continue
        for number in range(there.get(workload.key, 0), workload.replicas):
            yield Candidate(_replica(workload, str(number)), workload.key)


def _replica(workload: Workload, suffix: str) -> PodRecord:
    template, name = workload.template, f"{workload.name}-{suffix}"
    labels = template.pod.labels
    key = "statefulset.kubernetes.io/pod-name"
    if key in labels:
        labels = {**labels, key: name}
    pod = replace(template.pod, uid=f"{template.pod.namespace}/{name}", name=name, labels=labels)
    return replace(template, pod=pod)


def _daemons(world: World, workload: Workload) -> Iterator[Candidate]:
    """One pod for each node that has none: the controller ties each to its node."""
    held = {
        record.pod.node_name
        for record in world.snapshot.pods
        if record.running and world.group_of(record) == workload.key
    }
    for name in sorted(world.nodes):
        if name not in held:
            yield Candidate(_replica(workload, name), workload.key, (name,))


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
    return tuple(found)
