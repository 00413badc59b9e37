"""A store stays right whatever the API server does to its reflector."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schedclass.kube.reflector import Reflector, Timings
from schedclass.kube.store import Store
from tests.stubapi import (
    Stream,
    StubApi,
    after,
    eventually,
    failure,
    obj,
    page,
    status_object,
    stub_api,
    stub_client,
    text_answer,
)

PATH = "/api/v1/namespaces"
QUICK = Timings(watch_read=5, page=5, first_delay=0.005, longest_delay=0.02, healthy=0.5)
EXPIRED = status_object(410, "Expired", "too old resource version")


def labels(raw: Mapping[str, Any]) -> dict[str, str]:
    return dict(raw["metadata"]["labels"])


@pytest.fixture
async def stub() -> AsyncIterator[StubApi]:
    async with stub_api() as api:
        yield api


@asynccontextmanager
async def reflecting(
    stub: StubApi,
    timings: Timings = QUICK,
    *,
    ordered: bool = True,
    resync_seconds: float = 1000,
    **options: Any,
) -> AsyncIterator[Reflector[dict[str, str]]]:
    async with stub_client(stub) as client:
        store = Store(labels, ordered=ordered)
        reflector = Reflector(
            client, PATH, store, resync_seconds=resync_seconds, timings=timings, **options
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield reflector
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_list_is_followed_by_a_watch_from_its_version(stub: StubApi) -> None:
    watch = Stream()
    stub.script("GET", PATH, page([obj("a", 3)], "7", more="m"), page([obj("b", 4)], "7"))
    stub.script("WATCH", PATH, watch)
    async with reflecting(stub, metadata_only=True, params={"labelSelector": "x=y"}) as reflector:
        store = reflector.store
        await store.wait_synced()
        watch.send("ADDED", obj("c", 8))
        watch.send("MODIFIED", obj("a", 9, k="v"))
        watch.send("DELETED", obj("b", 10))
        await eventually(lambda: set(store) == {"a", "c"})
        assert store.get("a") == {"k": "v"}
        assert (reflector.lists, reflector.errors) == (1, 0)
    (opened,) = stub.received("WATCH", PATH)
    assert opened.query["resourceVersion"] == "7"
    assert opened.query["labelSelector"] == "x=y"
    assert opened.query["allowWatchBookmarks"] == "true"
    assert "as=PartialObjectMetadata;" in opened.headers["Accept"]


async def test_a_failed_second_page_shows_nothing_and_starts_no_watch(stub: StubApi) -> None:
    gate = asyncio.Event()
    stub.script(
        "GET",
        PATH,
        page([obj("a", 3)], "7", more="m"),
        failure(500, "InternalError", "etcd"),
        after(gate, page([obj("a", 3), obj("b", 4)], "8")),
    )
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub) as reflector:
        await stub.wait_for(lambda: len(stub.received("GET", PATH)) == 3)
        assert len(reflector.store) == 0
        assert not reflector.store.synced
        assert not stub.received("WATCH", PATH)
        gate.set()
        await reflector.store.wait_synced()
        assert set(reflector.store) == {"a", "b"}
        assert "etcd" in reflector.last_error


async def test_an_expired_continue_token_starts_the_list_over(stub: StubApi) -> None:
    stub.script(
        "GET",
        PATH,
        page([obj("a", 3)], "7", more="m"),
        failure(410, "Expired", "continue token too old"),
        page([obj("b", 8)], "9"),
    )
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub) as reflector:
        await reflector.store.wait_synced()
        assert set(reflector.store) == {"b"}
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 1)
        assert "continue" not in stub.received("GET", PATH)[2].query


async def test_an_expired_version_in_the_stream_brings_what_was_deleted_in_the_gap(
    stub: StubApi,
) -> None:
    first = Stream()
    first.send("ERROR", EXPIRED)
    stub.script("GET", PATH, page([obj("a", 3), obj("b", 4)], "7"), page([obj("a", 3)], "50"))
    stub.script("WATCH", PATH, first, Stream())
    async with reflecting(stub) as reflector:
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 2)
        assert set(reflector.store) == {"a"}
        assert reflector.store.swept == 1
    assert [one.query["resourceVersion"] for one in stub.received("WATCH", PATH)] == ["7", "50"]


async def test_endless_expiry_is_met_with_growing_pauses(stub: StubApi) -> None:
    stub.script("GET", PATH, page([], "7"))
    stub.script("WATCH", PATH, failure(410, "Expired", "too old"))
    pauses = Timings(first_delay=0.01, longest_delay=1000, watch_read=5)
    async with reflecting(stub, pauses):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 5)
        assert loop.time() - began >= 0.8 * (0.01 + 0.02 + 0.04 + 0.08)


async def test_a_watch_that_ends_at_once_does_not_spin(stub: StubApi) -> None:
    ended = Stream()
    for _ in range(100):
        ended.end()
    stub.script("GET", PATH, page([], "7"))
    stub.script("WATCH", PATH, ended)
    pauses = Timings(first_delay=0.01, longest_delay=1000, watch_read=5)
    async with reflecting(stub, pauses) as reflector:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 5)
        assert loop.time() - began >= 0.8 * (0.01 + 0.02 + 0.04 + 0.08)
        assert reflector.errors == 0
        assert reflector.lists == 1


async def test_pauses_start_over_after_a_watch_that_lasted(stub: StubApi) -> None:
    now = 0.0
    stub.script("GET", PATH, page([], "7"))
    long_one = Stream()
    broken = failure(503, "ServiceUnavailable", "starting")
    stub.script("WATCH", PATH, broken, broken, broken, broken, long_one, Stream())
    pauses = Timings(first_delay=0.02, longest_delay=1000, watch_read=5, healthy=30)
    async with reflecting(stub, pauses, clock=lambda: now):
        await long_one.opened.wait()
        now = 31.0
        loop = asyncio.get_running_loop()
        long_one.end()
        began = loop.time()
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 6)
        assert loop.time() - began < 0.3  # the next of the growing pauses would be 0.32 * 0.8
    assert len(stub.received("GET", PATH)) == 1


@pytest.mark.parametrize("fault", ["cut", "torn", "error event", "silence"])
async def test_a_broken_watch_goes_on_where_it_was(stub: StubApi, fault: str) -> None:
    first, second = Stream(), Stream()
    stub.script("GET", PATH, page([obj("a", 3)], "7"))
    stub.script("WATCH", PATH, first, second)
    first.send("ADDED", obj("b", 8))
    first.bookmark(20)
    match fault:
        case "cut":
            first.cut()
        case "torn":
            first.raw(b'{"type":"ADDED","obj\n')
        case "error event":
            first.send("ERROR", status_object(500, "InternalError", "boom"))
    timings = Timings(first_delay=0.005, watch_read=0.2 if fault == "silence" else 5)
    async with reflecting(stub, timings) as reflector:
        await second.opened.wait()
        second.send("ADDED", obj("c", 21))
        await eventually(lambda: set(reflector.store) == {"a", "b", "c"})
        assert reflector.lists == 1
        assert reflector.errors >= 1
        assert reflector.last_error
    assert stub.received("WATCH", PATH)[1].query["resourceVersion"] == "20"


@pytest.mark.parametrize("end", ["broken", "orderly"])
async def test_an_api_without_an_order_of_versions_is_listed_anew_after_each_watch(
    stub: StubApi, end: str
) -> None:
    """It may have been replaced meanwhile by one that counts from the beginning."""
    first, second = Stream(), Stream()
    stub.script("GET", PATH, page([obj("a", 70)], "90"), page([obj("b", 2)], "3"))
    stub.script("WATCH", PATH, first, second)
    async with reflecting(stub, ordered=False) as reflector:
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 1)
        first.cut() if end == "broken" else first.end()
        await eventually(lambda: set(reflector.store) == {"b"})
        second.send("ADDED", obj("c", 4))
        await eventually(lambda: set(reflector.store) == {"b", "c"})
    assert stub.received("WATCH", PATH)[1].query["resourceVersion"] == "3"


async def test_watches_that_never_say_a_word_lead_to_a_new_list(stub: StubApi) -> None:
    # After a restore of etcd our version lies in the future: watches are accepted and stay silent.
    stub.script("GET", PATH, page([obj("a", 900)], "1000"), page([obj("b", 5)], "6"))
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub, Timings(first_delay=0.005, watch_read=0.05)) as reflector:
        await eventually(lambda: set(reflector.store) == {"b"})
    assert len(stub.received("WATCH", PATH)) >= 3


async def test_a_resync_sweeps_what_the_watch_missed(stub: StubApi) -> None:
    watch = Stream()
    gate = asyncio.Event()
    stub.script(
        "GET",
        PATH,
        page([obj("a", 3), obj("b", 4)], "7"),
        after(gate, page([obj("a", 3)], "30")),
        page([obj("a", 3), obj("late", 31)], "40"),
    )
    stub.script("WATCH", PATH, watch)
    async with reflecting(stub, Timings(first_delay=0.005), resync_seconds=0.01) as reflector:
        store = reflector.store
        await stub.wait_for(lambda: len(stub.received("GET", PATH)) == 2)
        watch.send("ADDED", obj("late", 31))
        await eventually(lambda: "late" in store)
        gate.set()
        await eventually(lambda: "b" not in store)
        assert "late" in store
        assert reflector.store.swept == 1
    assert len(stub.received("WATCH", PATH)) == 1


async def test_a_resync_that_goes_back_in_history_restarts_the_watch(stub: StubApi) -> None:
    stub.script("GET", PATH, page([obj("a", 900)], "1000"), page([obj("b", 5)], "6"))
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub, Timings(first_delay=0.005), resync_seconds=0.02) as reflector:
        await stub.wait_for(lambda: len(stub.received("WATCH", PATH)) == 2)
        assert set(reflector.store) == {"b"}
    assert stub.received("WATCH", PATH)[1].query["resourceVersion"] == "6"


@pytest.mark.parametrize(
    "answer",
    [
        text_answer("404 page not found", 404),
        failure(403, "Forbidden", "no rights"),
        failure(500, "InternalError", "boom"),
        after(asyncio.Event(), page([], "1")),
    ],
    ids=["CRD absent", "forbidden", "server error", "timeout"],
)
async def test_what_cannot_be_listed_is_unknown_and_not_absent(stub: StubApi, answer: Any) -> None:
    stub.script("GET", PATH, page([obj("a", 3)], "7"), answer)
    gone = Stream()
    stub.script("WATCH", PATH, gone, answer)
    timings = Timings(first_delay=0.005, longest_delay=0.01, page=0.05, watch_read=0.05)
    now = 0.0
    async with stub_client(stub) as client:
        store = Store(labels, clock=lambda: now)
        reflector = Reflector(client, PATH, store, resync_seconds=600, timings=timings)
        task = asyncio.create_task(reflector.run())
        await gone.opened.wait()
        gone.send("ERROR", EXPIRED)
        await stub.wait_for(lambda: len(stub.received("GET", PATH)) >= 4)
        assert set(store) == {"a"}
        assert store.synced
        now = 100.0
        assert not store.fresh(90)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_crd_that_comes_later_is_picked_up(stub: StubApi) -> None:
    stub.script("GET", PATH, text_answer("404 page not found", 404), page([obj("a", 3)], "7"))
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub) as reflector:
        await reflector.wait_attempted()
        assert not reflector.store.synced
        await reflector.store.wait_synced()
        assert set(reflector.store) == {"a"}


async def test_a_busy_server_is_given_the_time_it_asks_for(stub: StubApi) -> None:
    stub.script("GET", PATH, failure(429, "TooManyRequests", "busy", retry_after=1), page([], "7"))
    stub.script("WATCH", PATH, Stream())
    async with reflecting(stub) as reflector:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await reflector.store.wait_synced()
        assert loop.time() - began >= 0.99


async def test_without_a_watch_only_lists_are_made(stub: StubApi) -> None:
    stub.script("GET", PATH, page([obj("a", 3)], "7"), page([obj("b", 8)], "9"))
    async with reflecting(stub, watch=False, resync_seconds=0.01) as reflector:
        await eventually(lambda: set(reflector.store) == {"b"})
        await eventually(lambda: reflector.lists >= 3)
    assert not stub.received("WATCH", PATH)
