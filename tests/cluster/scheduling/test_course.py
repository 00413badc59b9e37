"""The scenarios of a scheduling course, with classes instead of pod specs, on three nodes."""

from collections import Counter

import pytest

from controlplane import eventually
from tests.cluster.objects import REGION
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.workloads import (
    HOSTNAME,
    ZONE,
    Nodes,
    anti_affinity,
    container,
    spread,
)

WEB = {"app": "web"}
DEDICATED = {"key": "dedicated", "value": "tests", "effect": "NoSchedule"}


def preferred(value: str, weight: int = 100) -> dict[str, object]:
    expression = {"key": HOSTNAME, "operator": "In", "values": [value]}
    wish = {"weight": weight, "preference": {"matchExpressions": [expression]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}


def test_a_node_selector_holds_for_pods_that_know_nothing_of_it(tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.deploy(replicas=4)
    west.wait_placed(4)
    assert set(west.placement()) == {"node-1", "node-2"}


def test_of_four_replicas_that_avoid_one_another_three_run_on_three_nodes(tenant: Tenant) -> None:
    web = tenant(podAntiAffinity=anti_affinity(WEB))
    web.deploy(replicas=4)
    web.wait_placed(3)
    assert web.placement() == Counter(["node-1", "node-2", "node-3"])
    text = web.wait_one_pending("web", "0/3 nodes are available: 3 node(s) didn't match")
    assert "pod anti-affinity rules" in text
    assert "SchedulingClass" in text


@pytest.mark.parametrize(("replicas", "per_zone"), [(7, [2, 2, 3]), (9, [3, 3, 3])])
def test_replicas_are_spread_evenly(tenant: Tenant, replicas: int, per_zone: list[int]) -> None:
    web = tenant(topologySpreadConstraints=spread(WEB))
    web.deploy(replicas=replicas)
    web.wait_placed(replicas)
    assert sorted(web.zones().values()) == per_zone


def test_a_spread_stops_where_a_zone_takes_no_more(tenant: Tenant, nodes: Nodes) -> None:
    nodes.cordon("node-3")
    web = tenant(topologySpreadConstraints=spread(WEB))
    web.deploy(replicas=4)
    web.wait_placed(2)
    assert web.zones() == Counter(["a", "b"])
    waiting = eventually("two wait", lambda: web.pending() if len(web.pending()) == 2 else [])
    for pod in waiting:
        web.wait_pending(pod["metadata"]["name"], "topology spread constraints", "unschedulable")


def test_a_preference_alone_draws_every_pod(tenant: Tenant) -> None:
    web = tenant(nodeAffinity=preferred("node-2"))
    for number in range(4):
        web.create(f"pod-{number}")
    web.wait_placed(4)
    assert web.placement() == Counter({"node-2": 4})


def test_a_spread_is_kept_whatever_is_preferred(tenant: Tenant) -> None:
    web = tenant(nodeAffinity=preferred("node-2"), topologySpreadConstraints=spread(WEB, HOSTNAME))
    web.deploy(replicas=4)
    web.wait_placed(4)
    assert sorted(web.placement().values()) == [1, 1, 2]
    assert web.placement()["node-2"] == 2


def test_a_preferred_zone_is_given_up_where_it_cannot_be_had(tenant: Tenant, nodes: Nodes) -> None:
    nodes.cordon("node-2")
    web = tenant(nodeAffinity=preferred("node-2"))
    web.create("pod")
    assert web.wait_node("pod") in {"node-1", "node-3"}


def test_a_taint_holds_off_whom_the_class_sends_there(tenant: Tenant, nodes: Nodes) -> None:
    nodes.taint("node-3", DEDICATED)
    east = tenant("dc-east")
    east.create("intolerant")
    east.wait_pending("intolerant", "untolerated taint", 'SchedulingClass "dc-east" node selector')
    east.create("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert east.wait_node("tolerant") == "node-3"
    assert east.node_of("intolerant") is None


def test_every_reason_is_in_one_message(tenant: Tenant, nodes: Nodes) -> None:
    nodes.add("node-4", "a")
    nodes.wait_ready("node-4")
    nodes.cordon("node-1")
    nodes.taint("node-4", DEDICATED)
    west = tenant("dc-west")
    west.create("pod", containers=container(cpu="100"))
    text = west.wait_pending("pod", "0/4 nodes are available")
    for reason in ("Insufficient cpu", "untolerated taint", "unschedulable"):
        assert reason in text
    west.create("small", containers=container(cpu="1"))
    assert west.wait_node("small") == "node-2"
    nodes.cordon("node-2")
    west.create("last", containers=container(cpu="1"))
    text = west.wait_pending(
        "last",
        "0/4 nodes are available",
        '1 node(s) didn\'t match SchedulingClass "dc-west" node selector',
        "untolerated taint",
        "2 node(s) were unschedulable",
    )


def test_pods_of_a_zone_stay_together(tenant: Tenant) -> None:
    near = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}}
        ]
    }
    web = tenant(podAffinity=near)
    web.deploy(replicas=5)
    web.wait_placed(5)
    assert list(web.zones().values()) == [5]


def test_a_class_and_a_pod_that_contradict_each_other_say_so(tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.create("pod", nodeSelector={REGION: "east"})
    west.wait_pending("pod", "Pod's node affinity", 'SchedulingClass "dc-west" node selector')


def test_the_event_of_a_placement_is_that_of_kube_scheduler(tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.create("pod")
    west.wait_node("pod")

    def scheduled() -> bool:
        path = f"/api/v1/namespaces/{west.namespace}/events"
        return any(
            event["reason"] == "Scheduled" and event["reportingComponent"] == "cozystack-scheduler"
            for event in west.api.get(path)["items"]
        )

    eventually("the pod's Scheduled Event", scheduled)
