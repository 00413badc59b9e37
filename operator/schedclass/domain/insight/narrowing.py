"""What of an answer concerns one namespace, or a change."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from schedclass.domain.insight.explain_class import ClassUsage
from schedclass.domain.insight.impact import Impact, Outcome
from schedclass.domain.insight.trial import Group, Placement


def usage_within(used: ClassUsage, namespace: str) -> ClassUsage:
    """The use that one namespace makes of a class."""
    return replace(
        used,
        uses=tuple(use for use in used.uses if use.namespace == namespace),
        overridden=tuple(name for name in used.overridden if name == namespace),
    )


def groups_within(groups: Iterable[Group], namespace: str) -> tuple[Group, ...]:
    """The groups of pods of one namespace."""
    return tuple(
        group for group in groups if any(_lies_in(p.pod, namespace) for p in group.placements)
    )


def groups_concerned(
    groups: Iterable[Group],
    before: Iterable[Group],
    *,
    namespaces: Collection[str],
    names: Collection[str],
) -> tuple[Group, ...]:
    """The groups that a change concerns: all others fare as they would without it.

    Args:
        groups: what `trial.run` says of the cluster after the change.
        before: what it says of the cluster as it is.
        namespaces: whose groups are concerned, however they fare.
        names: of groups that are.
    """
    fared = {(group.name, p.pod): _fate(p) for group in before for p in group.placements}
    return tuple(
        group
        for group in groups
        if group.name in names
        or any(
            fared.get((group.name, placement.pod)) != _fate(placement)
            or placement.pod.partition("/")[0] in namespaces
            for placement in group.placements
        )
    )


def _fate(placement: Placement) -> tuple[str | None, str, tuple[str, ...]]:
    return placement.class_name, placement.node, placement.preempted


def impact_within(told: Impact, namespace: str) -> Impact:
    """What a change does to one namespace."""
    return Impact(
        tenants=tuple(t for t in told.tenants if t.namespace == namespace),
        breaking=tuple(v for v in told.breaking if v.subject.namespace == namespace),
        mended=tuple(v for v in told.mended if v.subject.namespace == namespace),
        starting=_outcomes(told.starting, namespace),
        stopping=_outcomes(told.stopping, namespace),
        moved=_outcomes(told.moved, namespace),
        ending=_outcomes(told.ending, namespace),
    )


def _outcomes(outcomes: Iterable[Outcome], namespace: str) -> tuple[Outcome, ...]:
    return tuple(outcome for outcome in outcomes if _lies_in(outcome.pod, namespace))


def _lies_in(key: str, namespace: str) -> bool:
    return key.partition("/")[0] == namespace
