"""Replicas created at once, programs killed and bindings refused: no hard rule is ever broken.

Judged by what the API server's watch tells, in its own order, never by our own cache.
"""

import os
import re
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from controlplane import Installation, eventually
from controlplane.nodes import node
from tests.cluster.objects import NODES as NODES_PATH
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.faults import FaultyApi
from tests.cluster.scheduling.history import History, broken_spread, shared_nodes
from tests.cluster.scheduling.workloads import (
    Nodes,
    Workloads,
    anti_affinity,
    spread,
)

WEB = {"app": "web"}
POOL = {"pool": "races"}
LONG = bool(os.environ.get("SCHEDCLASS_TEST_LONG"))
"""The whole sizes take minutes on two cores: a spread waits for the end of each of a dozen bindings
that hang for six seconds, and what ran on a node that is gone is collected after 40 seconds only
(kube-controller-manager, `quarantineTime` of podgc)."""

NODES = 200 if LONG else 48
PODS = 300 if LONG else 60
KILLS = 20 if LONG else 4

# With setup and teardown of a whole control plane, which belong to a test's time.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def _pool(session_operator: Installation) -> Iterator[dict[str, str]]:
    """Nodes in three zones that no other test uses; returns their zones."""
    cluster = session_operator.cluster
    zones = {f"race-{number}": "abc"[number % 3] for number in range(NODES)}
    cluster.add_nodes(node(name, zone, labels=POOL) for name, zone in zones.items())
    cluster.wait_nodes_ready(list(zones), seconds=120)
    yield zones
    cluster.admin.request("DELETE", f"{NODES_PATH}?labelSelector=pool%3Draces")


@pytest.fixture
def pool(operator: Installation, _pool: dict[str, str]) -> dict[str, str]:
    del operator  # healed first
    return _pool


def conflicts(operator: Installation) -> int:
    """Bindings that the extenders refused because of a hard rule."""
    line = re.compile(
        r'^schedclass_extender_requests_total{result="conflict",verb="bind"} (\S+)$', re.MULTILINE
    )
    urls = [f"http://127.0.0.1:{operator.probe_port(name)}/metrics" for name in operator.extenders]
    texts = [urllib.request.urlopen(url, timeout=5).read().decode() for url in urls]  # noqa: S310
    return sum(int(float(value)) for text in texts for value in line.findall(text))


def finished(workloads: Workloads, count: int, seconds: float) -> float:
    began = time.monotonic()
    workloads.wait_placed(count, seconds=seconds)
    return time.monotonic() - began


def test_as_many_replicas_as_nodes_that_avoid_one_another(
    tenant: Tenant, operator: Installation, pool: dict[str, str]
) -> None:
    web = tenant(nodeSelector=POOL, podAntiAffinity=anti_affinity(WEB))
    before = conflicts(operator)
    with History(operator.cluster, web.namespace) as history:
        web.deploy(replicas=NODES)
        took = finished(web, NODES, 360)
    print(f"\n{NODES} replicas in {took:.1f} s, {conflicts(operator) - before} conflicts")
    assert shared_nodes(history) == []
    assert history.bound_twice() == []
    assert set(web.placement()) == set(pool)


def test_a_spread_over_zones_while_the_extenders_are_killed(
    tenant: Tenant, operator: Installation, pool: dict[str, str]
) -> None:
    web = tenant(nodeSelector=POOL, topologySpreadConstraints=spread(WEB))
    stop = threading.Event()
    kills = 0

    def kill() -> None:
        nonlocal kills
        while kills < KILLS and not stop.wait(0.5):  # of work between two deaths
            for name in operator.extenders:
                operator.process(name).kill()
            for name in operator.extenders:
                operator.start_replica(name)
            kills += 1

    with History(operator.cluster, web.namespace) as history:
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            web.deploy(replicas=PODS)
            eventually(
                "most are placed",
                lambda: sum(web.placement().values()) > PODS * 2 // 3,
                seconds=800,
            )
        finally:
            stop.set()
            killer.join()
        took = finished(web, PODS, 400)
    print(f"\n{PODS} pods, {kills} kills, {took:.1f} s after the last")
    assert broken_spread(history, pool) == []
    assert history.bound_twice() == []
    assert sorted(web.zones().values()) == [PODS // 3] * 3


def test_a_spread_over_zones_while_bindings_are_refused_fail_and_hang(
    tenant: Tenant, operator: Installation, pool: dict[str, str]
) -> None:
    web = tenant(nodeSelector=POOL, topologySpreadConstraints=spread(WEB))
    with FaultyApi(operator) as faulty, History(operator.cluster, web.namespace) as history:
        web.deploy(replicas=PODS)
        took = finished(web, PODS, 440)
    print(f"\n{PODS} pods in {took:.1f} s, {faulty.faults} faults")
    assert faulty.faults
    assert broken_spread(history, pool) == []
    assert history.bound_twice() == []
    assert sorted(web.zones().values()) == [PODS // 3] * 3


def test_hosts_are_not_shared_while_pods_go_and_nodes_come_and_go(
    tenant: Tenant, operator: Installation, nodes: Nodes, pool: dict[str, str]
) -> None:
    web = tenant(nodeSelector=POOL, podAntiAffinity=anti_affinity(WEB))
    count = len(pool) - 10
    with History(operator.cluster, web.namespace) as history:
        web.deploy(replicas=count)
        for number in range(6):
            nodes.add(f"coming-{number}", labels=POOL)
            for pod in web.pods()[number::7]:
                web.delete(pod["metadata"]["name"])
            if number > 2:
                nodes.remove(f"coming-{number - 3}")
        eventually(
            "all replicas run on nodes that exist",
            lambda: (
                len(set(web.placement()) & {n["metadata"]["name"] for n in web.all_nodes()})
                == count
            ),
            seconds=360,
        )
    assert shared_nodes(history) == []
    assert history.bound_twice() == []
