"""The priority of pods whose PriorityClass was not read with them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from schedclass.domain.insight.creation import SYSTEM_PRIORITIES
from schedclass.domain.insight.snapshot import PodRecord, PriorityClass, Snapshot


def with_priorities(snapshot: Snapshot) -> Snapshot:
    """Give pods and templates the priority of the PriorityClass that they name.

    A PriorityClass that was given counts; else stored pods that name it tell what it gave to them.
    """
    if not any(record.unknown_priority for record in _records(snapshot)):
        return snapshot
    known = {**_told_by_pods(snapshot.pods), **SYSTEM_PRIORITIES, **snapshot.priorities}
    return replace(
        snapshot,
        pods=tuple(_with_priority(record, known) for record in snapshot.pods),
        workloads=tuple(
            replace(workload, template=_with_priority(workload.template, known))
            for workload in snapshot.workloads
        ),
    )


def unknown_priorities(snapshot: Snapshot) -> list[str]:
    """PriorityClasses that pods or templates name and that nothing is known of."""
    return sorted({r.unknown_priority for r in _records(snapshot) if r.unknown_priority})


def _records(snapshot: Snapshot) -> Iterator[PodRecord]:
    yield from (record for record in snapshot.pods if not record.pod.finished)
    yield from (workload.template for workload in snapshot.workloads)


def _told_by_pods(pods: Iterable[PodRecord]) -> dict[str, PriorityClass]:
    return {
        record.priority_class: PriorityClass(record.pod.priority, record.preempts)
        for record in pods
        if record.stored and record.priority_class and record.priority_known
    }


def _with_priority(record: PodRecord, known: Mapping[str, PriorityClass]) -> PodRecord:
    found = known.get(record.unknown_priority) if record.unknown_priority else None
    if found is None:
        return record
    return replace(
        record,
        pod=replace(record.pod, priority=found.value),
        preempts=record.preempts and found.preempts,
        priority_known=True,
    )
