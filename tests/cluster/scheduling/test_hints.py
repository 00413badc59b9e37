"""Hints to kube-scheduler: right ones are used, wrong ones change nothing but the time it takes."""

import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controlplane import Installation, eventually
from schedclass.domain import names
from tests.cluster.objects import pods_path
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.test_preemption import PRIORITIES
from tests.cluster.scheduling.workloads import HOSTNAME, Workloads, container
from tests.cluster.tenants import unique

HOLD = "example.org/hold"


def hand_out(workloads: Workloads, name: str, node: str, **spec: Any) -> None:
    """Lets a pod come to kube-scheduler with a hint, written as the extender writes it."""
    workloads.create(name, schedulingGates=[{"name": HOLD}], **spec)
    path = f"{pods_path(workloads.namespace)}/{name}"
    hint = {"status": {"nominatedNodeName": node}}
    workloads.api.merge_patch(f"{path}/status?fieldManager={names.FIELD_MANAGER}", hint)
    workloads.api.merge_patch(path, {"spec": {"schedulingGates": []}})


def hint_of(workloads: Workloads, name: str) -> str:
    return str(workloads.pod(name)["status"].get("nominatedNodeName", ""))


def test_a_right_hint_is_used(tenant: Tenant) -> None:
    west = tenant("dc-west")
    for name, node in (("one", "node-1"), ("two", "node-2"), ("three", "node-1")):
        hand_out(west, name, node)
        assert west.wait_node(name) == node


@pytest.mark.parametrize("node", ["node-3", "no-such-node"])
def test_a_hint_to_a_node_that_the_class_forbids_or_nobody_knows_places_nothing(
    tenant: Tenant, node: str
) -> None:
    west = tenant("dc-west")
    for number in range(5):
        hand_out(west, f"pod-{number}", node)
    west.wait_placed(5)
    assert set(west.placement()) <= {"node-1", "node-2"}


def test_a_hint_to_a_full_node_places_nothing_there(tenant: Tenant) -> None:
    plain, west = tenant(), tenant("dc-west")
    plain.create("filler", nodeSelector={HOSTNAME: "node-1"}, containers=container(cpu="6"))
    plain.wait_node("filler")
    hand_out(west, "one", "node-1", containers=container(cpu="5"))
    assert west.wait_node("one") == "node-2"


def test_a_wrong_hint_of_a_pod_that_fits_nowhere_starves_nobody(
    operator: Installation, tenant: Tenant
) -> None:
    """It holds a place inside kube-scheduler, so it has to be taken back soon."""
    api = operator.cluster.admin
    priority = unique("polite")
    # One that may not preempt: kube-scheduler itself would leave its hint as it is.
    body = {"metadata": {"name": priority}, "value": 10, "preemptionPolicy": "Never"}
    api.create(PRIORITIES, body)
    nowhere = tenant(nodeSelector={HOSTNAME: "nowhere"})
    west = tenant("dc-west")
    try:
        for node in ("node-1", "node-2"):
            name = f"wrong-{node}"
            big = container(cpu="6")
            hand_out(nowhere, name, node, containers=big, priorityClassName=priority)
        for number in (1, 2):
            west.create(f"right-{number}", containers=container(cpu="6"))
        for number in (1, 2):
            west.wait_node(f"right-{number}")
        for node in ("node-1", "node-2"):
            nowhere.wait_pending(f"wrong-{node}", "SchedulingClass")
            eventually(
                "the wrong hint is gone",
                lambda node=node: not hint_of(nowhere, f"wrong-{node}"),  # type: ignore[misc]
            )
    finally:
        api.delete(f"{PRIORITIES}/{priority}")


# --- hints of the extender itself -----------------------------------------------------------------


@contextmanager
def held_up(operator: Installation) -> Iterator[None]:
    """Both kube-schedulers stand still, so that a queue builds up."""
    processes = [operator.process(name) for name in operator.schedulers]
    for process in processes:
        process.pause()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def counted(operator: Installation, result: str) -> float:
    total = 0.0
    for name in operator.extenders:
        url = f"http://127.0.0.1:{operator.probe_port(name)}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        pattern = rf'^schedclass_extender_hints_total\{{result="{result}"\}} (\S+)$'
        total += sum(map(float, re.findall(pattern, text, re.MULTILINE)))
    return total


def test_a_burst_is_hinted_and_every_pod_is_where_its_class_and_its_wishes_want_it(
    operator: Installation, tenant: Tenant
) -> None:
    expression = {"key": HOSTNAME, "operator": "In", "values": ["node-2"]}
    wish = {"weight": 100, "preference": {"matchExpressions": [expression]}}
    west = tenant(
        nodeSelector={"topology.kubernetes.io/region": "west"},
        nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [wish]},
    )
    used = counted(operator, "used")

    def burst() -> bool:
        with held_up(operator):
            for number in range(40):
                west.create(f"pod-{number}", containers=container(cpu="1m"))
        west.wait_placed(40)
        assert set(west.placement()) == {"node-2"}
        west.remove_all()
        return counted(operator, "used") > used

    # Whether a hint comes in time is up to the machine, so it is tried again.
    eventually("hints were used", burst, seconds=60)
