"""Affinity terms that running pods carry: they act on pods that come later.

A required anti-affinity term of a running pod keeps matching pods out of its topology domain, and
the other terms attract or put off (InterPodAffinity plugin: "existing pods' terms").
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedclass.domain.scheduling.counters import DomainCounts, Tally
from schedclass.domain.scheduling.podset_index import PodSetIndex
from schedclass.domain.scheduling.podsets import Term
from schedclass.domain.scheduling.topology import DomainsSpec, Topology


class Carried(NamedTuple):
    """One term as running pods carry it.

    Attributes:
        term: the term.
        class_name: the class that it comes from; empty for the pods' own.
        repels: whether it is required anti-affinity; all others only weigh in scores.
    """

    term: Term
    class_name: str
    repels: bool


@dataclass(slots=True, eq=False)
class CarriedTerm:
    """A carried term with the weights of its carriers.

    Attributes:
        carried: the term.
        counts: per domain of its topology: for a repelling term the number of carriers, else the
            sum of their weights.
        tally: the same per node.
        carriers: how many running pods carry it.
    """

    carried: Carried
    tally: Tally
    counts: DomainCounts
    carriers: int = field(default=0)


class CarriedTerms:
    """All carried terms, with those that act on a given pod found by its labels."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._terms: dict[Carried, CarriedTerm] = {}
        self._index: PodSetIndex[Carried] = PodSetIndex()
        self.generation = 0
        """Moves whenever a term appears or vanishes."""

    def __len__(self) -> int:
        """How many different terms are carried."""
        return len(self._terms)

    def add(self, carried: Carried, node_name: str, weight: int) -> CarriedTerm:
        """A pod on a node begins to carry a term; give it up with `remove`."""
        term = self._terms.get(carried)
        if term is None:
            term = self._terms[carried] = self._new(carried)
        term.carriers += 1
        term.tally.add(node_name, weight)
        return term

    def remove(self, term: CarriedTerm, node_name: str, weight: int) -> None:
        """A pod on a node no longer carries a term."""
        term.tally.add(node_name, -weight)
        term.carriers -= 1
        if not term.carriers:
            term.counts.close()
            self._topology.release_domains(term.counts.domains)
            del self._terms[term.carried]
            self._index.discard(term.carried, term.carried.term.pods)
            self.generation += 1

    def matching(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[CarriedTerm]:
        """The carried terms that act on a pod of that namespace with those labels."""
        for carried in self._index.matching(namespace, namespace_labels, labels):
            yield self._terms[carried]

    def _new(self, carried: Carried) -> CarriedTerm:
        spec = DomainsSpec(carried.term.topology_key)
        tally = Tally()
        counts = tally.counts.put(
            spec, DomainCounts(self._topology.acquire_domains(spec), tally.by_node)
        )
        self._index.add(carried, carried.term.pods)
        self.generation += 1
        return CarriedTerm(carried, tally, counts)
