"""Places that another extender promised are found on the claims, when they matter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schedclass.domain import names
from schedclass.kube.errors import ApiError
from schedclass.scheduler import claims as claims_module
from schedclass.scheduler.claims import ATTEMPT_SECONDS, MAX_CLAIMS, RECENT_SECONDS, ClaimedPlaces
from schedclass.scheduler.judge import Judge
from tests.stubapi import (
    Json,
    StubApi,
    after,
    eventually,
    failure,
    json_answer,
    stub_api,
    stub_client,
)
from tests.unit.scheduler.world import APART, World, raw_node, raw_pod

NODES = [raw_node("n1"), raw_node("n2")]


def pod(name: str, *volumes: Json, version: int = 1, refused: str = "") -> Json:
    raw = raw_pod(name, version=version)
    raw["spec"] = {"schedulerName": names.SCHEDULER_NAME, "volumes": list(volumes)}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    raw["status"] = {"conditions": [{**condition, "message": refused}] if refused else []}
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
        self.now = 0.0
        self.world = World(*NODES, **spec)
        self.places = ClaimedPlaces(client, self.world.state, clock=lambda: self.now)
        self._judge = Judge(self.world.state, self.world.decisions)

    def idle(self) -> None:
        """kube-scheduler tries nothing for a while."""
        self.now += RECENT_SECONDS + 1

    async def filter(self, name: str) -> list[str]:
        self.places.tried(f"uid-{name}")
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
        s.world.watch(pod("first", claim("data"), version=2, refused="no room"))
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
        s.idle()
        assert await s.filter("second") == ["n1"]


async def test_a_pod_that_was_refused_once_may_be_on_its_way_all_the_same() -> None:
    """What it was refused for is of an earlier attempt until kube-scheduler says something else."""
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data"), refused="no room"), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        s.world.watch(pod("first", claim("data"), refused="no volume", version=2))
        assert await s.filter("second") == ["n1", "n2"]
        s.idle()
        assert await s.filter("second") == ["n2"]
        assert s.asked == 2


async def test_an_attempt_of_which_nothing_is_heard_ends_at_last() -> None:
    """A claim goes on to name the node of an attempt that failed, for ever."""
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data"), refused="no room"), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        for now, left in ((ATTEMPT_SECONDS / 2, ["n2"]), (ATTEMPT_SECONDS + 1, ["n1", "n2"])):
            s.now = now
            s.world.state.promises.withdraw("uid-first")
            assert await s.filter("second") == left


async def test_only_so_many_claims_of_one_pod_are_read() -> None:
    async with scene() as s:
        for number in range(MAX_CLAIMS + 5):
            s.api.script("GET", claim_path(f"data-{number}"), sent_to(None))
        claims = [claim(f"data-{number}") for number in range(MAX_CLAIMS + 5)]
        s.world.watch(pod("first", *claims), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == MAX_CLAIMS


async def test_reads_go_on_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "SETTLE_SECONDS", 0.1)
    async with scene() as s:
        go = asyncio.Event()
        s.api.script("GET", claim_path("slow"), after(go, sent_to("n1")))
        s.world.watch(pod("first", claim("slow")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await s.filter("second")
        go.set()
        await eventually(lambda: bool(s.world.state.promises.pods))
        assert await s.filter("second") == ["n2"]
        assert s.asked == 1


async def test_a_try_that_failed_for_want_of_time_counts_as_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else all would be read anew each time, and more than can be read at once for ever."""
    monkeypatch.setattr(claims_module, "SETTLE_SECONDS", 0.1)
    async with scene() as s:
        go = asyncio.Event()
        s.api.script("GET", claim_path("quick"), sent_to(None))
        s.api.script("GET", claim_path("slow"), after(go, sent_to("n1")))
        s.world.watch(pod("first", claim("quick")), "ADDED")
        s.world.watch(pod("other", claim("slow")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await s.filter("second")
        go.set()
        assert await s.filter("second") == ["n2"]
        assert len(s.api.received("GET", claim_path("quick"))) == 1


async def test_a_fault_is_told_and_the_next_try_finds_the_rest_done() -> None:
    async with scene() as s:
        for number in range(30):
            s.api.script("GET", claim_path(f"c{number}"), sent_to(None))
            s.world.watch(pod(f"p{number}", claim(f"c{number}")), "ADDED")
        busy = failure(429, "TooManyRequests", "later")
        s.api.script("GET", claim_path("bad"), busy, sent_to("n1"))
        s.world.watch(pod("bad", claim("bad")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        with pytest.raises(ApiError):
            await s.filter("second")
        assert await s.filter("second") == ["n2"]
        assert s.asked == 32


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
        s.idle()
        assert await s.filter("second") == ["n1", "n2"]
        assert s.asked == 0
        s.world.watch(pod("first", claim("data"), version=2))
        assert await s.filter("second") == ["n2"]


async def test_a_pod_on_its_way_out_keeps_nobody_out() -> None:
    """The API server binds no pod that is being deleted, however long finalizers keep it."""
    async with scene() as s:
        s.api.script("GET", claim_path("data"), sent_to("n1"))
        s.world.watch(pod("first", claim("data")), "ADDED")
        s.world.watch(pod("second"), "ADDED")
        assert await s.filter("second") == ["n2"]
        leaving = pod("first", claim("data"), version=2)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        s.world.watch(leaving)
        assert await s.filter("second") == ["n1", "n2"]
        s.idle()
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
