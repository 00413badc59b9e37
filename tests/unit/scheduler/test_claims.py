"""Places that another extender promised are found on the claims, when they matter."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schedclass.domain import names
from schedclass.kube.errors import ApiError
from schedclass.scheduler.claims import ClaimedPlaces
from schedclass.scheduler.judge import Judge
from tests.stubapi import Json, StubApi, eventually, failure, json_answer, stub_api, stub_client
from tests.unit.scheduler.world import APART, World, raw_node, raw_pod

NODES = [raw_node("n1"), raw_node("n2")]


def pod(name: str, *volumes: Json, version: int = 1, tried: bool = False) -> Json:
    raw = raw_pod(name, version=version)
    raw["spec"] = {"schedulerName": names.SCHEDULER_NAME, "volumes": list(volumes)}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    raw["status"] = {"conditions": [condition] if tried else []}
    return raw


def claim(name: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def claim_path(name: str) -> str:
    return f"/api/v1/namespaces/team/persistentvolumeclaims/{name}"


def sent_to(node: str | None) -> Any:
    annotations = {names.SELECTED_NODE: node} if node else {}
    return json_answer({"metadata": {"name": "data", "annotations": annotations}})


def gated(raw: Json) -> Json:
    raw["spec"]["schedulingGates"] = [{"name": "quota"}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    raw["status"] = {"conditions": [condition]}
    return raw


class Scene:
    def __init__(self, api: StubApi, client: Any, **spec: Any) -> None:
        self.api = api
        self.active = True
        self.world = World(*NODES, **spec)
        self.places = ClaimedPlaces(client, self.world.state, active=lambda: self.active)
        self._judge = Judge(self.world.state, self.world.decisions)

    async def filter(self, name: str) -> list[str]:
        self.places.tried(f"uid-{name}")
        self.active = True
        await self.places.settle(self.world.pod(name))
        return self._judge.filter(self.world.pod(name), ["n1", "n2"])

    @property
    def asked(self) -> int:
        return len(self.api.requests)


@asynccontextmanager
async def scene(**spec: Any) -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        yield Scene(api, client, **(spec or APART))


async def test_a_pod_whose_volume_is_being_made_keeps_others_out_of_its_domain() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        assert await s.filter("second") == ["n2"]
        assert s.asked == 1
        s.world.watch(pod("first", claim("data"), version=2, tried=True))
        assert await s.filter("second") == ["n1", "n2"]


async def test_a_generic_ephemeral_volume_has_a_claim_of_its_pod() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("first-scratch"), sent_to("n2"))
        s.world.watch(
            pod("first", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}), "ADDED"
        )
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1"]


@pytest.mark.parametrize("gone", [True, False], ids=["no claim", "not sent anywhere"])
async def test_a_claim_that_says_nothing_shuts_nothing(gone: bool) -> None:
    async with scene() as s:
        absent = failure(404, "NotFound", "not there", name="data")
        s.api.script("GET", claim_path("data"), absent if gone else sent_to(None))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]


async def test_what_cannot_be_read_is_not_taken_for_nothing() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), failure(503, "ServiceUnavailable", "later"))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        with pytest.raises(ApiError):
            await s.filter("second")
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        assert await s.filter("second") == ["n2"]


async def test_nobody_is_asked_about_pods_that_do_not_matter_or_that_were_tried_here() -> None:
    async with scene() as s:
        s.world.watch(pod("mine", claim("data")), "ADDED")
        assert await s.filter("mine") == ["n1", "n2"]
        s.world.watch(pod("second"), "ADDED")
        s.world.watch(pod("refused", claim("other"), tried=True), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0
    async with scene(nodeSelector={}) as s:
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0


async def test_after_a_time_in_which_another_scheduled_all_is_open_again() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to(None), sent_to("n2"))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        s.active = False
        assert await s.filter("second") == ["n1"]


async def test_a_promise_that_has_grown_old_is_looked_up() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        await s.filter("first")
        promises = s.world.state.promises
        promises._seconds = 0.01
        promises.make(s.world.pod("first"), "n1")
        await eventually(lambda: not promises.pods)
        promises._seconds = 60
        assert await s.filter("second") == ["n2"]
        assert s.asked == 1


async def test_a_gated_pod_keeps_nobody_out_until_its_gates_are_gone() -> None:
    """Its claim may say where another pod was sent that used it before."""
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(gated(pod("first", claim("data"))), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        s.active = False
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0
        s.world.watch(pod("first", claim("data"), version=2))
        assert await s.filter("second") == ["n2"]


async def test_a_pod_on_its_way_out_keeps_nobody_out() -> None:
    """The API server binds no pod that is being deleted, however long finalizers keep it."""
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data"), claim("more")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        leaving = pod("first", claim("data"), version=2)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        s.world.watch(leaving)
        assert await s.filter("second") == ["n1", "n2"]
        s.active = False
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 1


async def test_a_gated_pod_that_cannot_be_read_about_stops_nobody() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), failure(503, "ServiceUnavailable", "later"))
        s.world.watch(gated(pod("first", claim("data"))), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]


async def test_a_promise_of_a_gated_pod_is_not_renewed() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(gated(pod("first", claim("data"))), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        promises = s.world.state.promises
        promises._seconds = 0.01
        promises.make(s.world.pod("first"), "n1")
        await eventually(lambda: not promises.pods)
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0


@pytest.mark.parametrize("name", ["a/b", "..", "Data", "data_1", "-data", "d" * 254, "a?b=c", "ü"])
async def test_a_name_that_no_claim_can_have_is_no_claim(name: str) -> None:
    async with scene() as s:
        s.world.watch(pod("first", claim(name)), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0


async def test_beside_such_a_name_the_other_claims_count() -> None:
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        scratch = {"name": "Scratch", "ephemeral": {"volumeClaimTemplate": {}}}
        s.world.watch(pod("first", claim("a/b"), scratch, claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        assert s.asked == 1
