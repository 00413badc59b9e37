"""What a class prefers, in points from 0 to 100 per plugin."""

from typing import Any

import pytest

from schedclass.domain.nodes import Taint
from schedclass.domain.scheduling import Plugin, Scope
from tests.unit.domain.scheduling.world import PREFERRED, World, anti_affinity, pod

Json = Any


def prefer(zone: str, weight: int) -> Json:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def soft_spread(topology: str) -> Json:
    return {"maxSkew": 1, "topologyKey": topology, "whenUnsatisfiable": "ScheduleAnyway"}


def scores(world: World, waiting: Any) -> dict[Plugin, list[int]]:
    names = sorted(world.cluster.topology.nodes)
    return {
        plugin: list(points)
        for plugin, points in world.decisions.score(waiting, names).by_plugin.items()
    }


def test_preferred_nodes_get_points_in_proportion_to_the_weight() -> None:
    world = World(nodeAffinity={PREFERRED: [prefer("a", 80), prefer("b", 20)]})
    world.nodes("a", "b", "c")

    assert scores(world, pod("p")) == {Plugin.NODE_AFFINITY: [100, 25, 0]}


def test_preferred_anti_affinity_puts_off_by_the_number_of_pods() -> None:
    wish = {"weight": 10, "podAffinityTerm": {"topologyKey": "zone"}}
    world = World(podAntiAffinity={PREFERRED: [wish]}).nodes("a", "b", "c")
    world.run("db-0", "n1")
    world.run("db-1", "n1")
    world.run("db-2", "n2")

    # Two pods of the class in zone a put off the third, and it puts them off: -40, -20, 0.
    assert scores(world, pod("db-3")) == {Plugin.POD_AFFINITY: [0, 50, 100]}


def test_soft_spread_prefers_the_emptiest_domain() -> None:
    world = World(topologySpreadConstraints=[soft_spread("zone")]).nodes("a", "a", "b", None)
    world.run("db-0", "n1")

    assert scores(world, pod("db-1")) == {Plugin.TOPOLOGY_SPREAD: [0, 0, 100, 0]}


@pytest.mark.parametrize("scope", Scope)
def test_a_node_without_a_key_of_the_pods_own_soft_spread_takes_no_part(scope: Scope) -> None:
    """As where both constraints stood in the spec (initPreScoreState of PodTopologySpread)."""
    world = World(scope, topologySpreadConstraints=[soft_spread("zone")])
    world.node("n1", zone="a", rack="r1")
    world.node("n2", zone="b")
    world.node("n3", zone="c", rack="r3")
    world.run("db-0", "n1")
    own = [{**soft_spread("rack"), "labelSelector": {}}]

    points = scores(world, pod("db-1", topologySpreadConstraints=own))
    assert points[Plugin.TOPOLOGY_SPREAD] == [0, 0, 100]


def test_beside_the_stock_scheduler_only_what_classes_wish_counts() -> None:
    own: Json = {"podAntiAffinity": anti_affinity("zone", labelSelector={})}
    wish = {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
    own["podAffinity"] = {PREFERRED: [wish]}
    taints = (Taint("slow", "", "PreferNoSchedule"),)
    for scope, plugins in (
        (Scope.CLASS, set()),
        (Scope.MERGED, {Plugin.TAINT_TOLERATION, Plugin.POD_AFFINITY}),
    ):
        world = World(scope).nodes("a", "b")
        world.node("n3", zone="c", taints=taints)
        world.run("other", "n1", affinity=own)

        assert set(scores(world, pod("p", affinity=own))) == plugins, scope


def test_the_total_weighs_the_plugins_as_the_stock_scheduler_does() -> None:
    world = World(
        Scope.MERGED,
        nodeAffinity={PREFERRED: [prefer("a", 1)]},
        topologySpreadConstraints=[soft_spread("zone")],
    ).nodes("a", "b")
    world.run("db-0", "n1")

    given = world.decisions.score(pod("db-1"), ["n1", "n2"])

    assert {plugin: list(points) for plugin, points in given.by_plugin.items()} == {
        Plugin.TAINT_TOLERATION: [100, 100],
        Plugin.NODE_AFFINITY: [100, 0],
        Plugin.TOPOLOGY_SPREAD: [0, 100],
    }
    assert given.totals() == [300 + 200, 300 + 200]


def test_scoring_no_nodes_gives_no_points() -> None:
    world = World(Scope.MERGED, nodeAffinity={PREFERRED: [prefer("a", 1)]})

    assert world.decisions.score(pod("p"), []).totals() == []
