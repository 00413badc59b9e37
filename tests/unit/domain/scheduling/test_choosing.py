"""Which node is named for a pod beforehand, alone and in bursts."""

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.domain.names import HOSTNAME_LABEL
from schedclass.domain.nodes import Node, Taint
from schedclass.domain.resources import Demand, parse_demand
from schedclass.domain.scheduling import Decisions, Pod, Scope
from schedclass.domain.scheduling.choosing import Chooser
from schedclass.domain.scheduling.room import Room
from tests.unit.domain.scheduling.world import (
    LINEAGE,
    PREFERRED,
    World,
    anti_affinity,
    pod,
    spread,
)

ROOM = {"cpu": 4000, "memory": 8 << 30, "pods": 10}
CPU = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}


def asking(name: str, cpu: str = "100m", **more: Any) -> Pod:
    requests = {"cpu": cpu, "memory": "64Mi"}
    return pod(name, containers=[{"resources": {"requests": requests}}], **more)


class Chosen:
    """A chooser on a world, and the reservations of what it chose."""

    def __init__(self, *zones: str | None, room: dict[str, int] | None = None, **spec: Any) -> None:
        self.world = World(Scope.MERGED, **spec).nodes(*zones)
        self.room = Room()
        for name in self.world.cluster.topology.nodes:
            self.room.put_node(name, room or ROOM)
        self.decisions = Decisions(self.world.cluster, Scope.MERGED)
        self.chooser = Chooser(self.world.cluster, self.decisions, self.room)

    def run(self, name: str, node: str, cpu: str = "100m", **more: Any) -> None:
        running = asking(name, cpu, node=node, **more)
        self.world.cluster.put_pod(running)
        assert running.demand is not None
        self.room.put(name, node, running.demand)

    def burst(self, *pods: Pod) -> list[str | None]:
        """Chooses for one pod after the other, as if none were placed meanwhile."""
        found = []
        with ExitStack() as stack:
            for each in pods:
                node = self.chooser.choose(each)
                found.append(node)
                if node is not None:
                    assert each.demand is not None
                    self.room.put(each.uid, node, each.demand)
                    present = (each.on(node),)
                    stack.enter_context(self.world.cluster.supposing(present=present))
        return found


def test_the_least_loaded_of_the_allowed_nodes_is_chosen() -> None:
    chosen = Chosen("a", "a", "b", nodeSelector={"zone": "a"})
    chosen.run("big", "n1", "2")
    assert chosen.burst(asking("one")) == ["n2"]


def test_nothing_is_chosen_where_nothing_is_allowed_or_has_room() -> None:
    chosen = Chosen("a", "a", "b", nodeSelector={"zone": "a"})
    assert Chosen("b", nodeSelector={"zone": "a"}).burst(asking("one")) == [None]
    assert chosen.burst(asking("huge", "5")) == [None]


def test_a_class_that_does_not_exist_gets_no_node() -> None:
    chosen = Chosen("a")
    chosen.world.cluster.remove_class("dc")
    assert chosen.burst(asking("one")) == [None]


def test_taints_cordons_and_unknown_resources_keep_hints_away() -> None:
    chosen = Chosen(None)
    chosen.world.node("tainted", taints=(Taint("a", "b", "NoSchedule"),))
    chosen.world.cluster.put_node(Node("cordoned", unschedulable=True))
    chosen.world.node("unknown")
    for name in ("tainted", "cordoned"):
        chosen.room.put_node(name, ROOM)
    assert set(chosen.burst(*(asking(f"p{n}") for n in range(10)))) == {"n1"}
    assert chosen.burst(asking("one-too-many")) == [None]  # n1 has its ten pods


def test_replicas_that_avoid_one_another_get_a_node_each() -> None:
    chosen = Chosen(*"aabbcc", podAntiAffinity=anti_affinity())
    nodes = chosen.burst(*(asking(f"p{n}") for n in range(8)))
    assert sorted(filter(None, nodes)) == [f"n{n}" for n in range(1, 7)]
    assert nodes[6:] == [None, None]


@pytest.mark.parametrize("skew", [1, 2])
def test_a_burst_is_spread_as_it_will_be_placed(skew: int) -> None:
    chosen = Chosen(*"aaabbc", topologySpreadConstraints=spread(skew=skew))
    zones = dict(zip((f"n{n}" for n in range(1, 7)), "aaabbc", strict=True))
    counts = {"a": 0, "b": 0, "c": 0}
    for node in chosen.burst(*(asking(f"p{n}") for n in range(12))):
        assert node is not None
        counts[zones[node]] += 1
        assert max(counts.values()) - min(counts.values()) <= skew


def test_a_preferred_zone_wins_over_less_load() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    chosen = Chosen("a", "a", "b", nodeAffinity={PREFERRED: [{"weight": 1, "preference": term}]})
    chosen.run("big", "n3", "2")
    assert chosen.burst(asking("one")) == ["n3"]


def test_the_wishes_of_the_pod_itself_count_as_well() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}
    assert Chosen("a", "a", "b").burst(asking("one", affinity=affinity)) == ["n3"]
    selected = asking("one", nodeSelector={"zone": "b"})
    assert Chosen("a", "a", "b").burst(selected) == ["n3"]


def test_a_taint_that_only_puts_off_is_avoided() -> None:
    chosen = Chosen("a")
    chosen.world.node("put-off", taints=(Taint("a", "b", "PreferNoSchedule"),), zone="a")
    chosen.room.put_node("put-off", ROOM)
    chosen.run("some", "n1", "1")
    assert chosen.burst(asking("one")) == ["n1"]


def test_pods_of_one_workload_are_spread_though_nobody_asks_for_it() -> None:
    chosen = Chosen("a", "a", "b", room={**ROOM, "cpu": 64_000, "memory": 128 << 30})
    chosen.run("filler-1", "n1", "32", labels={"app": "other"})
    chosen.run("filler-2", "n2", "32", labels={"app": "other"})
    chosen.run("replica", "n3")
    # n3 is nearly empty, but it has a replica already.
    assert chosen.burst(asking("one")) != ["n3"]


def test_who_wants_to_be_on_the_node_of_another_pod_is_left_to_kube_scheduler() -> None:
    near: dict[str, Any] = {
        "podAffinity": {
            PREFERRED: [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": HOSTNAME_LABEL,
                        "labelSelector": {"matchLabels": LINEAGE},
                    },
                }
            ]
        }
    }
    chosen = Chosen("a", "b", **near)
    chosen.run("first", "n1")
    assert chosen.burst(asking("one")) == [None]


def test_nodes_that_come_and_go_count_once_that_is_told() -> None:
    chosen = Chosen("a")
    assert chosen.burst(asking("one")) == ["n1"]
    chosen.world.cluster.remove_node("n1")
    chosen.chooser.nodes_changed()
    assert chosen.burst(asking("two")) == [None]


ZONES = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)
WISH = st.fixed_dictionaries(
    {
        "weight": st.integers(1, 100),
        "preference": st.sampled_from("abc").map(
            lambda zone: {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        ),
    }
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from("abc").map(lambda zone: {"zone": zone}),
        "podAntiAffinity": st.sampled_from(("zone", HOSTNAME_LABEL)).map(anti_affinity),
        "topologySpreadConstraints": st.integers(1, 3).map(lambda skew: spread(skew=skew)),
        "nodeAffinity": st.lists(WISH, max_size=3).map(lambda wishes: {PREFERRED: wishes}),
    },
)


@given(ZONES, SPECS, st.lists(st.tuples(st.integers(0, 11), st.integers(1, 40)), max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_choice_keeps_every_rule_and_is_the_best_by_what_is_preferred(
    zones: list[str], spec: dict[str, Any], running: list[tuple[int, int]]
) -> None:
    chosen = Chosen(*zones, **spec)
    names = sorted(chosen.world.cluster.topology.nodes)
    for number, (where, cpu) in enumerate(running):
        chosen.run(f"r{number}", names[where % len(names)], f"{cpu * 100}m", labels={"app": "x"})
    for number in range(6):
        waiting = asking(f"p{number}")
        demand = waiting.demand
        assert demand is not None
        fitting = [name for name in names if chosen.room.fits(name, demand)]
        passing = chosen.decisions.filter(waiting, fitting)
        node = chosen.chooser.choose(waiting)
        assert (node in passing) if passing else node is None
        if node is None:
            continue
        # What class and pod prefer decides before load and default spreading can, on equal loads.
        totals = dict(zip(passing, chosen.decisions.score(waiting, passing).totals(), strict=True))
        assert totals[node] + 300 >= max(totals.values())
        chosen.run(f"p{number}", node, labels=LINEAGE)


STEPS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["n1", "n2", ""]), st.integers(1, 9)),
    max_size=40,
)


@given(STEPS)
def test_room_is_what_is_left_by_the_pods_that_are_there_now(
    steps: list[tuple[str, str, int]],
) -> None:
    room, places = Room(), dict[str, tuple[str, Demand]]()
    for name in ("n1", "n2"):
        room.put_node(name, ROOM)
    for uid, node, size in steps:
        requests = {"cpu": f"{size * 100}m", "memory": f"{size}Gi"}
        demand = parse_demand({"containers": [{"resources": {"requests": requests}}]})
        if node:
            room.put(uid, node, demand)
            places[uid] = node, demand
        else:
            room.remove(uid)
            places.pop(uid, None)
    anew = Room()
    for name in ("n1", "n2"):
        anew.put_node(name, ROOM)
    for uid, (node, demand) in places.items():
        anew.put(uid, node, demand)
        assert room.place_of(uid) == node
    small = parse_demand({"containers": [CPU]})
    for name in ("n1", "n2"):
        assert room.load(name) == anew.load(name)
        assert room.fits(name, small) == anew.fits(name, small)
