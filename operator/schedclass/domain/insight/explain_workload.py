"""Why the pods of a workload are where they are, and why it has not got all that it wants."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from schedclass.domain.insight.explain_pod import PodExplanation, explain_pod
from schedclass.domain.insight.foreseen import refusal
from schedclass.domain.insight.simulation import Simulator, unavailable
from schedclass.domain.insight.snapshot import Part, PodRecord, Workload
from schedclass.domain.insight.wanted import daemon_nodes
from schedclass.domain.insight.world import World

TRIED: Final = 10
"""How many of the pods that are missing are placed in turn; the others would fare alike."""


@dataclass(frozen=True, slots=True)
class MissingPods:
    """Pods that a workload wants and that do not exist.

    Attributes:
        workload: e.g. `Deployment shop/web`.
        count: how many; of a DaemonSet the nodes that have none, whether or not they fit.
        explanation: of the first; its outcome speaks of all.
    """

    workload: str
    count: int
    explanation: PodExplanation


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """Everything about the pods of a workload or application.

    Attributes:
        existing: how many pods there are that have not finished.
        wanted: how many there should be; None where that is not known, or depends on the nodes.
        pods: those there are, in the order in which they were given; perhaps only the first.
        missing: those there are not.
    """

    existing: int
    wanted: int | None
    pods: tuple[PodExplanation, ...]
    missing: tuple[MissingPods, ...]


def explain_workload(
    world: World,
    records: Sequence[PodRecord],
    workloads: Sequence[Workload],
    *,
    first: int | None = None,
) -> WorkloadExplanation:
    """Explain the pods that exist and those that are still to be made.

    Args:
        world: where.
        records: its pods.
        workloads: what makes them, as far as that can be seen.
        first: how many of the pods are explained; None for all.
    """
    simulator = Simulator(world)
    counted = [workload.replicas for workload in workloads]
    known = [number for number in counted if number is not None]
    return WorkloadExplanation(
        existing=len(records),
        wanted=sum(known) if known and len(known) == len(counted) else None,
        pods=tuple(explain_pod(world, record, simulator) for record in records[:first]),
        missing=tuple(
            found
            for workload in workloads
            if (found := _missing(world, records, workload)) is not None
        ),
    )


def pods_of(world: World, workload: str) -> list[PodRecord]:
    """The pods of a workload, by its key, that have not finished."""
    kind, _, rest = workload.partition(" ")
    namespace, _, name = rest.partition("/")
    return [
        record
        for record in world.pods_by_namespace.get(namespace, ())
        if world.group_of(record) == workload
        or (record.owner and (record.owner.kind, record.owner.name) == (kind, name))
    ]


def _missing(world: World, records: Sequence[PodRecord], workload: Workload) -> MissingPods | None:
    own = {record.key for record in pods_of(world, workload.key)}
    there = [record for record in records if record.key in own]
    told = explain_pod(world, workload.template)
    if workload.replicas is None:
        return _missing_daemons(world, there, workload, told)
    count = workload.replicas - len(there)
    if count <= 0 and (there or records):
        return None
    if count > 1:
        told = replace(told, outcome=_outcome_of_all(world, workload, count, told))
    return MissingPods(workload.key, max(count, 0), told)


def _outcome_of_all(world: World, workload: Workload, count: int, told: PodExplanation) -> str:
    if refusal(world, workload.template) is not None:
        return told.outcome.replace("would refuse it", f"would refuse all {count} of them", 1)
    if told.judgement is None or workload.template.pod.node_name or told.judgement.gated:
        return told.outcome
    simulator = Simulator(world)
    nodes: Counter[str] = Counter()
    tried = min(count, TRIED)
    stuck = ""
    for number in range(tried):
        copy = _copy(workload, number)
        judgement = simulator.judge(copy)
        if not judgement.node:
            stuck = f"; for another: {judgement.message}"
            break
        nodes[judgement.node] += 1
        simulator.place(copy, judgement.node)
    if not nodes:
        return told.outcome
    listed = ", ".join(f"{number} on {node}" for node, number in nodes.items())
    of_all = f"{tried} that were tried of {count}" if tried < count else str(count)
    return (
        f"{told.outcome}; placed in turn, {nodes.total()} of {of_all} find a node: {listed}{stuck}"
    )


def _copy(workload: Workload, number: int) -> PodRecord:
    pod, name = workload.template.pod, f"{workload.name}-{number}"
    return replace(
        workload.template, pod=replace(pod, name=name, uid=f"{workload.key}-to-come-{number}")
    )


def _missing_daemons(
    world: World, there: Sequence[PodRecord], workload: Workload, told: PodExplanation
) -> MissingPods | None:
    held = {record.pod.node_name for record in there}
    bare = [name for name in daemon_nodes(world, workload) if name not in held]
    if there and not bare:
        return None
    if told.judgement is not None and bare and not told.judgement.gated:
        verdicts = tuple(v for v in told.judgement.verdicts if v.node in bare)
        fits = [verdict.node for verdict in verdicts if verdict.passed]
        outcome = f"{len(fits)} of {len(bare)} nodes without one take it: {', '.join(fits)}"
        if not fits:
            outcome = unavailable(verdicts)
        # The controller ties each pod to its node, so none of them is chosen before others.
        judgement = replace(told.judgement, verdicts=verdicts, node="", ties=())
        told = replace(told, judgement=judgement, outcome=outcome)
    elif told.judgement is not None and world.nodes and not bare:
        outcome = f"its template allows none of {len(world.nodes)} nodes, so no pod is made"
        told = replace(told, outcome=outcome)
    count = len(bare) if world.snapshot.knows(Part.NODES) else 1
    return MissingPods(workload.key, count, told)
