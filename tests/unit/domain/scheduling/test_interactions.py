"""What a placement must not rest on: pods that may yet turn out not to run."""

from collections.abc import Iterable
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.domain.names import HOSTNAME_LABEL
from schedclass.domain.scheduling import Pod
from schedclass.domain.scheduling.interactions import worst_absences
from tests.unit.domain.scheduling.world import REQUIRED, World, anti_affinity, pod, spread

NODES = ("n1", "n2", "n3", "n4")
KEYS = st.sampled_from(["zone", "rack", HOSTNAME_LABEL])
APPS = st.sampled_from(["db", "db", "web"])
SELECTORS = APPS.map(lambda app: {"matchLabels": {"app": app}})


def term(topology: str, selector: Any) -> dict[str, Any]:
    """Of all namespaces: uncertain pods need not have the class themselves."""
    return {"topologyKey": topology, "labelSelector": selector, "namespaceSelector": {}}


TERMS = st.builds(term, KEYS, SELECTORS)
SPREADS = st.builds(
    lambda key, skew, selector: spread(key, skew=skew, labelSelector=selector)[0],
    KEYS,
    st.integers(1, 2),
    SELECTORS,
)
AFFINITY = st.lists(TERMS, min_size=1, max_size=2).map(lambda all_: {REQUIRED: all_})
ANTI_AFFINITY = TERMS.map(lambda one: {REQUIRED: [one]})
CLASSES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "affinity": st.fixed_dictionaries({"podAffinity": AFFINITY}),
    "spread": st.fixed_dictionaries(
        {"topologySpreadConstraints": st.lists(SPREADS, min_size=1, max_size=2)}
    ),
    "all": st.fixed_dictionaries(
        {"podAffinity": AFFINITY},
        optional={
            "podAntiAffinity": ANTI_AFFINITY,
            "topologySpreadConstraints": SPREADS.map(lambda one: [one]),
        },
    ),
}


@st.composite
def pods(draw: st.DrawFn, prefix: str, most: int) -> list[Pod]:
    """Pods on nodes, of the class's namespace or of another one."""
    count = draw(st.integers(0, most))
    return [
        pod(
            f"{prefix}{number}",
            node=draw(st.sampled_from(NODES)),
            namespace=draw(st.sampled_from(["tenant", "tenant", "other"])),
            labels={"app": draw(APPS)},
        )
        for number in range(count)
    ]


def cluster_of(spec: dict[str, Any], certain: list[Pod], uncertain: list[Pod]) -> World:
    world = World(**spec)
    world.cluster.put_namespace("other", {}, None)
    for name, zone, rack in zip(NODES, "aabb", "cdcd", strict=True):
        world.node(name, zone=zone, rack=rack)
    for one in certain:
        world.cluster.put_pod(one)
    for one in uncertain:
        world.cluster.assume(one, one.node_name)
    return world


def holds(world: World, waiting: Pod, node: str, absent: Iterable[str]) -> bool:
    with world.cluster.supposing(absent=absent):
        return world.decisions.why_not(waiting, node) is None


@pytest.mark.parametrize("kind", CLASSES)
@settings(max_examples=200)
@given(
    data=st.data(),
    certain=pods("certain", 2),
    uncertain=pods("uncertain", 5),
    app=APPS,
    node=st.sampled_from(NODES),
)
def test_what_holds_without_each_worst_set_holds_whatever_becomes_of_the_pods(
    kind: str, data: st.DataObject, certain: list[Pod], uncertain: list[Pod], app: str, node: str
) -> None:
    world = cluster_of(data.draw(CLASSES[kind]), certain, uncertain)
    waiting = pod("p", labels={"app": app})
    uids = [one.uid for one in uncertain]
    worst = list(worst_absences(world.cluster, waiting, node, uncertain))
    assert all(worst)
    assert len(set(worst)) == len(worst)
    subsets = chain.from_iterable(combinations(uids, size) for size in range(len(uids) + 1))
    if all(holds(world, waiting, node, absent) for absent in (frozenset[str](), *worst)):
        assert all(holds(world, waiting, node, absent) for absent in subsets)


def test_of_two_uncertain_leaders_the_near_one_alone_may_fail() -> None:
    """Without both the follower would be the first of its kind, and might go anywhere."""
    leaders = [
        pod("l1", node="n1", labels={"app": "db"}),
        pod("l2", node="n3", labels={"app": "db"}),
    ]
    affinity = {REQUIRED: [term("zone", {"matchLabels": {"app": "db"}})]}
    world = cluster_of({"podAffinity": affinity}, [], leaders)
    waiting = pod("p", labels={"app": "db"})
    worst = set(worst_absences(world.cluster, waiting, "n4", leaders))
    assert worst == {frozenset({"l2"})}
    assert not holds(world, waiting, "n4", {"l2"})
    assert holds(world, waiting, "n4", {"l1", "l2"})


def test_anti_affinity_alone_has_nothing_to_fear() -> None:
    uncertain = [pod("u", node="n1")]
    world = cluster_of({"podAntiAffinity": anti_affinity()}, [], uncertain)
    assert list(worst_absences(world.cluster, pod("p"), "n2", uncertain)) == []
