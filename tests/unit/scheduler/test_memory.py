"""What pods leave behind in the memory of the extender once they are gone."""

import sys

from schedclass.domain import names
from schedclass.domain.scheduling import Decisions, Scope, constraints, decisions, parse_pod
from schedclass.scheduler.hints import LEAST_COMPACTED, Hints
from schedclass.scheduler.waiting import UNSEEN_SECONDS, RefusedPods
from tests.stubapi import Json
from tests.unit.scheduler.world import World, raw_pod

PODS = 1000


def waiting(name: str, version: int) -> Json:
    raw = raw_pod(name, version=version)
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [{}]}
    return {**raw, "spec": spec}


def test_pods_that_come_and_go_while_hints_do_not_pay_leave_nothing_behind() -> None:
    world = World()
    hints = Hints(world.state)
    world.watch(waiting("stays", 1), "ADDED")
    for i in range(PODS):
        world.watch(waiting(f"pod-{i}", 2 * i + 2), "ADDED")
        world.watch(waiting(f"pod-{i}", 2 * i + 3), "DELETED")
    assert hints.waiting == 1
    assert len(hints._queue) <= LEAST_COMPACTED + 2
    hints.asked("another", [])
    assert sys.getsizeof(hints._queue) < PODS


def test_the_rules_of_a_usual_pod_are_shared_and_huge_ones_are_not_kept() -> None:
    def compiled(terms: int) -> bool:
        keys = [{"key": f"k{i}", "operator": "Exists"} for i in range(terms)]
        required = {"nodeSelectorTerms": [{"matchExpressions": [key]} for key in keys]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        raw = {"metadata": {"name": "p"}, "spec": {"affinity": affinity}}
        one, other = parse_pod(raw).own, parse_pod(raw).own
        assert one.key == other.key
        return one is other

    assert compiled(2)
    assert not compiled(constraints.USUAL_LENGTH // 10)


def test_a_pod_that_was_gone_before_it_was_refused_is_forgotten() -> None:
    there = {"seen-later"}
    now = [0.0]
    refused = RefusedPods(
        version=lambda: 1,
        passing=lambda _pod, _names: False,
        class_of=lambda _: "dc",
        known=lambda pod: pod.uid in there,
        clock=lambda: now[0],
    )
    for uid in ("gone", "newer-than-the-watch", "seen-later"):
        refused.refused(parse_pod({"metadata": {"name": uid, "uid": uid}}), ["n1"])
    there.add("newer-than-the-watch")
    assert len(refused) == 3
    now[0] = UNSEEN_SECONDS
    list(refused.look())
    assert set(refused.uids) == there


def test_what_is_kept_ready_is_bounded_by_its_length_too() -> None:
    world = World()
    world.watch(waiting("usual", 1), "ADDED")
    kept = Decisions(world.state.cluster, Scope.CLASS)
    most = 4
    for i in range(3 * most):
        labels = {f"l{i}": "x" * (decisions.MAX_TEXT // most - 100)}
        kept.filter(parse_pod({"metadata": {"name": f"p{i}", "labels": labels}}), ["n1"])
    assert kept.plans == most
    kept.close()
    assert kept.plans == 0
