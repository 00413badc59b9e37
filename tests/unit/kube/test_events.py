"""Events tell each thing once, with a count, and never get in anybody's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.kube.events import MAX_MESSAGE, EventRecorder, ObjectRef
from tests.stubapi import (
    StubApi,
    after,
    failure,
    json_answer,
    stub_api,
    stub_client,
    text_answer,
)

POD = ObjectRef("v1", "Pod", "web-0", "u1", namespace="tenant-a")
CLASS = ObjectRef("cozystack.io/v1alpha1", "SchedulingClass", "west", "u2")
POSTS = "/api/v1/namespaces/tenant-a/events"
MISSING = Finding(Reason.CLASS_NOT_FOUND, "class west does not exist")


def about(finding: Finding, number: int) -> Finding:
    return Finding(finding.reason, f"{finding.message} {number}", finding.severity)


@pytest.fixture
async def stub() -> AsyncIterator[StubApi]:
    async with stub_api() as api:
        api.script("POST", POSTS, json_answer({}, 201))
        yield api


@asynccontextmanager
async def recording(stub: StubApi, **options: Any) -> AsyncIterator[EventRecorder]:
    async with stub_client(stub) as client:
        recorder = EventRecorder(client, component="schedclass", instance="pod-1", **options)
        task = asyncio.create_task(recorder.run())
        try:
            yield recorder
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_event_has_the_fields_that_dashboards_read(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        recorder.emit(POD, MISSING)
        await recorder.drained()
    (post,) = stub.received("POST", POSTS)
    event = post.body
    assert event["metadata"]["namespace"] == "tenant-a"
    assert event["metadata"]["name"].startswith("web-0.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web-0",
        "namespace": "tenant-a",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "ClassNotFound",
        "class west does not exist",
        1,
    )
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert event["source"] == {"component": "schedclass"}
    assert (event["reportingComponent"], event["reportingInstance"]) == ("schedclass", "pod-1")


async def test_a_long_message_is_cut_to_what_the_api_server_takes(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        recorder.emit(POD, Finding(Reason.CLASS_NOT_FOUND, "é" * 3000))
        await recorder.drained()
    assert len(stub.requests[0].body["message"].encode()) <= MAX_MESSAGE


async def test_events_of_cluster_scoped_objects_go_to_default(stub: StubApi) -> None:
    path = "/api/v1/namespaces/default/events"
    stub.script("POST", path, json_answer({}, 201))
    async with recording(stub) as recorder:
        recorder.emit(CLASS, Finding(Reason.VALID, "fine", Severity.NORMAL))
        await recorder.drained()
    (post,) = stub.received("POST", path)
    assert post.body["type"] == "Normal"
    assert "namespace" not in post.body["involvedObject"]


async def test_repeats_before_the_first_is_written_are_one_event_with_a_count(
    stub: StubApi,
) -> None:
    gate = asyncio.Event()
    stub.script("POST", POSTS, after(gate, json_answer({}, 201)))
    async with recording(stub) as recorder:
        recorder.emit(POD, about(MISSING, 0))
        await stub.wait_for(lambda: len(stub.requests) == 1)
        for _ in range(500):
            recorder.emit(POD, MISSING)
        gate.set()
        await recorder.drained()
    assert [post.body["count"] for post in stub.received("POST", POSTS)] == [1, 500]


async def told_once(recorder: EventRecorder, stub: StubApi) -> str:
    """The path of an Event that is written and may be counted on."""
    recorder.emit(POD, MISSING)
    await recorder.drained()
    path = f"{POSTS}/{stub.requests[0].body['metadata']['name']}"
    stub.script("PATCH", path, json_answer({}))
    return path


async def test_later_repeats_raise_the_count_of_the_same_event(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        path = await told_once(recorder, stub)
        for _ in range(3):
            recorder.emit(POD, MISSING)
        await recorder.drained()
        recorder.emit(POD, MISSING)
        await recorder.drained()
    assert [patch.body["count"] for patch in stub.received("PATCH", path)] == [4, 5]
    assert len(stub.received("POST", POSTS)) == 1


async def test_what_another_process_has_told_is_counted_on_there(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        recorder.emit(POD, MISSING)
        await recorder.drained()
    path = f"{POSTS}/{stub.requests[0].body['metadata']['name']}"
    stub.script("POST", POSTS, failure(409, "AlreadyExists", "already exists"))
    stub.script("PATCH", path, json_answer({"count": 4}))
    async with recording(stub) as recorder:
        recorder.emit(POD, MISSING)
        await recorder.drained()
        recorder.emit(POD, MISSING)
        await recorder.drained()
    counts = [patch.body.get("count") for patch in stub.received("PATCH", path)]
    assert counts == [None, 5, 6]


async def test_an_event_about_another_object_of_that_name_is_another_event(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        for uid in ("u1", "u2"):
            recorder.emit(ObjectRef("v1", "Pod", "web-0", uid, namespace="tenant-a"), MISSING)
        await recorder.drained()
    assert len({post.body["metadata"]["name"] for post in stub.received("POST", POSTS)}) == 2


async def test_an_event_that_the_server_has_forgotten_is_written_anew(stub: StubApi) -> None:
    async with recording(stub) as recorder:
        recorder.emit(POD, MISSING)
        await recorder.drained()
        recorder.emit(POD, MISSING)  # the PATCH is answered with 404
        await recorder.drained()
    assert [post.body["count"] for post in stub.received("POST", POSTS)] == [1, 1]


async def test_one_object_cannot_flood_and_gets_its_share_back_in_time(stub: StubApi) -> None:
    now = 0.0
    async with recording(stub, burst=3, refill_seconds=300, clock=lambda: now) as recorder:
        for number in range(10):
            recorder.emit(POD, about(MISSING, number))
        recorder.emit(CLASS, MISSING)
        stub.script("POST", "/api/v1/namespaces/default/events", json_answer({}, 201))
        await recorder.drained()
        assert len(stub.received("POST", POSTS)) == 3
        now = 300.0
        recorder.emit(POD, about(MISSING, 10))
        recorder.emit(POD, about(MISSING, 11))
        await recorder.drained()
        assert len(stub.received("POST", POSTS)) == 4


async def test_repeats_leave_room_for_what_is_new_about_an_object(stub: StubApi) -> None:
    async with recording(stub, clock=lambda: 0.0) as recorder:
        await told_once(recorder, stub)
        for _ in range(40):
            recorder.emit(POD, MISSING)
            await recorder.drained()
        recorder.emit(POD, about(MISSING, 1))
        await recorder.drained()
    assert len(stub.received("POST", POSTS)) == 2


async def test_repeats_that_were_held_back_are_in_the_next_count(stub: StubApi) -> None:
    now = 0.0
    async with recording(stub, burst=1, refill_seconds=10, clock=lambda: now) as recorder:
        path = await told_once(recorder, stub)
        for _ in range(4):
            recorder.emit(POD, MISSING)
            await recorder.drained()
        now = 10.0
        recorder.emit(POD, MISSING)
        await recorder.drained()
    assert [patch.body["count"] for patch in stub.received("PATCH", path)] == [6]


async def test_a_full_queue_drops_the_oldest_and_counts_it(stub: StubApi) -> None:
    gate = asyncio.Event()
    stub.script("POST", POSTS, after(gate, json_answer({}, 201)))
    lost: list[int] = []
    async with recording(stub, queue_size=2, on_lost=lost.append) as recorder:
        recorder.emit(POD, about(MISSING, 0))
        await stub.wait_for(lambda: len(stub.requests) == 1)
        for number in range(1, 6):
            recorder.emit(POD, about(MISSING, number))
        gate.set()
        await recorder.drained()
        assert sum(lost) == 3
    messages = [post.body["message"][-1] for post in stub.received("POST", POSTS)]
    assert messages == ["0", "4", "5"]


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (failure(404, "NotFound", "namespaces not found", name="tenant-a"), []),
        (
            failure(403, "Forbidden", "terminating", causes=[{"reason": "NamespaceTerminating"}]),
            [],
        ),
        (failure(403, "Forbidden", "no rights"), [1]),
        (failure(422, "Invalid", "bad"), [1]),
        (text_answer("oops", 500), [1]),
    ],
)
async def test_a_refused_event_is_counted_and_not_tried_again(
    stub: StubApi, answer: Any, lost: list[int]
) -> None:
    stub.script("POST", POSTS, answer)
    counted: list[int] = []
    async with recording(stub, on_lost=counted.append) as recorder:
        recorder.emit(POD, MISSING)
        await recorder.drained()
        assert counted == lost
    assert len(stub.requests) == 1


async def test_the_end_of_a_namespace_is_no_storm_of_warnings(
    stub: StubApi, caplog: pytest.LogCaptureFixture
) -> None:
    terminating = failure(403, "Forbidden", "x", causes=[{"reason": "NamespaceTerminating"}])
    stub.script("POST", POSTS, terminating)
    async with recording(stub) as recorder:
        for number in range(20):
            recorder.emit(POD, about(MISSING, number))
        await recorder.drained()
        assert len(stub.requests) == 20
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []


async def test_events_survive_a_short_outage(stub: StubApi) -> None:
    stub.script(
        "POST",
        POSTS,
        failure(429, "TooManyRequests", "busy"),
        text_answer("<html>"),
        json_answer({}, 201),
    )
    async with recording(stub) as recorder:
        recorder.emit(POD, MISSING)
        await stub.wait_for(lambda: len(stub.requests) == 1)
        recorder.emit(POD, MISSING)
        await recorder.drained()
    assert stub.requests[-1].body["count"] == 2


async def test_emitting_needs_no_server_and_no_running_recorder(stub: StubApi) -> None:
    async with stub_client(stub) as client:
        lost: list[int] = []
        recorder = EventRecorder(
            client, component="c", instance="i", queue_size=10, on_lost=lost.append
        )
        for number in range(100):
            recorder.emit(POD, about(MISSING, number))
        assert sum(lost) == 90
    assert stub.requests == []
