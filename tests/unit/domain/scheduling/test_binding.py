"""The check at binding: of two pods that exclude each other the second is refused."""

from schedclass.domain.scheduling import Scope
from tests.unit.domain.scheduling.world import World, anti_affinity, pod, spread


def test_a_binding_under_way_counts_before_the_watch_has_seen_it() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    assert world.decisions.why_not(pod("db-0"), "n1") is None
    world.cluster.assume(pod("db-0"), "n1")

    refusal = world.decisions.why_not(pod("db-1"), "n1")

    assert refusal is not None
    assert refusal.class_name == "dc"
    assert world.decisions.why_not(pod("db-1"), "n2") is None


def test_a_binding_that_failed_is_forgotten() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a")
    world.cluster.assume(pod("db-0"), "n1")

    assert world.cluster.forget("db-0")

    assert world.allowed(pod("db-1")) == ["n1"]
    assert not world.cluster.forget("db-0")


def test_a_binding_that_was_seen_is_not_forgotten() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a")
    world.cluster.assume(pod("db-0"), "n1")
    world.run("db-0", "n1")

    assert not world.cluster.forget("db-0")

    assert world.allowed(pod("db-1")) == []


def test_a_late_event_from_before_the_binding_does_not_undo_it() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    world.cluster.assume(pod("db-0"), "n1")

    world.cluster.put_pod(pod("db-0"))

    assert world.allowed(pod("db-1")) == ["n2"]
    assert world.cluster.assumed == {"db-0": "n1"}


def test_a_pod_that_turns_out_bound_elsewhere_counts_there() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    world.cluster.assume(pod("db-0"), "n1")

    world.run("db-0", "n2")

    assert world.allowed(pod("db-1")) == ["n1"]
    assert world.cluster.assumed == {}


def test_a_binding_that_is_tried_again_does_not_stand_in_its_own_way() -> None:
    world = World(podAntiAffinity=anti_affinity(), topologySpreadConstraints=spread())
    world.nodes("a", "b")
    world.cluster.assume(pod("db-0"), "n1")

    assert world.decisions.why_not(pod("db-0"), "n1") is None
    assert world.allowed(pod("db-0")) == ["n1", "n2"]
    assert world.allowed(pod("db-1")) == ["n2"]


def test_victims_are_left_out_and_nominated_pods_counted_on_supposition() -> None:
    world = World(podAntiAffinity=anti_affinity()).nodes("a", "b")
    world.run("db-0", "n1")
    with world.cluster.supposing(present=[pod("db-9", node="n2")], absent=["db-0"]):
        assert world.allowed(pod("db-1")) == ["n1"]
    assert world.allowed(pod("db-1")) == ["n2"]


def test_the_version_tells_whether_a_rejected_pod_is_worth_another_try() -> None:
    world = World(Scope.CLASS, nodeSelector={"zone": "a"}).nodes("b")
    before = world.cluster.version
    assert world.allowed(pod("p")) == []
    world.cluster.put_node(world.cluster.topology.nodes["n1"])
    world.cluster.put_namespace("tenant", {}, "dc")
    world.cluster.put_pod(pod("p"))
    assert world.cluster.version == before

    world.node("n1", zone="a")

    assert world.cluster.version > before
    assert world.allowed(pod("p")) == ["n1"]
