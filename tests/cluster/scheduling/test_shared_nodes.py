"""Nodes that two schedulers fill, and nodes that come and go while pods do.

Judged by what the API server's watch tells, in its own order.
"""

import time

from controlplane import ApiError, Installation, eventually
from tests.cluster.objects import Json
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.history import History, surely_broken_spread
from tests.cluster.scheduling.workloads import Nodes, Workloads, container, spread

CPU = {"cpu": "2"}
QUARTER = container(cpu="500m")
WEB = {"app": "web"}


def drop(workloads: Workloads, pod: Json) -> None:
    """Deletes a pod unless its controller was faster."""
    try:
        workloads.delete(pod["metadata"]["name"])
    except ApiError as error:
        if error.status != 404:
            raise


def test_two_schedulers_that_take_turns_fill_nodes_and_overcommit_none(
    tenant: Tenant, operator: Installation, nodes: Nodes
) -> None:
    pool = {"pool": "tight"}
    for number in range(3):
        nodes.add(f"tight-{number}", "abc"[number], labels=pool, resources=CPU)
    nodes.wait_ready()
    plain, web = tenant(), tenant(nodeSelector=pool)
    with (
        History(operator.cluster, plain.namespace) as theirs,
        History(operator.cluster, web.namespace) as ours,
    ):
        plain.deploy("plain", replicas=3, containers=QUARTER, nodeSelector=pool)
        plain.wait_placed(3)
        web.deploy(replicas=3, containers=QUARTER)
        web.wait_placed(3)
        plain.scale("plain", 6)
        plain.wait_placed(6)
        web.scale("web", 7)
        web.wait_placed(6)
        web.wait_one_pending("web", "3 Insufficient cpu")
        plain.scale("plain", 5)
        web.wait_placed(7)
    assert ours.overcommitted(theirs, millicores=2000) == []
    assert plain.placement() + web.placement() == {f"tight-{number}": 4 for number in range(3)}


def test_a_spread_over_zones_holds_while_nodes_and_pods_come_and_go(
    tenant: Tenant, operator: Installation, nodes: Nodes
) -> None:
    pool = {"pool": "churn"}
    zones = {f"churn-{number}": "abc"[number] for number in range(3)}
    for name, zone in zones.items():
        nodes.add(name, zone, labels=pool)
    nodes.wait_ready()
    removed: dict[str, float] = {}
    web = tenant(nodeSelector=pool, topologySpreadConstraints=spread(WEB))
    with History(operator.cluster, web.namespace) as history:
        web.deploy(replicas=12)
        for number in range(6):
            name = f"coming-and-going-{number}"
            zones[name] = "abc"[number % 3]
            nodes.add(name, zones[name], labels=pool)
            web.scale("web", 12 if number % 2 else 18)
            for pod in web.pods()[number::5]:
                drop(web, pod)
            nodes.wait_ready(name)
            if number > 1:
                leaving = f"coming-and-going-{number - 2}"
                removed[leaving] = time.monotonic()
                nodes.remove(leaving)
            for pod in web.pods():  # as if it had been drained; otherwise that takes a minute
                if pod["spec"].get("nodeName") in removed:
                    drop(web, pod)
        there = zones.keys() - removed.keys()
        eventually(
            "all replicas run on nodes that exist",
            lambda: sum(web.placement().values()) == 12 and web.placement().keys() <= there,
            seconds=60,
        )
    assert len(history.stays()) > 18
    assert surely_broken_spread(history, zones, removed, seconds=3) == []
    assert history.bound_twice() == []
