"""Whatever is sent to a webhook replica: one clear sentence, and it goes on serving."""

import json
import re
from typing import Any

import pytest

from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import Json, pinned_to, pod
from tests.cluster.replicas import PODS, Replica, review
from tests.cluster.tenants import Tenants

WEST = "dc-west"
CLASSES = {"group": names.GROUP, "version": names.VERSION, "resource": names.PLURAL}


@pytest.fixture
def replica(replicas: list[Replica]) -> Replica:
    return replicas[0]


@pytest.fixture(autouse=True)
def lives_on(replica: Replica, tenants: Tenants) -> Any:
    """After each test the replica pins as before."""
    pinned = tenants.create(wants=WEST)
    yield
    assert replica.is_healthy()
    assert pinned_to(replica.review_pod(pod(), pinned).applied_to(pod() | DEFAULTED)) == WEST


DEFAULTED: Json = {"spec": {**pod()["spec"], "schedulerName": "default-scheduler"}}


def is_one_sentence(text: str) -> bool:
    return re.fullmatch(r"[^\n]{10,400}", text) is not None and "Traceback" not in text


def without(request: Json, *path: str) -> Json:
    inner = request
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return request


def replaced(value: object, *path: str) -> Json:
    request = review(PODS, pod(), namespace="default")
    inner = request
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return request


MALFORMED: dict[str, tuple[bytes | Json, str]] = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"{", "not JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "not JSON"),
    "a list": (b"[]", "the body has to be a JSON object"),
    "a number": (b"1", "the body has to be a JSON object"),
    "deeply nested": (b"[" * 100_000, "not JSON"),
    "another kind": (b'{"apiVersion": "v1", "kind": "Pod"}', "apiVersion and kind"),
    "v1beta1": (replaced("admission.k8s.io/v1beta1", "apiVersion"), "admissionReviewVersions"),
    "no request": (without(review(PODS, None), "request"), "request has to be"),
    "request null": (replaced(None, "request"), "request has to be"),
    "no uid": (replaced(None, "request", "uid"), "request.uid"),
    "uid a number": (replaced(7, "request", "uid"), "request.uid"),
    "no operation": (replaced(None, "request", "operation"), "request.operation"),
    "odd operation": (replaced("PATCH", "request", "operation"), "request.operation"),
    "no resource": (replaced(None, "request", "resource"), "request.resource"),
    "no user": (replaced(None, "request", "userInfo"), "request.userInfo"),
    "groups a string": (replaced("x", "request", "userInfo", "groups"), "userInfo.groups"),
    "dryRun a string": (replaced("yes", "request", "dryRun"), "request.dryRun"),
    "no object": (replaced(None, "request", "object"), "request.object"),
    "object a list": (replaced([], "request", "object"), "request.object"),
    "labels a list": (replaced([], "request", "object", "metadata", "labels"), "metadata.labels"),
    "namespace a number": (replaced(1, "request", "namespace"), "request.namespace"),
    "another resource": (review(CLASSES, pod()), "names another resource"),
}


@pytest.mark.parametrize(("body", "names_it"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_review_is_answered_with_one_sentence_that_names_the_field(
    replica: Replica, body: bytes | Json, names_it: str
) -> None:
    reply = replica.send("/mutate-pods", body)
    assert reply.status == 400
    assert is_one_sentence(reply.text), reply.text
    assert names_it in reply.text


@pytest.mark.parametrize("path", ["/", "/mutate", "/mutate-pods/", "/../etc/passwd", "/%00"])
def test_an_unknown_path_is_not_found_and_never_allowed(replica: Replica, path: str) -> None:
    reply = replica.send(path, review(PODS, pod(), namespace="default"))
    assert reply.status == 404
    assert is_one_sentence(reply.text)
    assert "mutate-pods" in reply.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_another_method_is_refused(replica: Replica, method: str) -> None:
    reply = replica.send("/mutate-pods", b"{}", method=method)
    assert reply.status == 405
    assert "POST" in reply.text


def test_more_than_eight_mebibytes_are_refused_and_less_are_read(
    replica: Replica, tenants: Tenants
) -> None:
    pinned = tenants.create(wants=WEST)

    def sized(size: int) -> bytes:
        body = json.dumps(review(PODS, pod(), namespace=pinned, options=""))
        padding = "x" * (size - len(body))
        return body.replace('"options": ""', f'"options": "{padding}"').encode()

    fits = replica.send("/mutate-pods", sized(8 << 20))
    assert fits.response["patch"]
    reply = replica.send("/mutate-pods", sized((8 << 20) + 1))
    assert reply.status == 413
    assert is_one_sentence(reply.text)


def test_a_wrong_type_within_a_pod_is_no_error_of_ours(replica: Replica, tenants: Tenants) -> None:
    pinned = tenants.create(wants=WEST)
    specs: list[Any] = [{"nodeName": 7}, {"schedulerName": ["x"]}, [], "text", {"nodeName": None}]
    for spec in specs:
        reply = replica.review_pod({"metadata": {"name": "web"}, "spec": spec}, pinned)
        assert reply.status == 200, (spec, reply.text)


def test_a_class_of_any_shape_gets_a_verdict(replica: Replica) -> None:
    specs: list[Any] = [None, [], "x", {"nodeSelector": []}, {"nodeAffinity": {"a": 1}}, {"x": {}}]
    for spec in specs:
        body = review(CLASSES, {"metadata": {"name": "x"}, "spec": spec})
        reply = replica.send("/validate-schedulingclasses", body)
        assert reply.status == 200, (spec, reply.text)
        message = reply.response.get("status", {}).get("message", "")
        assert "Traceback" not in message


def test_an_answer_tells_nothing_of_other_tenants(replica: Replica, tenants: Tenants) -> None:
    secret = tenants.create(wants=WEST, labels={"owner": "alice"}, annotations={"key": "value"})
    reply = replica.review_pod(pod(), secret)
    told = {key for operation in reply.patch or [] for key in operation}
    assert told == {"op", "path", "value"}
    assert "alice" not in reply.text
    assert secret not in json.dumps(reply.patch)


def test_answers_are_counted_by_reason(replica: Replica) -> None:
    name = "schedclass_admission_requests_total"
    before = replica.metric(name, reason=Reason.MALFORMED_REVIEW)
    replica.send("/mutate-pods", b"{")
    assert replica.metric(name, reason=Reason.MALFORMED_REVIEW) == before + 1
