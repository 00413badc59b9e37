"""Whether a program lives, by its Lease: never from one look, never from its clock alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from schedclass.kube.liveness import LeaseWatch
from tests.stubapi import (
    Answer,
    Json,
    StubApi,
    eventually,
    failure,
    json_answer,
    stub_api,
    stub_client,
)

PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/scheduler"


def lease(*, age: float = 0, holder: str = "one", duration: float = 0.05) -> Answer:
    renewed = (datetime.now(UTC) - timedelta(seconds=age)).isoformat().replace("+00:00", "Z")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}
    return json_answer({"spec": spec})


@asynccontextmanager
async def watching(
    *answers: Answer,
) -> AsyncIterator[tuple[LeaseWatch, StubApi, list[bool | None]]]:
    seen: list[bool | None] = []
    patch = pytest.MonkeyPatch()
    async with stub_api() as api, stub_client(api) as client:
        api.script("GET", PATH, *answers)
        get = client.get

        async def get_patiently(path: str, **_: object) -> Json:
            return await get(path)

        # A look has no longer than the pause until the next, and an answer that a busy machine
        # gives later is lost with what it alone says.
        patch.setattr(client, "get", get_patiently)
        watch = LeaseWatch(
            client,
            namespace="ops",
            name="scheduler",
            seconds=0.01,
            on_change=lambda: seen.append(watch.alive),
        )
        task = asyncio.create_task(watch.run())
        yield watch, api, seen
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_renewed_lately_is_believed_at_the_first_look() -> None:
    async with watching(lease(duration=60)) as (watch, _, seen):
        await eventually(lambda: watch.alive is True)
        assert seen == [True]


async def test_one_that_is_renewed_no_more_is_dead_after_a_while() -> None:
    async with watching(lease(age=1)) as (watch, _, seen):
        await eventually(lambda: watch.alive is False)
        assert seen == [True, False]


async def test_an_old_one_is_unknown_first_and_dead_then() -> None:
    async with watching(lease(age=3600)) as (watch, _, seen):
        await eventually(lambda: watch.alive is False)
        assert seen == [False]


async def test_an_old_one_that_changes_lives_whatever_its_clock_says() -> None:
    async with watching(lease(age=3600), lease(age=3599, duration=60)) as (watch, _, seen):
        await eventually(lambda: watch.alive is True)
        assert seen == [True]


async def test_no_lease_is_no_scheduler() -> None:
    async with watching(failure(404, "NotFound", "no", name="scheduler")) as (watch, _, seen):
        await eventually(lambda: watch.alive is False)
        assert seen == [False]


@pytest.mark.parametrize("answer", [failure(500, "InternalError", "no"), failure(404, "", "no")])
async def test_what_cannot_be_read_is_not_known(answer: Answer) -> None:
    async with watching(answer) as (watch, api, seen):
        await eventually(lambda: len(api.requests) > 2)
        assert watch.alive is None
        assert seen == []


async def test_a_holder_that_lets_go_for_another_is_no_outage() -> None:
    async with watching(
        lease(duration=60), lease(holder="", duration=60), lease(holder="two", duration=60)
    ) as (watch, api, seen):
        await eventually(lambda: len(api.requests) > 4)
        assert watch.alive is True
        assert seen == [True]
