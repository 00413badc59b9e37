"""Preemption stays inside the class, and never happens for a reason of the class."""

from collections.abc import Iterator

import pytest

from controlplane import Cluster, eventually
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.workloads import Workloads, anti_affinity, container
from tests.cluster.tenants import unique

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def important(cluster: Cluster) -> Iterator[str]:
    name = unique("important")
    cluster.admin.create(PRIORITIES, {"metadata": {"name": name}, "value": 1000})
    yield name
    cluster.admin.delete(f"{PRIORITIES}/{name}")


def fill(workloads: Workloads) -> None:
    """One pod on each node that leaves no room for another of its size."""
    for number in (1, 2, 3):
        workloads.create(
            f"low-{number}",
            nodeSelector={"kubernetes.io/hostname": f"node-{number}"},
            containers=container(cpu="6"),
            terminationGracePeriodSeconds=0,
        )
    workloads.wait_placed(3)


def test_victims_are_on_nodes_that_the_class_allows(tenant: Tenant, important: str) -> None:
    plain, west = tenant(), tenant("dc-west")
    fill(plain)
    for number in (1, 2):
        west.create(f"high-{number}", priorityClassName=important, containers=container(cpu="6"))
    assert {west.wait_node(f"high-{number}") for number in (1, 2)} == {"node-1", "node-2"}
    assert [pod["metadata"]["name"] for pod in plain.pods()] == ["low-3"]


def test_where_no_allowed_node_would_do_nobody_is_evicted(tenant: Tenant, important: str) -> None:
    plain, east = tenant(), tenant("dc-east")
    fill(plain)
    east.create("first", priorityClassName=important, containers=container(cpu="6"))
    assert east.wait_node("first") == "node-3"
    east.create("second", priorityClassName=important, containers=container(cpu="6"))
    east.wait_pending("second", "Insufficient cpu")
    assert {pod["metadata"]["name"] for pod in plain.pods()} == {"low-1", "low-2"}


def test_nobody_is_evicted_for_a_rule_of_the_class(tenant: Tenant, important: str) -> None:
    labels = {"set": unique("set")}
    web = tenant(podAntiAffinity=anti_affinity(labels))
    for number in (1, 2, 3):
        web.create(f"low-{number}", labels=labels)
    web.wait_placed(3)
    web.create("high", labels=labels, priorityClassName=important)
    text = web.wait_pending("high", "pod anti-affinity rules")
    assert "3 Preemption is not helpful for scheduling" in text
    assert len(web.pods()) == 4


def test_a_place_that_a_victim_kept_by_its_class_is_free_with_it(
    tenant: Tenant, important: str
) -> None:
    """The victim also repels by its class: with it gone, both reasons are."""
    labels = {"set": unique("set")}
    east = tenant(
        nodeSelector={"kubernetes.io/hostname": "node-3"}, podAntiAffinity=anti_affinity(labels)
    )
    east.create(
        "low", labels=labels, containers=container(cpu="6"), terminationGracePeriodSeconds=0
    )
    east.wait_node("low")
    east.create("high", labels=labels, containers=container(cpu="6"), priorityClassName=important)
    # In-tree filters reject node-3 for its CPU, so it is a candidate, and the class agrees.
    assert east.wait_node("high") == "node-3"
    eventually("the victim is gone", lambda: len(east.pods()) == 1)
