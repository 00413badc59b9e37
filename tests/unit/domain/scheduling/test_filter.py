"""Which nodes a pod with a class can go to, and what it is told about the others."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from schedclass.domain.names import HOSTNAME_LABEL
from schedclass.domain.nodes import Taint
from schedclass.domain.scheduling import Plugin, Scope
from tests.unit.domain.scheduling.world import (
    LINEAGE,
    REQUIRED,
    World,
    anti_affinity,
    pod,
    spread,
)

Json = Any


def test_a_node_selector_keeps_pods_off_other_nodes_and_names_the_class() -> None:
    world = World(nodeSelector={"zone": "west"}).nodes("west", "east", None)

    assert world.allowed(pod("p")) == ["n1"]
    assert Counter(world.why(pod("p")).values()) == {
        'node(s) didn\'t match SchedulingClass "dc" node selector': 2
    }


def test_node_selectors_of_pod_and_class_hold_together() -> None:
    world = World(Scope.MERGED, nodeSelector={"zone": "west"}).nodes("west", "east")

    assert world.allowed(pod("p", nodeSelector={"zone": "east"})) == []
    assert world.why(pod("p", nodeSelector={"zone": "east"})) == {
        "n1": "node(s) didn't match Pod's node affinity/selector",
        "n2": 'node(s) didn\'t match SchedulingClass "dc" node selector',
    }


WEST: Json = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}


@pytest.mark.parametrize(
    ("terms", "allowed"),
    [([{}], []), ([{}, WEST], ["n1"]), ([WEST], ["n1"])],
    ids=["an empty term matches no node", "other terms still count", "one term"],
)
def test_empty_terms_of_a_class_never_widen_it(terms: list[Json], allowed: list[str]) -> None:
    world = World(nodeAffinity={REQUIRED: {"nodeSelectorTerms": terms}}).nodes("west", "east")

    assert world.allowed(pod("p")) == allowed


def test_an_empty_term_of_the_pod_is_not_widened_by_the_class() -> None:
    affinity: Json = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    world = World(Scope.MERGED, nodeSelector={"zone": "west"}).nodes("west")

    assert world.allowed(pod("p", affinity=affinity)) == []


def test_four_replicas_apart_by_hostname_on_three_nodes_leave_one_pending() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b", "c")

    assert [world.place(f"db-{i}") for i in range(4)] == ["n1", "n2", "n3", None]
    assert set(world.why(pod("db-3")).values()) == {
        'node(s) didn\'t match SchedulingClass "dc" pod anti-affinity rules'
    }


@pytest.mark.parametrize(("replicas", "counts"), [(7, [2, 2, 3]), (9, [3, 3, 3])])
def test_spread_with_max_skew_one_is_even(replicas: int, counts: list[int]) -> None:
    world = World(topologySpreadConstraints=spread()).nodes("a", "b", "c")

    nodes = [world.place(f"db-{i}") for i in range(replicas)]

    assert sorted(Counter(nodes).values()) == counts


def test_spread_does_not_count_nodes_that_the_class_forbids() -> None:
    world = World(nodeSelector={"zone": "a"}, topologySpreadConstraints=spread())
    world.nodes("a", "b", "c")

    assert [world.place(f"db-{i}") for i in range(3)] == ["n1"] * 3


def test_spread_does_not_count_nodes_that_the_pod_forbids_itself() -> None:
    world = World(topologySpreadConstraints=spread()).nodes("a", "b")
    selector = {"zone": "a"}
    world.cluster.assume(pod("db-0", nodeSelector=selector), "n1")

    assert world.allowed(pod("db-1", nodeSelector=selector)) == ["n1", "n2"]
    assert world.allowed(pod("db-1")) == ["n2"]


def test_spread_counts_tainted_nodes_unless_told_to_honor_taints() -> None:
    taints = (Taint("dedicated", "x", "NoSchedule"),)
    for policy, allowed in (("Ignore", ["n2"]), ("Honor", ["n1", "n2"])):
        world = World(topologySpreadConstraints=spread(nodeTaintsPolicy=policy))
        world.node("n1", zone="a")
        world.node("n2", zone="b", taints=taints)
        world.run("db-0", "n1")

        assert world.allowed(pod("db-1")) == allowed, policy


def test_terminating_pods_no_longer_count_in_spread_and_still_repel() -> None:
    world = World(topologySpreadConstraints=spread()).nodes("a", "b")
    world.run("db-0", "n1", terminating=True)
    assert world.allowed(pod("db-1")) == ["n1", "n2"]

    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    world.run("db-0", "n1", terminating=True)
    assert world.allowed(pod("db-1")) == ["n2"]


def test_a_node_without_the_topology_label_fails_spread_and_affinity_and_passes_anti() -> None:
    waiting = pod("p")
    rules: dict[str, Json] = {
        "topologySpreadConstraints": spread(),
        "podAffinity": {REQUIRED: [{"topologyKey": "zone"}]},
    }
    for name, rule in rules.items():
        world = World(**{name: rule}).nodes("a", None)
        assert world.allowed(waiting) == ["n1"], name
    assert World(podAntiAffinity=anti_affinity("zone")).nodes("a", None).allowed(waiting) == [
        "n1",
        "n2",
    ]


def test_class_anti_affinity_also_holds_against_pods_that_come_later() -> None:
    world = World(
        podAntiAffinity=anti_affinity(
            labelSelector={"matchLabels": {"app": "noisy"}}, namespaceSelector={}
        )
    )
    world.nodes("a", "b").put_class("other")
    world.cluster.put_namespace("neighbour", {}, "other")
    noisy = pod("noisy", namespace="neighbour", labels={"app": "noisy"})
    assert world.allowed(noisy) == ["n1", "n2"]

    world.run("quiet", "n1")

    assert world.allowed(noisy) == ["n2"]
    assert world.why(noisy) == {
        "n1": "node(s) didn't satisfy existing pods' SchedulingClass \"dc\" anti-affinity rules"
    }
    world.put_class()
    assert world.allowed(noisy) == ["n1", "n2"]


def test_a_relabelled_namespace_changes_whom_running_pods_repel() -> None:
    world = World(
        podAntiAffinity=anti_affinity(
            labelSelector={}, namespaceSelector={"matchLabels": {"trust": "low"}}
        )
    ).nodes("a", "b")
    world.run("db-0", "n1")
    stranger = pod("stranger", namespace="plain", labels={})
    world.cluster.put_namespace("plain", {}, None)
    assert world.allowed(stranger) == ["n1", "n2"]

    world.cluster.put_namespace("plain", {"trust": "low"}, None)

    assert world.allowed(stranger) == ["n2"]


def test_the_first_pod_may_go_anywhere_and_the_next_follows_it() -> None:
    world = World(podAffinity={REQUIRED: [{"topologyKey": "zone"}]}).nodes("a", "b", None)

    assert world.allowed(pod("db-0")) == ["n1", "n2"]
    world.run("db-0", "n2")
    assert world.allowed(pod("db-1")) == ["n2"]
    assert set(world.why(pod("db-1")).values()) == {
        'node(s) didn\'t match SchedulingClass "dc" pod affinity rules'
    }


def test_affinity_terms_of_pod_and_class_must_be_met_by_one_and_the_same_pod() -> None:
    own = {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {
        "matchLabels": {"app": "x"}}}]}}  # fmt: skip
    world = World(podAffinity={REQUIRED: [{"topologyKey": "zone"}]}).nodes("a", "b")
    waiting = pod("p", labels={**LINEAGE, "app": "x"}, affinity=own)
    world.run("only-app", "n1", labels={"app": "x"})
    world.run("only-lineage", "n1")
    assert world.allowed(waiting) == ["n1", "n2"]  # nobody matches both: the first of its kind

    world.run("both", "n2", labels={**LINEAGE, "app": "x"})

    assert world.allowed(waiting) == ["n2"]


def test_a_missing_selector_is_filled_only_for_pods_with_all_the_labels() -> None:
    partly = {"apps.cozystack.io/application.kind": "Postgres"}
    for name in ("podAntiAffinity", "topologySpreadConstraints"):
        rule: Json = {name: anti_affinity() if name == "podAntiAffinity" else spread()}
        world = World(**rule).nodes("a", "b")
        world.run("db-0", "n1", labels=partly)
        assert world.allowed(pod("db-1", labels=partly)) == ["n1", "n2"], name


def test_required_affinity_that_selects_nothing_says_which_labels_are_missing() -> None:
    world = World(podAffinity={REQUIRED: [{"topologyKey": "zone"}]}).nodes("a", "b")

    group, kind, name = LINEAGE
    (message,) = set(world.why(pod("job", labels={kind: "Postgres"})).values())

    assert message == (
        'SchedulingClass "dc" pod affinity has no labelSelector, and the pod lacks labels to fill '
        f"it from ({group}, {name})"
    )


def test_an_empty_selector_stays_everything_in_the_namespace() -> None:
    world = World(podAntiAffinity=anti_affinity(labelSelector={})).nodes("a", "b")
    world.run("other-app", "n1", labels={"app": "other"})
    world.run("elsewhere", "n2", namespace="plain")

    assert world.allowed(pod("p")) == ["n2"]


def test_label_keys_of_class_terms_take_the_values_of_each_pod() -> None:
    apart: Json = {"labelSelector": {"matchLabels": {"app": "x"}}, "namespaceSelector": {}}
    red, blue = {"app": "x", "team": "red"}, {"app": "x", "team": "blue"}
    cases: list[tuple[Json, Json]] = [
        ({"matchLabelKeys": ["team"]}, {"red": ["n2"], "blue": ["n1", "n2"]}),
        ({"mismatchLabelKeys": ["team"]}, {"red": ["n1", "n2"], "blue": ["n2"]}),
        ({"mismatchLabelKeys": ["absent"]}, {"red": ["n2"], "blue": ["n2"]}),
    ]
    for keys, allowed in cases:
        world = World(podAntiAffinity=anti_affinity(**apart, **keys)).nodes("a", "b")
        world.run("first", "n1", labels=red)
        assert world.allowed(pod("p", labels=red)) == allowed["red"], keys
        assert world.allowed(pod("p", labels=blue)) == allowed["blue"], keys


def test_label_keys_of_a_pods_own_terms_are_merged_by_the_api_server_and_not_again() -> None:
    stored = {"podAntiAffinity": anti_affinity(
        labelSelector={"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]},
        matchLabelKeys=["v"])}  # fmt: skip
    world = World(Scope.MERGED).nodes("a", "b")
    world.run("old", "n1", labels={"v": "1"})

    relabelled_since = pod("p", labels={"v": "2"}, affinity=stored)

    assert world.allowed(relabelled_since) == ["n2"]


def test_the_hostname_label_counts_not_the_name_of_the_node() -> None:
    world = World(podAntiAffinity=anti_affinity())
    shared: Json = {HOSTNAME_LABEL: "shared"}
    world.node("n1", **shared)
    world.node("n2", **shared)
    world.run("db-0", "n1")

    assert world.allowed(pod("db-1")) == []


def test_a_missing_class_stops_its_pods_and_is_felt_when_it_comes_back() -> None:
    world = World().nodes("a")
    world.cluster.remove_class("dc")
    assert world.why(pod("p")) == {"n1": 'SchedulingClass "dc" not found'}

    world.put_class()

    assert world.allowed(pod("p")) == ["n1"]


def test_a_class_that_no_longer_compiles_fails_its_own_pods_only() -> None:
    world = World(podAntiAffinity=anti_affinity(labelSelector={"matchLabels": {"app": "-bad-"}}))
    world.nodes("a").put_class("good", nodeSelector={"zone": "a"})
    world.cluster.put_namespace("other", {}, "good")
    world.run("running", "n1")

    (message,) = world.why(pod("p")).values()
    assert message.startswith('SchedulingClass "dc" is invalid: spec.podAntiAffinity')
    assert world.allowed(pod("q", namespace="other")) == ["n1"]


def test_the_annotation_decides_only_where_the_namespace_has_no_class() -> None:
    world = World(nodeSelector={"zone": "a"}).nodes("a", "b")
    world.put_class("wide")
    world.cluster.put_namespace("plain", {}, None)

    annotated = replace(pod("p"), class_annotation="wide")
    assert world.allowed(annotated) == ["n1"]
    assert world.cluster.class_name_of(replace(annotated, namespace="plain")) == "wide"


def test_a_pod_that_claims_a_daemon_set_as_its_owner_heeds_its_class_like_any_other() -> None:
    world = World(nodeSelector={"zone": "a"}, podAntiAffinity=anti_affinity("zone"))
    world.nodes("a", "a", "b")

    assert world.place("d-1", daemon=True) == "n1"
    assert world.allowed(pod("d-2", daemon=True)) == []
    assert world.allowed(pod("db-0")) == []


def test_finished_pods_and_pods_on_unknown_nodes_take_no_place() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    running = world.run("db-0", "n1")
    world.run("db-1", "n2")
    world.cluster.remove_node("n2")
    world.node("n2")
    assert world.allowed(pod("db-2")) == []

    world.cluster.put_pod(replace(running, finished=True))

    assert world.allowed(pod("db-2")) == ["n1"]


def test_a_node_that_is_not_known_yet_is_left_out() -> None:
    world = World().nodes("a")

    reasons: Json = {}
    assert world.decisions.filter(pod("p"), ["n1", "new"], reasons) == ["n1"]
    assert "not known" in reasons["new"].message


def test_explain_lists_what_each_plugin_has_against_a_node() -> None:
    world = World(Scope.MERGED, nodeSelector={"zone": "a"}, podAntiAffinity=anti_affinity())
    world.node("n1", zone="b", taints=(Taint("dedicated", "x", "NoSchedule"),))
    world.run("db-0", "n1")

    told = world.decisions.explain(pod("db-1"), ["n1"])

    assert list(told["n1"]) == [
        Plugin.TAINT_TOLERATION,
        Plugin.NODE_AFFINITY,
        Plugin.POD_AFFINITY,
    ]


@pytest.mark.parametrize(
    ("spec", "called"),
    [
        ({"nodeSelector": {"zone": "east"}}, "node selector"),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}, "node affinity"),
        (
            {
                "nodeSelector": {"zone": "west"},
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}},
            },
            "node affinity/selector",
        ),
    ],
)
def test_a_class_is_told_of_what_it_has(spec: Json, called: str) -> None:
    world = World(**spec).nodes("west")
    told = world.why(pod("p"))
    assert told == {"n1": f'node(s) didn\'t match SchedulingClass "dc" {called}'}
