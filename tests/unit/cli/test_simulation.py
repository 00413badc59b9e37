"""Laws of the simulation, over generated clusters."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from schedclass.domain import names
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.insight import changes, trial
from schedclass.domain.insight.assembly import Assembly
from schedclass.domain.insight.capacity import Capacity
from schedclass.domain.insight.checks import pod_violations
from schedclass.domain.insight.impact import displaced, impact
from schedclass.domain.insight.narrowing import groups_concerned
from schedclass.domain.insight.simulation import Simulator, without_class
from schedclass.domain.insight.snapshot import PodRecord, Snapshot
from schedclass.domain.insight.wanted import candidates
from schedclass.domain.insight.world import Policy, World
from schedclass.domain.scheduling import Decisions, Scope
from schedclass.domain.scheduling.rules import Reasons
from tests.differential.clusters import case

SEEDS = range(80)


def generated(seed: int) -> Snapshot:
    """A cluster of `case`, with resources, host ports and several pods that wait."""
    rng = Random(seed)
    made = case(rng)
    assembly = Assembly()
    for node in made["nodes"]:
        node["status"] = {"allocatable": {"cpu": rng.choice(["1", "2"]), "pods": "4"}}
        node["spec"]["unschedulable"] = rng.random() < 0.1
        assembly.add({"apiVersion": "v1", "kind": "Node", **node})
    for name, spec in made["classes"].items():
        meta = {"name": name, "uid": name}
        assembly.add(
            {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "spec": spec}
        )
    for name, labels in made["namespaces"].items():
        class_name = made["class_of"].get(name)
        own = {names.CLASS_KEY: class_name} if class_name else {}
        meta = {"name": name, "uid": name, "labels": {**labels, **own}}
        assembly.add({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    waiting = [made["pod"]] * 4
    for number, pod in enumerate([*made["pods"], *waiting]):
        assembly.add(_pod(pod, number, rng))
    return assembly.finish({}, "generated")


def _pod(pod: dict[str, Any], number: int, rng: Random) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main"}
    container["resources"] = {"requests": {"cpu": rng.choice(["100m", "600m"])}}
    if rng.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    metadata = {**pod["metadata"], "name": f"p{number}", "uid": f"u{number}"}
    spec = {**pod["spec"], "containers": [container], "priority": rng.choice([0, 0, 5])}
    spec["schedulerName"] = names.SCHEDULER_NAME if rng.random() < 0.8 else "default-scheduler"
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata, "spec": spec}


def world(snapshot: Snapshot) -> World:
    return World(snapshot, Policy())


def by_key(snapshot: Snapshot) -> dict[str, PodRecord]:
    return {record.key: record for record in snapshot.pods}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pod_is_placed_where_the_deciding_code_refuses_it(seed: int) -> None:
    """Each placement is checked anew, against an index built from scratch for that moment."""
    now = generated(seed)
    placements = [p for group in trial.run(world(now)) for p in group.placements]
    for placement in _in_turn(now, placements):
        record = by_key(now)[placement.pod]
        victims = set(placement.preempted)
        now = replace(now, pods=tuple(r for r in now.pods if r.key not in victims))
        if not placement.node:
            continue
        there = world(now)
        in_tree = Decisions(there.cluster(with_classes=False), Scope.MERGED)
        assert in_tree.why_not(without_class(record.pod), placement.node) is None
        if record.scheduler == names.SCHEDULER_NAME:
            extender = Decisions(there.cluster(own_terms=False), Scope.CLASS)
            assert extender.why_not(record.pod, placement.node) is None
        capacity = Capacity(now.nodes, now.pods)
        assert list(capacity.lacks(record, placement.node)) == []
        placed = replace(record, pod=record.pod.on(placement.node))
        now = replace(now, pods=tuple(placed if r is record else r for r in now.pods))


def _in_turn(now: Snapshot, placements: list[trial.Placement]) -> list[trial.Placement]:
    order = [candidate.record.key for candidate in candidates(world(now))]
    return sorted(placements, key=lambda placement: order.index(placement.pod))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pod_stays_pending_only_if_every_node_has_a_reason(seed: int) -> None:
    now = world(generated(seed))
    for group in trial.run(now):
        for verdict in group.first.verdicts:
            assert verdict.passed == (not verdict.rejections)
            assert (verdict.score is not None) == verdict.passed
        assert bool(group.first.node) == any(v.passed for v in group.first.verdicts)
        assert all(p.node or p.message for p in group.placements)


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_a_simulation_leaves_the_world_as_it_was_and_repeats(seed: int) -> None:
    now = world(generated(seed))
    before = now.snapshot
    assert trial.run(now) == trial.run(now)
    assert now.snapshot == before


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_judging_a_running_pod_leaves_no_trace(seed: int) -> None:
    now = world(generated(seed))
    simulator = Simulator(now)
    records = [record for record in now.snapshot.pods if record.running]
    first = [simulator.judge(record) for record in records]
    assert [simulator.judge(record) for record in reversed(records)] == first[::-1]


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_a_change_that_changes_nothing_has_no_effect(seed: int) -> None:
    snapshot = generated(seed)
    now = world(snapshot)
    same = changes.overlay(snapshot, replace(snapshot, origin=""))
    after = world(same)
    told = impact(now, after, trial.run(now), trial.run(after))
    assert not any(
        (told.tenants, told.breaking, told.mended, told.starting, told.stopping, told.moved)
    )


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_pods_that_a_change_does_not_concern_fare_as_they_did(seed: int) -> None:
    snapshot = generated(seed)
    gone = snapshot.nodes[0].node.name
    before = trial.run(world(displaced(snapshot)))
    groups = trial.run(world(displaced(changes.remove_node(snapshot, gone), {gone})))
    concerned = groups_concerned(groups, before, namespaces=(), names=())
    node_of = {p.pod: p.node for group in before for p in group.placements}
    for group in groups:
        same = all(node_of.get(p.pod) == p.node for p in group.placements)
        assert same or group in concerned
    assert groups_concerned(groups, groups, namespaces=(), names=()) == ()


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_whatever_breaks_its_node_constraints_is_called_a_violation(seed: int) -> None:
    now = world(generated(seed))
    found = pod_violations(now)
    for record in now.snapshot.pods:
        cls = now.classes.get(now.class_name_of(record) or "")
        node = now.nodes.get(record.pod.node_name)
        if cls is None or cls.spec is None or node is None or not record.running:
            continue
        allowed = node in now.matching_nodes(cls.name)
        kinds = {violation.kind for violation in found.get(record.key, ())}
        assert (ViolationKind.NODE in kinds) == (not allowed)


@pytest.mark.parametrize("seed", SEEDS[:30])
def test_nothing_is_lost_when_a_node_goes(seed: int) -> None:
    """Each pod stays, waits again, or is said to end."""
    snapshot = generated(seed)
    gone = snapshot.nodes[0].node.name
    after = world(displaced(changes.remove_node(snapshot, gone), {gone}))
    now = world(displaced(snapshot))
    told = impact(now, after, trial.run(now), trial.run(after))
    left = {record.key for record in after.snapshot.pods}
    ended = {outcome.pod for outcome in told.ending}
    running = {r.key for r in now.snapshot.pods if r.running}
    assert running <= left | ended
    assert not any(r.running and r.pod.node_name == gone for r in after.snapshot.pods)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_explained_of_a_class_is_what_the_extender_answers(seed: int) -> None:
    """Rule for rule and score for score, over an index built as the extender builds its own."""
    now = world(generated(seed))
    extender = Decisions(now.cluster(own_terms=False), Scope.CLASS)
    simulator = Simulator(now)
    for record in now.snapshot.pods:
        if record.scheduler != names.SCHEDULER_NAME or record.pod.finished:
            continue
        answered: Reasons = {}
        extender.filter(record.pod, sorted(now.nodes), answered)
        verdicts = simulator.judge(record).verdicts
        for verdict in verdicts:
            told = [check for check in verdict.rejections if check.class_name]
            assert bool(told) == (verdict.node in answered)
            if told:
                said = answered[verdict.node]
                assert (told[0].rule, told[0].reason, told[0].message, told[0].class_name) == (
                    said.plugin.value,
                    said.reason,
                    said.message,
                    said.class_name,
                )
        passed = [verdict for verdict in verdicts if verdict.passed]
        coarse = extender.score(record.pod, [verdict.node for verdict in passed]).coarse()
        added = [verdict.scores.get("SchedulingClass", 0) for verdict in passed]
        assert added == ([10 * score for score in coarse] or [0] * len(passed))


def shop(*, replicas: int, **pod_spec: Any) -> World:
    """A Deployment of which one pod runs on each of the first nodes of zones a, a and b."""
    assembly = Assembly()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        assembly.add({"apiVersion": "v1", "kind": "Node", "metadata": _meta(name, labels=labels)})
    assembly.add({"apiVersion": "v1", "kind": "Namespace", "metadata": _meta("shop")})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    meta = {"namespace": "shop", "ownerReferences": [{**owner, "uid": "web"}]}
    running = [("one", "n1")] if replicas else []
    for name, node in [*running, ("waits", "")]:
        spec = {"containers": [{"name": "main"}], "nodeName": node, **pod_spec}
        assembly.add(
            {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(name, **meta), "spec": spec}
        )
    return world(assembly.finish({}, "shop"))


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": name, **more}


def spread_scores(now: World) -> list[int | None]:
    judgement = Simulator(now).judge(by_key(now.snapshot)["shop/waits"])
    return [verdict.scores.get("PodTopologySpread") for verdict in judgement.verdicts]


def test_siblings_are_spread_over_nodes_and_zones_without_being_asked() -> None:
    # n1: ln 5 + 2 for its pod, ln 4 + 4 for its zone: 9. n2: 2 + ln 4 + 4: 7. n3: 2 + 4: 6.
    # Normalised to 100 * (9 + 6 - score) / 9.
    assert spread_scores(shop(replicas=1)) == [66, 88, 100]
    assert spread_scores(shop(replicas=0)) == [100, 100, 100]


def test_a_pod_with_a_spread_of_its_own_is_not_spread_besides() -> None:
    own = {"topologyKey": "none", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    own_spread = [{**own, "labelSelector": {}}]
    assert spread_scores(shop(replicas=1, topologySpreadConstraints=own_spread)) == [0, 0, 0]
