"""Pods to be placed: those that wait, and those that controllers have yet to make."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Final

from schedclass.domain.insight.foreseen import refusal
from schedclass.domain.insight.snapshot import PodRecord, Workload
from schedclass.domain.insight.world import World

MOST: Final = 1000
"""How many pods that a workload still wants are placed; the others would fare as the last."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod to be placed."""

    record: PodRecord
    group: str
    only: tuple[str, ...] = ()


def candidates(world: World) -> list[Candidate]:
    """The pods to be placed, in the order of kube-scheduler's queue: priority, then age."""
    waiting = [
        Candidate(record, world.group_of(record))
        for record in world.snapshot.pods
        if record.pending
    ]
    waiting.sort(key=lambda candidate: candidate.record.created)
    refused = [Candidate(record, world.group_of(record)) for record in _refused_at_creation(world)]
    every = [*refused, *waiting, *_wanted(world)]
    return sorted(every, key=lambda candidate: -candidate.record.pod.priority)


def _refused_at_creation(world: World) -> Iterator[PodRecord]:
    """Pods that were given with a node, and that admission would not let in: they take no place."""
    for record in world.snapshot.pods:
        given = record.running and not (record.stored or record.phase)
        if given and refusal(world, record) is not None:
            yield record


def left_out(world: World) -> Iterator[tuple[str, int]]:
    """The workloads that want more pods than are placed, each with the number that it wants."""
    for workload, there in _counted(world):
        missing = (workload.replicas or 0) - there
        if missing > MOST:
            yield workload.key, missing


def daemon_nodes(world: World, workload: Workload) -> list[str]:
    """The nodes for which the DaemonSet controller makes pods (`NodeShouldRunDaemonPod`).

    It looks at the template alone. What only the class is against gets a pod, which waits.
    """
    pod = workload.template.pod
    return [
        name
        for name, record in sorted(world.nodes.items())
        if pod.node_name in ("", name)
        and (pod.own.node is None or pod.own.node.allows(record.node))
        and pod.tolerance.allows(record.node)
    ]


def _counted(world: World) -> Iterator[tuple[Workload, int]]:
    """The workloads that make pods themselves, and how many of each there are."""
    if not world.snapshot.workloads:
        return
    there: dict[str, int] = {}
    for record in world.snapshot.pods:
        if not record.pod.finished:
            group = world.group_of(record)
            there[group] = there.get(group, 0) + 1
    given = {workload.key for workload in world.snapshot.workloads}
    for workload in world.snapshot.workloads:
        owner = workload.owner
        if owner is not None and f"{owner.kind} {workload.namespace}/{owner.name}" in given:
            continue  # its owner wants these very pods
        yield workload, there.get(workload.key, 0)


def _wanted(world: World) -> Iterator[Candidate]:
    """Pods that controllers have yet to make of their templates."""
    for workload, there in _counted(world):
        if workload.replicas is None:
            yield from _daemons(world, workload)
            continue
        # A StatefulSet fills its gaps; the pods of others are only numbered to tell them apart.
        numbers = count(0 if workload.kind == "StatefulSet" else there)
        made = (_replica(workload, str(number)) for number in numbers)
        free = (record for record in made if record.key not in world.pod_keys)
        missing = max(workload.replicas - there, 0)
        for record in islice(free, min(missing, MOST)):
            yield Candidate(record, workload.key)


def _replica(workload: Workload, suffix: str) -> PodRecord:
    template, name = workload.template, f"{workload.name}-{suffix}"
    labels = template.pod.labels
    key = "statefulset.kubernetes.io/pod-name"
    if key in labels:
        labels = {**labels, key: name}
    # Workloads of different kinds may have one name, and then their pods have, too.
    pod = replace(template.pod, uid=f"{workload.key} {name}", name=name, labels=labels)
    return replace(template, pod=pod)


def _daemons(world: World, workload: Workload) -> Iterator[Candidate]:
    """One pod for each node that has none: the controller ties each to its node."""
    held = {
        record.pod.node_name
        for record in world.snapshot.pods
        if record.running and world.group_of(record) == workload.key
    }
    for name in daemon_nodes(world, workload):
        if name not in held:
            yield Candidate(_replica(workload, name), workload.key, (name,))
