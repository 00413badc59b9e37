"""Namespaces that a class came to: listed at once, and unknown until then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schedclass.controller.adoptions import Adoptions
from schedclass.domain.compliance import ObservedPod, parse_observed_pod
from schedclass.kube.store import Store
from tests.stubapi import Json, StubApi, eventually, failure, page, stub_api, stub_client


class Scene:
    def __init__(self, api: StubApi, adoptions: Adoptions, pods: Store[ObservedPod]) -> None:
        self.api = api
        self.adoptions = adoptions
        self.pods = pods
        self.seen: list[str] = []


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        pods: Store[ObservedPod] = Store(parse_observed_pod)
        pods.replace_all([], "1")
        seen: list[str] = []
        adoptions = Adoptions(
            client, pods, params={"fieldSelector": "spec.schedulerName!=x"}, on_seen=seen.append
        )
        s = Scene(api, adoptions, pods)
        s.seen = seen
        running = asyncio.create_task(adoptions.run())
        yield s
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(name: str) -> Json:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "schedulerName": "default-scheduler"}}


async def test_its_pods_are_taken_in_and_the_class_is_known_again() -> None:
    async with scene() as s:
        s.api.script("GET", path("team"), page([pod("old")], "9"))
        s.adoptions.note("team", "dc")
        assert s.adoptions.awaits("dc")
        assert not s.adoptions.awaits("other")
        await eventually(lambda: s.seen == ["dc"])
        assert not s.adoptions.awaits("dc")
        assert [seen.pod.name for seen in s.pods.values()] == ["old"]


async def test_a_class_is_known_when_the_last_of_its_namespaces_is() -> None:
    async with scene() as s:
        for namespace in ("a", "b", "c", "d", "e"):
            s.api.script("GET", path(namespace), page([], "9"))
            s.adoptions.note(namespace, "dc")
        await eventually(lambda: s.seen == ["dc"])


async def test_what_cannot_be_listed_stays_unknown_until_it_can() -> None:
    async with scene() as s:
        refused = failure(503, "ServiceUnavailable", "later")
        s.api.script("GET", path("team"), refused, page([pod("old")], "9"))
        s.adoptions.note("team", "dc")
        await eventually(lambda: len(s.api.requests) == 1)
        assert s.adoptions.awaits("dc")
        await eventually(lambda: s.seen == ["dc"])
        assert len(s.api.requests) == 2


async def test_a_namespace_that_loses_the_class_or_gets_another_is_waited_for_no_more() -> None:
    async with scene() as s:
        s.adoptions.note("team", "dc")
        s.adoptions.note("team", "other")
        assert s.seen == ["dc"]
        assert s.adoptions.awaits("other")
        s.adoptions.drop("team")
        assert s.seen == ["dc", "other"]
        assert "team" not in s.adoptions
