"""What nodes have left, and kube-scheduler's own checks that rest on it: a model.

It follows the plugins NodeUnschedulable, NodePorts, NodeResourcesFit (filter, and score by
LeastAllocated) and NodeResourcesBalancedAllocation of kube-scheduler 1.36 with their default
settings. Volumes, devices (DRA), images and gang scheduling are not modelled.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from schedclass.domain.findings import Reason
from schedclass.domain.insight.snapshot import NodeRecord, PodRecord
from schedclass.domain.nodes import Taint
from schedclass.domain.resources import CPU, MEMORY, PODS, Amounts, Demand, HostPort
from schedclass.domain.scheduling.constraints import NO_NEW_PODS
from schedclass.domain.scheduling.verdicts import MAX_NODE_SCORE

NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES: Final = "NodeResourcesFit"
BALANCE: Final = "NodeResourcesBalancedAllocation"

CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", NO_NEW_PODS[0])


@dataclass(frozen=True, slots=True)
class Lack:
    """One modelled reason why a node does not take a pod; the texts are kube-scheduler's."""

    plugin: str
    reason: Reason
    message: str
    preemptible: bool


@dataclass(slots=True)
class _Used:
    requests: dict[str, int] = field(default_factory=dict)
    ports: list[HostPort] = field(default_factory=list)
    pods: int = 0
    score_cpu: int = 0
    score_memory: int = 0

    def add(self, demand: Demand, sign: int) -> None:
        self.pods += sign
        self.score_cpu += sign * demand.score_cpu
        self.score_memory += sign * demand.score_memory
        for name, amount in demand.requests.items():
            self.requests[name] = self.requests.get(name, 0) + sign * amount
        for port in demand.ports:
            if sign > 0:
                self.ports.append(port)
            else:
                self.ports.remove(port)


class Capacity:
    """The resources of all nodes, kept up to date as pods come and go."""

    def __init__(self, nodes: Iterable[NodeRecord], pods: Iterable[PodRecord]) -> None:
        """Count the pods that run."""
        self._nodes = {record.node.name: record for record in nodes}
        self._used: dict[str, _Used] = {name: _Used() for name in self._nodes}
        for record in pods:
            if record.running:
                self.add(record, record.pod.node_name)

    def add(self, record: PodRecord, node_name: str) -> None:
        """A pod takes its place on a node; one on a node that is not known counts nowhere."""
        if node_name in self._used:
            self._used[node_name].add(record.demand, 1)

    def remove(self, record: PodRecord, node_name: str) -> None:
        """A pod gives its place back."""
        if node_name in self._used:
            self._used[node_name].add(record.demand, -1)

    def lacks(self, record: PodRecord, node_name: str) -> Iterator[Lack]:
        """Everything modelled that keeps a pod off a node, in kube-scheduler's order."""
        node, used = self._nodes[node_name], self._used[node_name]
        if node.node.unschedulable and not record.pod.tolerance.covers(CORDON):
            message = "node(s) were unschedulable"
            yield Lack(NODE_UNSCHEDULABLE, Reason.NODE_CORDONED, message, preemptible=False)
        wanted = record.demand.ports
        if any(taken.conflicts(port) for port in wanted for taken in used.ports):
            message = "node(s) didn't have free ports for the requested pod ports"
            yield Lack(NODE_PORTS, Reason.HOST_PORT_TAKEN, message, preemptible=True)
        yield from self._short_of(record.demand, node, used)

    def _short_of(self, demand: Demand, node: NodeRecord, used: _Used) -> Iterator[Lack]:
        if node.allocatable is None:
            return
        limit = node.allocatable.get(PODS)
        if limit is not None and used.pods + 1 > limit:
            yield _insufficient("Too many pods", possible=limit > 0)
        for name, amount in demand.requests.items():
            total = node.allocatable.get(name, 0)
            if used.requests.get(name, 0) + amount > total:
                yield _insufficient(f"Insufficient {name}", possible=amount <= total)

    def scores(self, record: PodRecord, node_name: str) -> dict[str, int]:
        """Scores of 0 to 100 by plugin; empty where the node's resources are not known."""
        node, used, demand = self._nodes[node_name], self._used[node_name], record.demand
        if node.allocatable is None:
            return {}
        cpu, memory = node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0)
        wanted = (used.score_cpu + demand.score_cpu, used.score_memory + demand.score_memory)
        least = [
            _free_share(asked, total)
            for asked, total in zip(wanted, (cpu, memory), strict=True)
            if total
        ]
        found = {NODE_RESOURCES: sum(least) // len(least) if least else 0}
        if demand.requests.get(CPU) or demand.requests.get(MEMORY):
            before = _balance(used.requests, {}, node.allocatable)
            after = _balance(used.requests, demand.requests, node.allocatable)
            # What counts is whether the pod makes it better.
            half = MAX_NODE_SCORE // 2
            found[BALANCE] = half + (half + after - before) // 2
        return found


def _insufficient(message: str, *, possible: bool) -> Lack:
    return Lack(NODE_RESOURCES, Reason.INSUFFICIENT_RESOURCES, message, preemptible=possible)


def _free_share(asked: int, total: int) -> int:
    return 0 if asked > total else (total - asked) * MAX_NODE_SCORE // total


def _balance(used: Amounts, asked: Amounts, allocatable: Amounts) -> int:
    """How alike the shares of CPU and memory are that are taken: from 50 to 100."""
    shares = [
        min((used.get(name, 0) + asked.get(name, 0)) / total, 1.0)
        for name in (CPU, MEMORY)
        if (total := allocatable.get(name, 0))
    ]
    apart = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - apart) * MAX_NODE_SCORE)
