"""What one plan holds of the shared sets and counts, to be given back together."""

from collections.abc import Callable

from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.counters import Counted, DomainCounts
from schedclass.domain.scheduling.topology import Conditions, Domains, DomainsSpec, NodeSet


class Holdings:
    """Acquires on behalf of one owner and remembers how to give back."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._give_back: list[Callable[[], None]] = []

    def nodes(self, conditions: Conditions) -> NodeSet:
        """The nodes that satisfy all conditions."""
        topology = self._cluster.topology
        held = topology.acquire_set(conditions)
        self._give_back.append(lambda: topology.release_set(held))
        return held

    def domains(self, spec: DomainsSpec) -> Domains:
        """The domains of a topology."""
        topology = self._cluster.topology
        held = topology.acquire_domains(spec)
        self._give_back.append(lambda: topology.release_domains(held))
        return held

    def counts(self, counted: Counted, spec: DomainsSpec) -> DomainCounts:
        """Running pods per domain."""
        counters = self._cluster.counters
        held = counters.acquire(counted, spec)
        self._give_back.append(lambda: counters.release(counted, spec))
        return held

    def release(self) -> None:
        """Give everything back."""
        while self._give_back:
            self._give_back.pop()()
