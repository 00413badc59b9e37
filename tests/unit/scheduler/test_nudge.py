"""When kube-scheduler is nudged, and what becomes of nudges that fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schedclass.domain.scheduling import Pod
from schedclass.scheduler.nudge import Nudger
from schedclass.scheduler.waiting import RefusedPods
from tests.stubapi import StubApi, eventually, failure, json_answer, stub_api, stub_client

PATH = "/apis/storage.k8s.io/v1/namespaces/system/csistoragecapacities/nudge"


LATER = failure(503, "ServiceUnavailable", "later")


class Scene:
    def __init__(self, api: StubApi) -> None:
        self.api = api
        self.version = 1
        self.open: set[str] = set()
        self.told: list[bool] = []
        self.refused = RefusedPods(
            version=lambda: self.version,
            passing=lambda _, names: bool(self.open & set(names)),
            class_of=lambda _: "dc",
        )

    @property
    def written(self) -> int:
        return self.told.count(True)


@asynccontextmanager
async def scene(*answers: object) -> AsyncIterator[tuple[Scene, Nudger]]:
    async with stub_api() as api, stub_client(api) as client:
        api.script("PATCH", PATH, *answers, json_answer({}))  # type: ignore[arg-type]
        scene = Scene(api)
        nudger = Nudger(
            client, scene.refused, namespace="system", name="nudge", on_nudge=scene.told.append
        )
        running = asyncio.create_task(nudger.run())
        try:
            yield scene, nudger
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_the_first_nudge_is_repeated_until_it_is_written() -> None:
    """Who was refused before the start is not known, so nobody else would ask for it."""
    async with scene(LATER) as (s, _):
        await eventually(lambda: s.told == [False, True])


async def test_a_nudge_that_fails_is_none() -> None:
    async with scene(json_answer({}), LATER) as (s, nudger):
        await eventually(lambda: s.told == [True])
        s.refused.refused(Pod("uid", "team", "one"), ["n1"])
        s.version += 1
        s.open = {"n1"}
        nudger.news()
        await eventually(lambda: s.told == [True, False, True])
        assert s.refused._groups.popitem()[1].nudges == 1


async def test_who_can_be_helped_is_helped() -> None:
    async with scene() as (s, nudger):
        await eventually(lambda: s.written == 1)
        s.refused.refused(Pod("uid", "team", "one"), ["n1"])
        s.version += 1
        s.open = {"n1"}
        nudger.news()
        await eventually(lambda: s.written == 2)


async def test_what_helps_nobody_nudges_nobody() -> None:
    async with scene() as (s, nudger):
        await eventually(lambda: s.written == 1)
        s.refused.refused(Pod("uid", "team", "one"), ["n1"])
        s.version += 1
        nudger.news()
        await eventually(lambda: not nudger._news.is_set())
        assert s.refused.due() is None
        assert s.written == 1
