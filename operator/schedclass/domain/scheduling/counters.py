"""Counts of running pods per topology domain, kept up to date pod by pod and node by node.

A count exists for each set of pods that a term in use names, and in each topology that it is asked
for; so the price of a decision depends on the number of terms, not on the number of running pods.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podset_index import PodSetIndex
from schedclass.domain.scheduling.podsets import PodSet
from schedclass.domain.scheduling.topology import Domains, DomainsSpec, Shared, Topology


class Counted(NamedTuple):
    """Which pods are counted: those in all of the sets.

    Attributes:
        sets: at least one set of pods.
        live_only: leave terminating pods out, as topology spread does.
    """

    sets: tuple[PodSet, ...]
    live_only: bool = False


@dataclass(slots=True, eq=False)
class DomainCounts:
    """Weights of a tally added up per topology domain.

    Attributes:
        domains: the topology.
        by_node: the weights per node, whether or not the node exists or is in a domain.
        by_value: the sums per domain; those that are zero are left out.
        occupied: the nodes of the domains in `by_value`.
    """

    domains: Domains
    by_node: Mapping[str, int]
    by_value: dict[str, int] = field(default_factory=dict)
    occupied: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, weight in self.by_node.items():
            self.add(name, weight)
        self.domains.listeners[self] = None

    def close(self) -> None:
        """Stop following the topology."""
        del self.domains.listeners[self]

    def add(self, name: str, weight: int) -> None:
        """Take note that the weight of a node grew."""
        value = self.domains.of_node.get(name)
        if value is not None:
            self._add(value, weight)

    def moved(self, name: str, old: str | None, new: str | None) -> None:
        """Take a node's weight from one domain to the other."""
        weight = self.by_node.get(name, 0)
        if old is not None:
            self.occupied.discard(name)
            self._add(old, -weight)
        if new is not None:
            self._add(new, weight)
            if new in self.by_value:
                self.occupied.add(name)

    def _add(self, value: str, weight: int) -> None:
        if not weight:
            return
        before = self.by_value.get(value, 0)
        if before + weight:
            self.by_value[value] = before + weight
            if not before:
                self.occupied |= self.domains.members[value]
        else:
            del self.by_value[value]
            self.occupied -= self.domains.members.get(value, set())


@dataclass(slots=True, eq=False)
class Tally:
    """A weight per node and its sums in the topologies that are asked for."""

    by_node: dict[str, int] = field(default_factory=dict)
    counts: Shared[DomainsSpec, DomainCounts] = field(default_factory=Shared)

    def add(self, name: str, weight: int) -> None:
        """Add to the weight of a node."""
        total = self.by_node.get(name, 0) + weight
        if total:
            self.by_node[name] = total
        else:
            self.by_node.pop(name, None)
        for counts in self.counts:
            counts.add(name, weight)


Candidates = Callable[[PodSet], Iterable[tuple[Pod, Mapping[str, str]]]]


class Counters:
    """All counts of running pods that somebody holds."""

    def __init__(self, topology: Topology, candidates: Candidates) -> None:
        """Begin empty.

        Args:
            topology: the nodes.
            candidates: for a set of pods, running pods (with the labels of their namespaces) that
                include all in the set; read once when the set is first asked for.
        """
        self._topology = topology
        self._candidates = candidates
        self._tallies: dict[Counted, Tally] = {}
        self._index: PodSetIndex[Counted] = PodSetIndex()

    def __len__(self) -> int:
        """How many different counts are kept."""
        return len(self._tallies)

    def acquire(self, counted: Counted, spec: DomainsSpec) -> DomainCounts:
        """The counts of some pods in a topology; give them back with `release`."""
        tally = self._tallies.get(counted)
        if tally is None:
            tally = self._tallies[counted] = self._new_tally(counted)
            self._index.add(counted, counted.sets[0])
        held = tally.counts.take(spec)
        if held is None:
            domains = self._topology.acquire_domains(spec)
            held = tally.counts.put(spec, DomainCounts(domains, tally.by_node))
        return held

    def release(self, counted: Counted, spec: DomainsSpec) -> None:
        """Give back what `acquire` gave for the same arguments."""
        tally = self._tallies[counted]
        held = tally.counts.peek(spec)
        if not tally.counts.release(spec):
            return
        held.close()
        self._topology.release_domains(held.domains)
        if not len(tally.counts):
            del self._tallies[counted]
            self._index.discard(counted, counted.sets[0])

    def add(self, pod: Pod, namespace_labels: Mapping[str, str], weight: int) -> None:
        """Count a running pod (weight 1), or no longer (weight -1)."""
        for counted in self._index.matching(pod.namespace, namespace_labels, pod.labels):
            if _counts(counted, pod, namespace_labels):
                self._tallies[counted].add(pod.node_name, weight)

    def _new_tally(self, counted: Counted) -> Tally:
        tally = Tally()
        for pod, namespace_labels in self._candidates(counted.sets[0]):
            if counted.sets[0].has(pod.namespace, namespace_labels, pod.labels) and _counts(
                counted, pod, namespace_labels
            ):
                tally.add(pod.node_name, 1)
        return tally


def _counts(counted: Counted, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
    """Whether a pod of the first set is counted."""
    if counted.live_only and pod.terminating:
        return False
    return all(pods.has(pod.namespace, namespace_labels, pod.labels) for pods in counted.sets[1:])
