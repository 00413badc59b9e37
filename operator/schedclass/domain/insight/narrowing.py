"""What of an answer concerns one namespace."""

from collections.abc import Iterable
from dataclasses import replace

from schedclass.domain.insight.explain_class import ClassUsage
from schedclass.domain.insight.impact import Impact, Outcome
from schedclass.domain.insight.trial import Group


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
