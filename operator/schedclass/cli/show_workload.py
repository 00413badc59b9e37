"""`schedclass explain deployment|statefulset|...|app` for people: what pods share is said once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from schedclass.cli.screen import Screen, count
from schedclass.cli.show_explain import show_end, show_steps
from schedclass.domain.insight.explain_pod import PodExplanation
from schedclass.domain.insight.explain_workload import WorkloadExplanation
from schedclass.domain.insight.explanation import Step
from schedclass.domain.insight.snapshot import PodRecord

EXPLAINED: Final = 3
"""How many pods that differ are explained in full; the others are listed."""
NAMED: Final = 10
"""How many pods that share an explanation are named."""

EventsOf = Callable[[PodRecord], list[str]]


@dataclass(slots=True)
class _Alike:
    """Pods of which the same is to be said."""

    records: list[PodRecord]
    told: PodExplanation
    events: list[str]

    def takes(self, told: PodExplanation, events: list[str]) -> bool:
        return (_without_name(told), events) == (_without_name(self.told), self.events)


def show_workload(  # noqa: PLR0913 - what the page is made of
    screen: Screen,
    title: str,
    records: Sequence[PodRecord],
    told: WorkloadExplanation,
    makers_say: Sequence[str],
    events_of: EventsOf,
) -> None:
    """Explain the pods of a workload, those that are missing too.

    Args:
        screen: where to.
        title: e.g. `Deployment shop/web`.
        records: its pods, in the order of `told.pods`, which may end before.
        told: what is said of them.
        makers_say: what its controllers say of pods that they could not create.
        events_of: asks for the Events of a pod.
    """
    screen.line((title, "head"), f": {_numbers(records, told)}")
    for said in makers_say:
        screen.line(("   the controller says: ", "dim"), said)
    groups = _grouped(records, told.pods, events_of)
    to_come = [missing.explanation for missing in told.missing]
    shared = _shared([*(group.told for group in groups), *to_come])
    several = len(groups) + len(to_come) > 1
    if several and shared:
        screen.line()
        screen.line(("All of them", "head"))
        show_steps(screen, shared)
    skip = len(shared) if several else 0
    for missing in told.missing:
        screen.line()
        screen.line((_to_come(title, missing.workload, missing.count), "head"))
        show_steps(screen, missing.explanation.steps[skip:], skip + 1)
        show_end(screen, missing.explanation, ())
    for group in groups:
        screen.line()
        screen.line((_names(group.records), "head"))
        steps = group.told.steps if len(group.records) == 1 else _without_name(group.told).steps
        show_steps(screen, steps[skip:], skip + 1)
        show_end(screen, group.told, group.events)
    shown = {record.key for group in groups for record in group.records}
    for record in records:
        if record.key not in shown:
            screen.line(f"{record.key}: {record.pod.node_name or 'no node'}")


def _numbers(records: Sequence[PodRecord], told: WorkloadExplanation) -> str:
    running = sum(record.running for record in records)
    on_node = f", {running} on a node" if records else ""
    if told.wanted is not None:
        return f"{told.existing} of {told.wanted} pods exist{on_node}"
    if told.missing:
        bare = sum(missing.count for missing in told.missing)
        exist = f"{count(told.existing, 'pod')} exist{'s' if told.existing == 1 else ''}"
        return f"{exist}{on_node}, {count(bare, 'node')} without one"
    return f"{count(told.existing, 'pod')}{on_node}"


def _to_come(title: str, workload: str, number: int) -> str:
    whose = "" if workload == title else f" of {workload}"
    if not number:
        return f"A pod of its template{whose}, of which none is wanted"
    return f"The {'pod that does' if number == 1 else f'{number} pods that do'} not exist{whose}"


def _names(records: Sequence[PodRecord]) -> str:
    named = ", ".join(record.key for record in records[:NAMED])
    more = len(records) - NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f"{'Pod' if len(records) == 1 else 'Pods'} {named}{rest}"


def _grouped(
    records: Sequence[PodRecord], told: Sequence[PodExplanation], events_of: EventsOf
) -> list[_Alike]:
    groups: list[_Alike] = []
    for record, one in zip(records, told, strict=False):
        if len(groups) == EXPLAINED and not any(
            _without_name(group.told) == _without_name(one) for group in groups
        ):
            continue
        events = events_of(record)
        for group in groups:
            if group.takes(one, events):
                group.records.append(record)
                break
        else:
            if len(groups) < EXPLAINED:
                groups.append(_Alike([record], one, events))
    return groups


def _without_name(told: PodExplanation) -> PodExplanation:
    """The explanation as it would be of another pod that fares the same."""
    subject = told.subject
    own = f"Pod {subject.namespace}/{subject.name} "
    steps = tuple(
        replace(step, rests_on=tuple(rest.replace(own, "each Pod's ", 1) for rest in step.rests_on))
        for step in told.steps
    )
    violations = tuple(
        replace(violation, subject=replace(violation.subject, name=""))
        for violation in told.violations
    )
    return replace(told, subject=replace(subject, name=""), steps=steps, violations=violations)


def _shared(told: Sequence[PodExplanation]) -> tuple[Step, ...]:
    """The steps that all of them begin with."""
    if not told:
        return ()
    steps = [one.steps for one in told]
    length = 0
    for rank in zip(*steps, strict=False):
        if any(step != rank[0] for step in rank):
            break
        length += 1
    return steps[0][:length]
