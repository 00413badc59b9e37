"""Terms of a class that leave their labelSelector open, to be filled for each application.

They are found once per class, so that whoever looks at a pod of a class without any pays nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schedclass.domain.podfields import (
    ClassSpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

NAMED: Final = 3
"""How many terms of one kind are named by their index; a class may have hundreds."""


class TermKind(StrEnum):
    """The lists of a class whose terms select pods by label; the values are told to people."""

    NEAR = "required podAffinity"
    NEAR_IF_POSSIBLE = "preferred podAffinity"
    APART = "required podAntiAffinity"
    APART_IF_POSSIBLE = "preferred podAntiAffinity"
    SPREAD = "topologySpreadConstraints"


@dataclass(frozen=True, slots=True)
class OpenTerms:
    """The terms of one kind that have no labelSelector.

    Attributes:
        kind: which list of the class they stand in.
        indexes: where in that list, ascending; never empty.
        of: how many terms the list has.
    """

    kind: TermKind
    indexes: tuple[int, ...]
    of: int

    def __str__(self) -> str:
        """The list, with indexes where only some of its terms are meant."""
        if len(self.indexes) == self.of:
            return str(self.kind)
        named = ", ".join(map(str, self.indexes[:NAMED]))
        more = len(self.indexes) - NAMED
        return f"{self.kind}[{named}{f' and {more} more' if more > 0 else ''}]"


def open_terms(spec: ClassSpec) -> tuple[OpenTerms, ...]:
    """Find the terms of a spec that have no labelSelector; `{}` is one, and selects all."""
    return tuple(
        OpenTerms(kind, indexes, len(terms))
        for kind, terms in _lists(spec)
        if (indexes := tuple(i for i, term in enumerate(terms) if term.label_selector is None))
    )


def _lists(
    spec: ClassSpec,
) -> Iterator[tuple[TermKind, Sequence[PodAffinityTerm | TopologySpreadConstraint]]]:
    near, apart = spec.pod_affinity, spec.pod_anti_affinity
    if near is not None:
        yield TermKind.NEAR, near.required
        yield TermKind.NEAR_IF_POSSIBLE, _terms(near.preferred)
    if apart is not None:
        yield TermKind.APART, apart.required
        yield TermKind.APART_IF_POSSIBLE, _terms(apart.preferred)
    yield TermKind.SPREAD, spec.topology_spread_constraints


def _terms(wishes: Sequence[WeightedPodAffinityTerm]) -> list[PodAffinityTerm]:
    return [wish.pod_affinity_term for wish in wishes]
