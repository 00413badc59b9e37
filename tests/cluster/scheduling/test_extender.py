"""The extender itself: what it answers to anything at all, and how its absence shows."""

import contextlib
import http.client
import json
import socket

import pytest

from controlplane import Installation, eventually
from schedclass.scheduler.protocol import MAX_BODY_BYTES
from tests.cluster.objects import class_path, conditions, scheduling_class
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.tenants import Tenants, unique
from tests.cluster.test_class_status import ONLY_THE_WEBHOOK_SEES, unguarded

__all__ = ["unguarded"]

VERBS = ("filter", "prioritize", "preempt", "bind")
DEEP = b'{"Pod":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
BODIES = {
    "empty": b"",
    "no JSON": b"\x00\xff",
    "truncated": b'{"Pod":{"metadata":{"name":"p"',
    "a list": b"[]",
    "deeply nested": DEEP,
    "a pod of strings": b'{"Pod":"x","NodeNames":["a"]}',
    "labels that are a list": b'{"Pod":{"metadata":{"labels":[]}},"NodeNames":["a"]}',
    "numbers for names": b'{"Pod":{},"NodeNames":[1,2]}',
    "whole nodes": b'{"Pod":{},"Nodes":{"items":[]},"NodeNames":null}',
    "a node named like a path": b'{"PodName":"../x","PodNamespace":"a/b","PodUID":"u","Node":"?"}',
    "victims without uid": b'{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[{}]}}}',
}


def send(operator: Installation, verb: str, body: bytes, **header: str) -> tuple[int, str]:
    port = operator.cluster.port(operator.extenders[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", f"/{verb}", body, header)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_any_request_is_answered_in_one_sentence(operator: Installation, body: bytes) -> None:
    before = operator.process(operator.extenders[0]).pid
    for verb in VERBS:
        status, text = send(operator, verb, body)
        assert status in {200, 400}
        if status == 400:
            assert text.count("\n") == 1
            assert "Traceback" not in text
        else:
            assert json.loads(text) is not None
    assert operator.process(operator.extenders[0]).pid == before
    assert operator.is_ready(operator.extenders[0])


def test_a_request_that_is_too_long_is_refused_before_it_is_read(operator: Installation) -> None:
    port = operator.cluster.port(operator.extenders[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", str(MAX_BODY_BYTES + 1))
        connection.endheaders()
        with contextlib.suppress(ConnectionError):
            for _ in range(MAX_BODY_BYTES // (1 << 20) + 1):
                connection.send(b" " * (1 << 20))
        assert connection.getresponse().status == 413
    assert operator.is_ready(operator.extenders[0])


def test_requests_that_never_end_hold_nobody_up(operator: Installation, tenant: Tenant) -> None:
    port = operator.cluster.port(operator.extenders[0])
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            sent = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            sent.sendall(head)
        east = tenant("dc-east")
        east.create("pod")
        assert east.wait_node("pod") == "node-3"
    assert operator.is_ready(operator.extenders[0])


def test_a_request_about_more_nodes_than_there_are_is_answered(operator: Installation) -> None:
    names = [f"unknown-{number}" for number in range(50_000)]
    body = json.dumps({"Pod": {}, "NodeNames": [*names, "node-1"]}).encode()
    status, text = send(operator, "filter", body)
    assert (status, json.loads(text)["NodeNames"]) == (200, ["node-1"])


@pytest.mark.parametrize("name", ["../pods", "a\nb", "x" * 200_000, "\u202e", '"}'])
def test_a_hostile_class_name_is_looked_up_and_not_found(operator: Installation, name: str) -> None:
    metadata = {"annotations": {"scheduler.cozystack.io/scheduling-class": name}}
    body = json.dumps({"Pod": {"metadata": metadata}, "NodeNames": ["node-1"]}).encode()
    status, text = send(operator, "filter", body)
    (reason,) = json.loads(text)["FailedAndUnresolvableNodes"].values()
    assert status == 200
    assert "not found" in reason
    assert len(reason) < 1000
    assert "\n" not in reason


def test_a_pod_of_unknown_class_and_unknown_nodes_gets_reasons(operator: Installation) -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "nowhere",
            "uid": "u",
            "annotations": {"scheduler.cozystack.io/scheduling-class": "nothing"},
        }
    }
    body = json.dumps({"Pod": pod, "NodeNames": ["node-1", "node-99"]}).encode()
    status, text = send(operator, "filter", body)
    assert status == 200
    failed = json.loads(text)["FailedAndUnresolvableNodes"]
    assert failed["node-1"] == 'SchedulingClass "nothing" not found'
    assert "not known" in failed["node-99"]


def test_a_pod_that_is_gone_is_not_bound(operator: Installation) -> None:
    body = {"PodName": "gone", "PodNamespace": "default", "PodUID": "u", "Node": "node-1"}
    status, text = send(operator, "bind", json.dumps(body).encode())
    assert (status, json.loads(text)["Error"]) == (200, "the pod does not exist any more")


def test_it_listens_on_loopback_only(operator: Installation) -> None:
    port = operator.cluster.port(operator.extenders[0])
    with open("/proc/net/tcp", encoding="ascii") as table:
        listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{port:04X}")] == [
        f"0100007F:{port:04X}"
    ]


@pytest.mark.usefixtures("unguarded")
def test_a_class_that_cannot_be_applied_fails_its_own_pods_only(
    tenant: Tenant, tenants: Tenants
) -> None:
    """Such a class comes to be only while no webhook looks at classes."""
    name = tenants.create_class(nodeSelector={"pool": "none"})
    broken, other = tenant(name), tenant("dc-east")
    tenants.api.merge_patch(class_path(name), {"spec": ONLY_THE_WEBHOOK_SEES})
    broken.create("pod")
    other.create("pod")
    assert other.wait_node("pod") == "node-3"
    broken.wait_pending("pod", f'SchedulingClass "{name}" is invalid')


def test_a_class_says_that_nobody_places_its_pods(operator: Installation, tenants: Tenants) -> None:
    name = tenants.create_class()

    def available() -> tuple[str, str]:
        found = conditions(operator.cluster.admin.get(class_path(name)))
        condition = found.get("SchedulerAvailable", {})
        return condition.get("status", ""), condition.get("reason", "")

    eventually("it says so", lambda: available() == ("True", "SchedulerRunning"))
    for scheduler in operator.schedulers:
        operator.process(scheduler).kill()
    eventually("it says so", lambda: available() == ("False", "SchedulerMissing"))
    api = operator.cluster.admin

    def warned() -> bool:
        api.create(f"{class_path('').rstrip('/')}?dryRun=All", scheduling_class(unique("class")))
        return any("stay Pending" in warning for warning in api.warnings)

    eventually("who makes a class is warned", warned)
