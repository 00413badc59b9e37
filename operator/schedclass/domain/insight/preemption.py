"""Which pods of lower priority would have to end for a pod: a model of DefaultPreemption.

Without PodDisruptionBudgets. Where a class is against a node, nothing is preempted there: the
extender takes such nodes out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from schedclass.domain.insight.simulation import Judgement, NodeVerdict, Simulator
from schedclass.domain.insight.snapshot import PodRecord


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods that end, and the node that is free then."""

    node: str
    victims: tuple[PodRecord, ...]


def preemption(
    simulator: Simulator, record: PodRecord, judgement: Judgement, running: Iterable[PodRecord]
) -> Preemption | None:
    """Find the node where the least is lost.

    Args:
        simulator: the world; unchanged afterwards.
        record: the pod that found no node.
        judgement: why.
        running: all pods that run.

    Returns:
        None if no node helps, or the pod's policy is to wait. Of several, in kube-scheduler's
        order: the lowest highest priority among the victims, then the lowest sum of priorities,
        then the fewest, then by name.
    """
    if not record.preempts:
        return None
    candidates = {verdict.node for verdict in judgement.verdicts if _may_help(verdict)}
    lower: dict[str, list[PodRecord]] = {}
    for other in running:
        if other.pod.node_name in candidates and other.pod.priority < record.pod.priority:
            lower.setdefault(other.pod.node_name, []).append(other)
    found = []
    for node in sorted(lower):
        victims = _victims(simulator, record, node, lower[node])
        if victims:
            priorities = [victim.pod.priority for victim in victims]
            cost = (max(priorities), sum(priorities), len(victims), node)
            found.append((cost, Preemption(node, victims)))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def _may_help(verdict: NodeVerdict) -> bool:
    return not verdict.passed and all(check.preemptible for check in verdict.rejections)


def _victims(
    simulator: Simulator, record: PodRecord, node: str, lower: list[PodRecord]
) -> tuple[PodRecord, ...]:
    """The fewest pods of a node: all leave, then as many as fit come back, the best first."""
    ordered = sorted(lower, key=lambda other: (-other.pod.priority, other.created, other.key))
    for other in ordered:
        simulator.remove(other, node)
    victims: list[PodRecord] = []
    helps = bool(simulator.judge(record, (node,)).feasible)
    for other in ordered:
        simulator.place(other, node)
        if helps and not simulator.judge(record, (node,)).feasible:
            simulator.remove(other, node)
            victims.append(other)
    for victim in victims:
        simulator.place(victim, node)
    return tuple(victims)
