import base64
import gc
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import jsonpatch
import kopf
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedclass.domain.admission import Decision, Outcome
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.webhook.reviews import Review, as_kopf_handler, tidy_warnings
from tests.unit.webhook.hosting import (
    NAMESPACES,
    Client,
    Engine,
    Seen,
    annotate,
    authority,
    client_of,
    hosted,
    pod,
    review,
    serving,
)

SIGNER = authority()
CERTIFICATE = serving(SIGNER)


class Handlers:
    """What the pod handler does is set by each test."""

    def __init__(self) -> None:
        self.pods: Any = annotate
        self.calls: list[Review] = []

    async def on_pod(self, under_review: Review) -> None:
        self.calls.append(under_review)
        await self.pods(under_review)


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def engine(handlers: Handlers) -> Engine:
    return Engine({"mutate-pods": handlers.on_pod, "mutate-namespaces": annotate})


@pytest.fixture
async def client(engine: Engine, seen: Seen) -> AsyncIterator[Client]:
    async with (
        hosted(engine, tls=CERTIFICATE, seen=seen, max_body_bytes=8 << 20) as server,
        client_of(server, SIGNER) as connected,
    ):
        yield connected


def patched(obj: Any, answer: dict[str, Any]) -> Any:
    assert answer["patchType"] == "JSONPatch"
    return jsonpatch.apply_patch(obj, orjson.loads(base64.b64decode(answer["patch"])))


async def test_patch_of_a_handler_reaches_the_client(client: Client, seen: Seen) -> None:
    status, answer = await client.post("mutate-pods", review(pod(annotations={"a/b": "c"})))
    assert status == 200
    assert answer["allowed"]
    assert answer["uid"] == "5f6c0b5e-review"
    assert patched(pod(annotations={"a/b": "c"}), answer) == pod(
        annotations={"a/b": "c", "example.com/seen": "yes"}
    )
    assert seen.answers == [("CREATE", "patched", "ClassApplied")]


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "Pod", "metadata": {"annotations": None, "labels": None, "ownerReferences": None}},
        {"kind": "Pod", "metadata": None},
        {"kind": "Pod"},
        {"metadata": {}, "spec": None},
        {"metadata": {"annotations": {}, "uid": None, "name": None}},
    ],
    ids=["null maps", "null metadata", "nothing but a kind", "null spec", "null names"],
)
async def test_absent_and_null_fields_are_patched_rightly(client: Client, obj: Any) -> None:
    status, answer = await client.post("mutate-pods", review(obj))
    assert status == 200
    assert patched(obj, answer)["metadata"]["annotations"] == {"example.com/seen": "yes"}


async def test_handlers_see_the_request_fields_that_kopf_hides(
    client: Client, handlers: Handlers
) -> None:
    body = pod(uid="u-1", namespace="forged")
    await client.post("mutate-pods", review(body, name="web-1", dryRun=True))
    (call,) = handlers.calls
    assert (call.namespace, call.name, call.dry_run) == ("tenant-a", "web-1", True)
    assert (call.username, call.groups) == ("alice", ("tenants",))
    assert call.object == body


@pytest.mark.parametrize("path", ["", "mutate-pod", "mutate-pods/x", "validate", "%2e%2e/pods"])
async def test_unknown_path_is_not_found_rather_than_allowed(
    client: Client, seen: Seen, path: str
) -> None:
    status, sentence = await client.post(path, review())
    assert status == 404
    assert "mutate-pods" in sentence
    assert seen.answers == [("UNKNOWN", "error", "UnknownHandler")]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_answered_with_a_sentence(client: Client, method: str) -> None:
    url = f"https://localhost:{client.port}/mutate-pods"
    async with client.session.request(method, url) as response:
        assert response.status == 405
        assert "POST" in await response.text()


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE", "oldObject": pod()},
        {"operation": "DELETE", "object": None, "oldObject": pod()},
        {"operation": "CONNECT"},
        {"subResource": "status"},
        {"subResource": "ephemeralcontainers", "operation": "UPDATE", "oldObject": pod()},
        {"subResource": "eviction", "object": {"kind": "Eviction"}},
        {"subResource": "binding", "object": {"kind": "Binding", "target": {"name": "node-1"}}},
    ],
    ids=lambda fields: " ".join(str(value) for value in fields.values() if isinstance(value, str)),
)
async def test_other_operations_and_subresources_pass_untouched(
    client: Client, handlers: Handlers, request_fields: dict[str, Any]
) -> None:
    status, answer = await client.post("mutate-pods", review(**request_fields))
    assert (status, answer) == (200, {"uid": "5f6c0b5e-review", "allowed": True})
    assert not handlers.calls


async def test_review_of_another_resource_shows_the_wrong_configuration(client: Client) -> None:
    other = {"group": "apps", "version": "v1", "resource": "deployments"}
    status, sentence = await client.post("mutate-pods", review(resource=other))
    assert status == 400
    assert "request.resource" in sentence
    assert "pods" in sentence


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[]", "the body"),
        (b"null", "the body"),
        (review() | {"apiVersion": "admission.k8s.io/v1beta1"}, "apiVersion"),
        (review() | {"kind": "Pod"}, "kind"),
        (review() | {"request": None}, "request"),
        (review(uid=None), "request.uid"),
        (review(uid=7), "request.uid"),
        (review(resource=None), "request.resource"),
        (review(resource={"group": "", "version": "v1"}), "request.resource.resource"),
        (review(operation="PATCH"), "request.operation"),
        (review(operation=None), "request.operation"),
        (review(userInfo=None), "request.userInfo"),
        (review(userInfo={"groups": "x"}), "request.userInfo.groups"),
        (review(namespace=["a"]), "request.namespace"),
        (review(name={}), "request.name"),
        (review(subResource=1), "request.subResource"),
        (review(dryRun="no"), "request.dryRun"),
        (review(object=None), "request.object"),
        (review([]), "request.object"),
        (review({"metadata": []}), "request.object.metadata"),
        (review({"metadata": {"annotations": "x"}}), "request.object.metadata.annotations"),
        (review({"metadata": {"labels": [1]}}), "request.object.metadata.labels"),
        (review(oldObject="x"), "request.oldObject"),
    ],
)
async def test_malformed_review_is_answered_with_the_field(
    client: Client, seen: Seen, body: Any, field: str
) -> None:
    status, sentence = await client.post("mutate-pods", body)
    assert status == 400
    assert field in sentence
    assert "Traceback" not in sentence
    assert "\n" not in sentence
    assert seen.answers[0][1:] == ("error", "MalformedReview")


async def test_fault_of_a_handler_is_left_to_the_failure_policy(
    client: Client, handlers: Handlers, seen: Seen
) -> None:
    async def fail(_: Review) -> None:
        raise KeyError("a secret detail")

    handlers.pods = fail
    status, sentence = await client.post("mutate-pods", review())
    assert status == 500
    assert "5f6c0b5e-review" in sentence
    assert "secret" not in sentence
    assert "KeyError" not in sentence
    assert seen.answers == [("CREATE", "error", "InternalError")]

    handlers.pods = annotate
    assert (await client.post("mutate-pods", review()))[0] == 200


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (409, "Conflict"), (422, "Invalid"), (400, None)]
)
async def test_denial_carries_message_code_and_warnings(
    client: Client, handlers: Handlers, seen: Seen, code: int, reason: str | None
) -> None:
    finding = Finding(Reason.NODE_NOT_ALLOWED, "no such place", Severity.ERROR, "spec.nodeName")

    async def deny(under_review: Review) -> None:
        under_review.operations.append({"op": "remove", "path": "/spec"})
        look = Finding(Reason.NO_MATCHING_NODES, "look")
        under_review.answer(Decision(Outcome.DENIED, finding, warnings=(look,), code=code))

    handlers.pods = deny
    status, answer = await client.post("mutate-pods", review())
    assert status == 200
    message = "NodeNotAllowed: spec.nodeName: no such place"
    expected: dict[str, Any] = {"message": message, "code": code}
    if reason:
        expected["reason"] = reason
    assert answer == {
        "uid": "5f6c0b5e-review",
        "allowed": False,
        "status": expected,
        "warnings": ["NoMatchingNodes: look"],
    }
    assert seen.answers == [("CREATE", "denied", "NodeNotAllowed")]


async def test_each_cause_of_a_denial_is_told_as_the_api_server_tells_its_own(
    client: Client, handlers: Handlers
) -> None:
    causes = (
        Finding(Reason.INVALID_SPEC, "must be positive", Severity.ERROR, "spec.a[0].maxSkew"),
        Finding(Reason.INVALID_SPEC, "is required", Severity.ERROR, "spec.b"),
    )

    async def deny(under_review: Review) -> None:
        told = Finding(Reason.INVALID_SPEC, "; ".join(map(str, causes)), Severity.ERROR)
        under_review.answer(Decision(Outcome.DENIED, told, code=422, causes=causes))

    handlers.pods = deny
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    _, answer = await client.post("mutate-pods", review(kind=kind, name="web-0"))
    assert answer["status"] == {
        "code": 422,
        "reason": "Invalid",
        "message": "InvalidSpec: spec.a[0].maxSkew: must be positive; spec.b: is required",
        "details": {
            "name": "web-0",
            "group": "",
            "kind": "Pod",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "InvalidSpec: must be positive",
                    "field": "spec.a[0].maxSkew",
                },
                {
                    "reason": "FieldValueInvalid",
                    "message": "InvalidSpec: is required",
                    "field": "spec.b",
                },
            ],
        },
    }


async def test_denial_without_a_code_counts_as_a_fault(client: Client, handlers: Handlers) -> None:
    async def deny(_: Review) -> None:
        raise kopf.AdmissionError("no code was given")

    handlers.pods = deny
    status, sentence = await client.post("mutate-pods", review())
    assert status == 500
    assert "no code was given" not in sentence


async def test_undecided_review_is_left_to_the_failure_policy(
    client: Client, handlers: Handlers, seen: Seen
) -> None:
    async def undecided(under_review: Review) -> None:
        finding = Finding(Reason.CLASS_UNKNOWN, "classes have not been listed yet")
        under_review.answer(Decision(Outcome.UNKNOWN, finding))

    handlers.pods = undecided
    said = "ClassUnknown: classes have not been listed yet"
    assert await client.post("mutate-pods", review()) == (500, said)
    assert seen.answers == [("CREATE", "error", "ClassUnknown")]


async def test_patch_made_through_kopf_is_refused_because_kopf_sees_metadata_only() -> None:
    engine = Engine({})

    @kopf.on.mutate("", "v1", "pods", id="mutate-pods", registry=engine.registry)
    async def use_kopfs_patch(patch: kopf.Patch, **_: Any) -> None:
        patch.spec["schedulerName"] = "other"

    async with (
        hosted(engine, tls=CERTIFICATE) as server,
        client_of(server, SIGNER) as connected,
    ):
        assert (await connected.post("mutate-pods", review()))[0] == 500


async def test_label_filters_of_kopf_still_apply() -> None:
    engine = Engine({})
    labelled = as_kopf_handler(annotate)
    kopf.on.mutate(
        "", "v1", "pods", id="mutate-pods", labels={"app": "web"}, registry=engine.registry
    )(labelled)
    async with (
        hosted(engine, tls=CERTIFICATE) as server,
        client_of(server, SIGNER) as connected,
    ):
        _, other = await connected.post("mutate-pods", review())
        assert "patch" not in other
        _, web = await connected.post("mutate-pods", review(pod(labels={"app": "web"})))
        assert "patch" in web


def padded(size: int) -> bytes:
    """A review of exactly this many bytes."""
    body = orjson.dumps(review(pod(annotations={"pad": ""})))
    return body.replace(b'"pad":""', b'"pad":"' + b"x" * (size - len(body)) + b'"')


async def test_review_of_eight_mebibytes_is_answered(client: Client) -> None:
    body = padded(8 << 20)
    assert len(body) == 8 << 20
    status, answer = await client.post("mutate-pods", body)
    assert status == 200
    assert "patch" in answer


async def test_larger_review_is_refused_and_the_next_one_answered(
    client: Client, seen: Seen
) -> None:
    status, sentence = await client.post("mutate-pods", padded((8 << 20) + 1))
    assert status == 413
    assert str(8 << 20) in sentence
    assert (await client.post("mutate-pods", review()))[0] == 200
    assert seen.answers[0] == ("UNKNOWN", "error", "RequestTooLarge")


async def test_chunked_body_has_the_same_limit(client: Client) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * (1 << 20)

    url = f"https://localhost:{client.port}/mutate-pods"
    async with client.session.post(url, data=chunks()) as response:
        assert response.status == 413


async def test_compressed_body_is_not_inflated(client: Client) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    url = f"https://localhost:{client.port}/mutate-pods"
    headers = {"Content-Encoding": "gzip"}
    async with client.session.post(url, data=bomb, headers=headers) as response:
        assert response.status == 400
        assert "JSON" in await response.text()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
PATHS_TO_BREAK = st.sampled_from(
    [
        ("apiVersion",),
        ("kind",),
        ("request",),
        *(("request", name) for name in review()["request"]),
        *(("request", "resource", name) for name in ("group", "version", "resource")),
        *(("request", "userInfo", name) for name in ("username", "groups", "extra")),
        *(("request", "object", name) for name in ("apiVersion", "kind", "metadata", "spec")),
        *(
            ("request", "object", "metadata", name)
            for name in ("name", "uid", "annotations", "labels", "ownerReferences", "namespace")
        ),
    ]
)


@st.composite
def broken_reviews(draw: st.DrawFn) -> Any:
    body = review()
    for path in draw(st.lists(PATHS_TO_BREAK, min_size=1, max_size=3)):
        target: Any = body
        for part in path[:-1]:
            target = target.get(part) if isinstance(target, dict) else None
        if isinstance(target, dict):
            if draw(st.booleans()):
                target[path[-1]] = draw(JSON_VALUES)
            else:
                target.pop(path[-1], None)
    return body


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    body=broken_reviews() | JSON_VALUES | st.binary(max_size=60),
    handler=st.sampled_from(["mutate-pods", "mutate-namespaces", "other"]),
)
async def test_any_body_gets_an_answer(client: Client, body: Any, handler: str) -> None:
    status, answer = await client.post(handler, body if isinstance(body, bytes) else _dump(body))
    assert status in {200, 400, 404}
    if status != 200:
        assert answer
        assert "Traceback" not in answer
        assert "\n" not in answer
    else:
        assert isinstance(answer["allowed"], bool)


def _dump(body: Any) -> bytes:
    return json.dumps(body).encode()


async def test_deeply_nested_body_is_answered(client: Client) -> None:
    spec = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    body = orjson.dumps(review()).replace(b'"spec":{', b'"spec":{"x":' + spec + b",", 1)
    assert (await client.post("mutate-pods", body))[0] == 400
    shallower = b'{"a":' * 900 + b"1" + b"}" * 900
    body = orjson.dumps(review()).replace(b'"spec":{', b'"spec":{"x":' + shallower + b",", 1)
    assert (await client.post("mutate-pods", body))[0] == 200


@settings(deadline=None)
@given(st.lists(st.text(max_size=400), max_size=60))
def test_warnings_fit_into_a_response_header(warnings: list[str]) -> None:
    tidy = tidy_warnings(warnings)
    assert all(warning.isprintable() and warning.strip() for warning in tidy)
    assert all(len(warning.encode()) <= 256 for warning in tidy)
    assert sum(len(warning.encode()) for warning in tidy) <= 4096
    assert len(set(tidy)) == len(tidy)


def test_short_warnings_stay_as_they_are() -> None:
    assert tidy_warnings(["one", "two", "one"]) == ["one", "two"]


def test_left_out_warnings_are_counted() -> None:
    assert tidy_warnings([f"{number}" + "x" * 250 for number in range(30)])[-1] == (
        "14 further warnings are not shown"
    )


async def test_reviews_of_updates_leave_nothing_behind() -> None:
    engine = Engine({"mutate-namespaces": annotate})
    async with (
        hosted(engine, tls=CERTIFICATE) as server,
        client_of(server, SIGNER) as connected,
    ):

        async def update(number: int) -> None:
            obj = {"metadata": {"name": f"ns-{number}", "uid": f"uid-{number}"}}
            resource = {"group": "", "version": "v1", "resource": NAMESPACES.plural}
            body = review(obj, oldObject=obj, operation="UPDATE", resource=resource)
            status, answer = await connected.post("mutate-namespaces", body)
            assert status == 200
            assert "patch" in answer

        for number in range(50):
            await update(number)
        gc.collect()
        before = len(gc.get_objects())
        for number in range(50, 550):
            await update(number)
        gc.collect()
        assert len(gc.get_objects()) - before < 100
        assert len(list(engine.memories.iter_all_memories())) <= 1
