"""Volumes of one zone and rules between pods: a class pod keeps both, or says why it waits."""

from collections.abc import Iterator

import pytest

from controlplane import Installation, eventually
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.volumes import Volumes
from tests.cluster.scheduling.workloads import ZONE, Workloads, anti_affinity, spread

DB = {"tier": "db"}
ZONES = {"node-1": "a", "node-2": "b", "node-3": "c"}
RATHER_NODE_1 = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                    ]
                },
            }
        ]
    }
}


def create(workloads: Workloads, volumes: Volumes, *names: str) -> None:
    """Pods that would all rather be on `node-1`, each with a claim of its name."""
    for name in names:
        claim = volumes.claim(workloads, name)
        workloads.create(name, labels=DB, volumes=claim, affinity=RATHER_NODE_1)


def test_volumes_of_two_zones_take_two_pods_that_avoid_one_another_by_zone(
    tenant: Tenant, volumes: Volumes
) -> None:
    for zone in ("a", "a", "b"):
        volumes.add(zone)
    db = tenant(podAntiAffinity=anti_affinity(DB, ZONE))
    create(db, volumes, "one", "two")
    db.wait_placed(2)
    assert db.zones() == {"a": 1, "b": 1}
    create(db, volumes, "three")
    text = db.wait_pending("three", "didn't find available persistent volumes to bind")
    assert "anti-affinity" in text
    volumes.add("c")
    assert db.wait_node("three", seconds=5) == "node-3"


def test_a_spread_waits_for_a_volume_in_the_emptier_zone(tenant: Tenant, volumes: Volumes) -> None:
    for zone in ("a", "a"):
        volumes.add(zone)
    db = tenant(topologySpreadConstraints=spread(DB))
    create(db, volumes, "one")
    assert db.wait_node("one") == "node-1"
    create(db, volumes, "two")
    text = db.wait_pending("two", "2 node(s) didn't find available persistent volumes to bind")
    assert "topology spread" in text
    volumes.add("b")
    assert db.wait_node("two", seconds=5) == "node-2"


def test_no_volume_is_made_where_a_rule_will_not_let_its_pod_run(
    tenant: Tenant, made_volumes: Volumes
) -> None:
    """A volume made in the wrong zone would keep its pod out of the right one for ever."""
    db = tenant(podAntiAffinity=anti_affinity(DB, ZONE))
    names = ["one", "two", "three", "four"]
    create(db, made_volumes, *names)
    eventually(
        "volumes are wanted for three pods, none of which is bound",
        lambda: len(made_volumes.wanted(db)) == 3,
    )
    wanted = made_volumes.wanted(db)
    assert sorted(wanted.values()) == sorted(ZONES)
    (left,) = set(names) - wanted.keys()
    db.wait_pending(left, "anti-affinity")

    given_up = next(name for name, node in wanted.items() if node == "node-1")
    db.delete(given_up)
    eventually("its zone is open again", lambda: left in made_volumes.wanted(db))
    wanted = made_volumes.wanted(db)
    for name, node in wanted.items():
        if name != given_up:
            made_volumes.provision(db, name, ZONES[node])
    db.wait_placed(3)
    assert db.zones() == {"a": 1, "b": 1, "c": 1}


@pytest.fixture
def silent_schedulers(operator: Installation) -> Iterator[None]:
    """Until 1.34 kube-scheduler does not write on a pod where it is sent (KEP-5278)."""
    before = operator.values.get("scheduler", {})
    off = ["--feature-gates=NominatedNodeNameForExpectation=false"]
    without = {**before, "kubeScheduler": {**before.get("kubeScheduler", {}), "extraArgs": off}}
    for scheduler in (without, before):
        operator.install_chart(scheduler=scheduler)
        for name in operator.schedulers:
            operator.process(name).stop(15)
            operator.start_replica(name)
        if scheduler is not before:
            yield


@pytest.mark.usefixtures("silent_schedulers")
def test_a_volume_on_its_way_is_known_to_an_extender_that_starts_anew(
    operator: Installation, tenant: Tenant, made_volumes: Volumes
) -> None:
    """Nobody but the claims knows then where their pods are sent."""
    db = tenant(
        nodeSelector={"topology.kubernetes.io/region": "west"},
        podAntiAffinity=anti_affinity(DB, ZONE),
    )
    create(db, made_volumes, "one", "two")
    eventually("two volumes are wanted", lambda: len(made_volumes.wanted(db)) == 2)
    before = made_volumes.wanted(db)
    assert sorted(before.values()) == ["node-1", "node-2"]
    for name in operator.extenders:
        operator.process(name).kill()
    for name in operator.extenders:
        operator.start_replica(name)
    create(db, made_volumes, "three")
    db.wait_pending("three", "anti-affinity")
    assert made_volumes.wanted(db) == before
    for name, node in before.items():
        made_volumes.provision(db, name, ZONES[node])
    db.wait_placed(2)
