"""Bind under every answer of the API server: no hard rule is ever broken, no pod is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from schedclass.scheduler.bindapi import BindOutcome, BindResult
from schedclass.scheduler.binding import CONFIRM_SECONDS, Binder
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.protocol import BindRequest
from tests.stubapi import (
    Answer,
    Json,
    StubApi,
    after,
    eventually,
    failure,
    json_answer,
    stub_api,
    stub_client,
    text_answer,
)
from tests.unit.scheduler.world import (
    APART,
    SPREAD,
    TOGETHER,
    ZONE,
    World,
    raw_namespace,
    raw_node,
    raw_pod,
)

OK: Json = {"kind": "Status", "status": "Success"}


@dataclass
class Bench:
    api: StubApi
    world: World
    binder: Binder
    in_flight: InFlight

    def answers(self, pod: str, *answers: object) -> None:
        self.api.script("POST", binding_path(pod), *answers)  # type: ignore[arg-type]

    def found(self, pod: str, *answers: object) -> None:
        self.api.script("GET", pod_path(pod), *answers)  # type: ignore[arg-type]

    async def bind(self, pod: str, node: str) -> BindResult:
        return await self.binder.bind(BindRequest("team", pod, f"uid-{pod}", node))

    def posted(self, pod: str) -> int:
        return len(self.api.received("POST", binding_path(pod)))


def pod_path(pod: str) -> str:
    return f"/api/v1/namespaces/team/pods/{pod}"


def binding_path(pod: str) -> str:
    return f"{pod_path(pod)}/binding"


def named(name: str, raw: Json) -> Json:
    """Another pod under that name."""
    return {**raw, "metadata": {**raw["metadata"], "name": name}}


@asynccontextmanager
async def bench(
    world: World, *, post_seconds: float = 10, doubt_seconds: float = 60
) -> AsyncIterator[Bench]:
    async with stub_api() as api, stub_client(api) as client:
        in_flight = InFlight()
        binder = Binder(
            client,
            world.state,
            world.decisions,
            in_flight,
            post_seconds=post_seconds,
            doubt_seconds=doubt_seconds,
        )
        for name in ("one", "two", "three"):
            world.watch(raw_pod(name))
            api.script("POST", binding_path(name), json_answer(OK))
        try:
            yield Bench(api, world, binder, in_flight)
        finally:
            binder.stop()


def apart() -> World:
    return World(raw_node("n1"), raw_node("n2"), **APART)


async def test_a_pod_is_bound_with_its_uid_as_a_precondition() -> None:
    async with bench(apart()) as b:
        assert await b.bind("one", "n1") == BindResult(BindOutcome.BOUND)
        (sent,) = b.api.received("POST", binding_path("one"))
        assert sent.body["metadata"]["uid"] == "uid-one"
        assert sent.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        assert b.world.state.cluster.assumed == {"uid-one": "n1"}


async def test_in_a_namespace_that_goes_nothing_is_bound() -> None:
    async with bench(apart()) as b:
        leaving = raw_namespace(version=9)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        b.world.state.known.namespaces.apply("MODIFIED", leaving)
        assert (await b.bind("one", "n1")).outcome is BindOutcome.REFUSED
        assert b.posted("one") == 0


async def test_of_two_that_exclude_each_other_the_second_is_refused_before_the_first_is_sent() -> (
    None
):
    async with bench(apart()) as b:
        go = asyncio.Event()
        b.answers("one", after(go, json_answer(OK)))
        first = asyncio.create_task(b.bind("one", "n1"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        second = await b.bind("two", "n1")
        assert second.outcome is BindOutcome.CONFLICT
        assert "anti-affinity" in second.error
        assert b.posted("two") == 0
        go.set()
        assert (await first).outcome is BindOutcome.BOUND


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429])
async def test_a_refusal_frees_the_place(status: int) -> None:
    async with bench(apart()) as b:
        b.answers("one", failure(status, "Whatever", "no"))
        b.found("one", json_answer(raw_pod("one", version=2)))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.REFUSED
        assert b.world.state.cluster.assumed == {}
        assert (await b.bind("two", "n1")).outcome is BindOutcome.BOUND


@pytest.mark.parametrize("status", [400, 403, 404, 422, 429])
async def test_what_a_refusal_cannot_have_done_is_not_looked_for(status: int) -> None:
    """In a namespace on its way out, all of hundreds are refused, and each look is a request."""
    async with bench(apart()) as b:
        b.answers("one", failure(status, "Whatever", "no"))
        b.found("one", failure(500, "InternalError", "overloaded"))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.REFUSED
        assert [request.method for request in b.api.requests] == ["POST"]
        assert b.world.state.cluster.assumed == {}


@pytest.mark.parametrize("status", [409, 500, 504])
async def test_an_answer_that_hides_a_success_is_seen_through(status: int) -> None:
    async with bench(apart()) as b:
        b.answers("one", failure(status, "Whatever", "no"))
        b.found("one", json_answer(raw_pod("one", "n1", version=2)))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.BOUND
        assert b.world.allowed("two") == ["n2"]


async def test_a_pod_bound_elsewhere_counts_there() -> None:
    async with bench(apart()) as b:
        b.answers("one", failure(409, "Conflict", "already assigned"))
        b.found("one", json_answer(raw_pod("one", "n2", version=2)))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.REFUSED
        assert b.world.allowed("two") == ["n1"]


async def test_a_pod_that_is_gone_frees_the_place() -> None:
    async with bench(apart()) as b:
        b.answers("one", failure(500, "InternalError", "no"))
        b.found("one", failure(404, "NotFound", "gone", name="one"))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.REFUSED
        assert b.world.state.cluster.assumed == {}


async def test_while_the_end_of_a_binding_is_not_known_the_place_stays_taken() -> None:
    async with bench(apart(), post_seconds=0.05) as b:
        never = asyncio.Event()
        b.answers("one", after(never, json_answer(OK)), json_answer(OK))
        b.found("one", json_answer(raw_pod("one", version=2)))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.UNKNOWN
        assert b.binder.doubtful_node("uid-one") == "n1"
        assert b.world.allowed("two") == ["n2"]
        # Anywhere else it could end up on two nodes' accounts.
        assert (await b.bind("one", "n2")).outcome is BindOutcome.UNKNOWN
        assert (await b.bind("one", "n1")).outcome is BindOutcome.BOUND
        assert b.world.allowed("two") == ["n2"]
        never.set()


async def test_a_pod_is_bound_once_at_a_time_and_nowhere_else_until_the_watch_shows_it() -> None:
    async with bench(apart()) as b:
        go = asyncio.Event()
        b.answers("one", after(go, json_answer(OK)))
        first = asyncio.create_task(b.bind("one", "n1"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        for node in ("n1", "n2"):
            assert (await b.bind("one", node)).outcome is BindOutcome.UNKNOWN
        assert (await b.bind("two", "n1")).outcome is BindOutcome.CONFLICT
        go.set()
        assert (await first).outcome is BindOutcome.BOUND
        assert (await b.bind("one", "n2")).outcome is BindOutcome.UNKNOWN
        assert b.posted("one") == 1
        assert b.world.allowed("two") == ["n2"]


@pytest.mark.parametrize(
    ("found", "left_to_two"),
    [
        (json_answer(raw_pod("one", version=2)), ["n1", "n2"]),
        (failure(404, "NotFound", "gone", name="one"), ["n1", "n2"]),
        (json_answer(named("one", raw_pod("six", "n1", version=2))), ["n1", "n2"]),
        (json_answer(raw_pod("one", "n2", version=2)), ["n1"]),
        (json_answer(raw_pod("one", "n1", version=2)), ["n2"]),
    ],
    ids=["unbound", "gone", "replaced", "elsewhere", "bound"],
)
async def test_a_doubt_ends_by_a_look_once_nothing_can_come_of_it_any_more(
    found: Answer, left_to_two: list[str]
) -> None:
    async with bench(apart(), doubt_seconds=0.05) as b:
        b.answers("one", failure(500, "InternalError", "no"))
        b.found("one", failure(500, "InternalError", "no"), found)
        assert (await b.bind("one", "n1")).outcome is BindOutcome.UNKNOWN
        assert b.world.allowed("two") == ["n2"]
        await eventually(lambda: b.binder.doubtful_node("uid-one") is None)
        assert b.world.allowed("two") == left_to_two


async def test_a_look_that_fails_is_repeated_and_the_place_stays_taken() -> None:
    async with bench(apart(), doubt_seconds=0.02) as b:
        b.answers("one", failure(500, "InternalError", "no"))
        b.found("one", failure(500, "InternalError", "no"), json_answer([]), text_answer("", 404))
        await b.bind("one", "n1")
        await b.api.wait_for(lambda: len(b.api.received("GET", pod_path("one"))) == 5)
        assert b.binder.doubtful_node("uid-one") == "n1"
        assert b.world.allowed("two") == ["n2"]


async def test_a_doubtful_binding_that_is_sent_again_is_not_taken_back_meanwhile() -> None:
    async with bench(apart(), doubt_seconds=0.2) as b:
        go = asyncio.Event()
        b.answers("one", *[failure(500, "InternalError", "no")] * 2, after(go, json_answer(OK)))
        b.found("one", json_answer(raw_pod("one", version=2)))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.UNKNOWN
        await asyncio.sleep(0.15)
        again = asyncio.create_task(b.bind("one", "n1"))
        await asyncio.sleep(0.1)
        assert b.world.allowed("two") == ["n2"]
        go.set()
        assert (await again).outcome is BindOutcome.BOUND
        assert b.world.allowed("two") == ["n2"]


async def test_the_watch_ends_a_doubt() -> None:
    async with bench(apart()) as b:
        b.answers("one", failure(500, "InternalError", "no"))
        b.found("one", failure(500, "InternalError", "no"))
        await b.bind("one", "n1")
        b.world.watch(raw_pod("one", "n1", version=3))
        assert b.binder.doubtful_node("uid-one") is None
        assert b.world.allowed("two") == ["n2"]


@pytest.mark.parametrize(
    ("found", "left_to_two"),
    [
        (failure(404, "NotFound", "gone", name="one"), ["n1", "n2"]),
        (json_answer(named("one", raw_pod("six", "n1", version=2))), ["n1", "n2"]),
        (json_answer(raw_pod("one", "n1", version=2)), ["n2"]),
    ],
    ids=["gone", "replaced", "bound"],
)
async def test_a_bound_pod_that_the_watch_never_shows_is_looked_for(
    found: Answer, left_to_two: list[str]
) -> None:
    async with bench(apart(), doubt_seconds=0.02) as b, asyncio.TaskGroup() as group:
        b.found("one", failure(500, "InternalError", "no"), found)
        assert (await b.bind("one", "n1")).outcome is BindOutcome.BOUND
        looking = group.create_task(b.binder.look_for_unseen())
        await b.api.wait_for(lambda: len(b.api.received("GET", pod_path("one"))) >= 2)
        await eventually(lambda: b.world.allowed("two") == left_to_two)
        looking.cancel()


def sized(name: str, cpu: str, node: str = "", *, version: int = 1) -> Json:
    raw = raw_pod(name, node, version=version)
    raw["spec"]["containers"] = [{"resources": {"requests": {"cpu": cpu}}}]
    return raw


def small_node(cpu: str | None) -> Json:
    known = {"status": {"allocatable": {"cpu": cpu, "pods": "10"}}} if cpu else {}
    return {**raw_node("n1"), **known}


@pytest.mark.parametrize(
    ("cpu", "came", "outcome"),
    [
        ("1", "meanwhile", BindOutcome.CONFLICT),
        ("2", "meanwhile", BindOutcome.BOUND),
        ("1", "before", BindOutcome.BOUND),
        (None, "meanwhile", BindOutcome.BOUND),
    ],
    ids=["full", "room for both", "seen by kube-scheduler", "size not known"],
)
async def test_what_another_scheduler_has_taken_meanwhile_is_not_given_away_again(
    cpu: str | None, came: str, outcome: BindOutcome
) -> None:
    """Only that: whether a pod fits beside what was there before is for kube-scheduler to say."""
    async with bench(World(small_node(cpu), nodeSelector={ZONE: "a"})) as b:
        b.world.watch(sized("one", "1", version=2))
        theirs = sized("theirs", "1", "n1", version=3)
        if came == "before":
            b.world.watch(theirs)
        b.in_flight.passed(b.world.pod("one"), ["n1"])
        if came == "meanwhile":
            b.world.watch(theirs)
        assert (await b.bind("one", "n1")).outcome is outcome


async def test_pods_of_our_own_scheduler_are_its_own_to_count() -> None:
    async with bench(World(small_node("1"), nodeSelector={ZONE: "a"})) as b:
        for name in ("one", "two"):
            b.world.watch(sized(name, "1", version=2))
            b.in_flight.passed(b.world.pod(name), ["n1"])
        assert (await b.bind("one", "n1")).outcome is BindOutcome.BOUND
        b.world.watch(sized("one", "1", "n1", version=3))
        assert (await b.bind("two", "n1")).outcome is BindOutcome.BOUND


async def test_a_pod_replaced_under_its_name_is_not_bound() -> None:
    async with bench(apart()) as b:
        b.found("four", json_answer(raw_pod("five", version=2)))
        assert (await b.bind("four", "n1")).outcome is BindOutcome.REFUSED
        assert b.posted("four") == 0


async def test_a_pod_that_is_bound_already_is_not_bound_again() -> None:
    async with bench(apart()) as b:
        b.world.watch(raw_pod("one", "n1", version=2))
        assert (await b.bind("one", "n1")).outcome is BindOutcome.BOUND
        assert (await b.bind("one", "n2")).outcome is BindOutcome.REFUSED
        assert b.posted("one") == 0


async def test_a_binding_that_rests_on_another_waits_until_that_is_confirmed() -> None:
    """One in zone a; the second zone's pod must be there before zone a may get a second one."""
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        go = asyncio.Event()
        b.answers("one", after(go, json_answer(OK)))
        first = asyncio.create_task(b.bind("one", "n2"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        second = asyncio.create_task(b.bind("two", "n1"))
        await asyncio.sleep(0.05)
        assert b.posted("two") == 0
        go.set()
        assert (await first).outcome is BindOutcome.BOUND
        assert (await second).outcome is BindOutcome.BOUND


async def test_and_is_refused_if_that_fails() -> None:
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        go = asyncio.Event()
        b.answers("one", after(go, failure(403, "Forbidden", "no")))
        b.found("one", json_answer(raw_pod("one", version=2)))
        first = asyncio.create_task(b.bind("one", "n2"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        second = asyncio.create_task(b.bind("two", "n1"))
        await asyncio.sleep(0)
        go.set()
        assert (await first).outcome is BindOutcome.REFUSED
        assert (await second).outcome is BindOutcome.CONFLICT
        assert b.posted("two") == 0


async def test_pods_that_come_in_another_order_wait_for_one_another() -> None:
    """Even if filter has waited for the other one in vain: it had come to bind by then."""
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        for name, node in (("one", "n2"), ("two", "n1"), ("three", "n1")):
            b.in_flight.passed(world.pod(name), [node])
        late = asyncio.create_task(b.bind("two", "n1"))
        await asyncio.sleep(0)
        assert await b.in_flight.wait_for(lambda _: True, seconds=0.01) == 3
        assert (await b.bind("one", "n2")).outcome is BindOutcome.BOUND
        assert (await late).outcome is BindOutcome.BOUND


async def test_pods_that_nobody_is_to_make_room_for_are_refused_at_once() -> None:
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        for name in ("one", "two", "three"):
            b.in_flight.passed(world.pod(name), ["n1"])
        tasks = [asyncio.create_task(b.bind(name, "n1")) for name in ("one", "two", "three")]
        async with asyncio.timeout(CONFIRM_SECONDS / 2):
            results = await asyncio.gather(*tasks)
        assert {result.outcome for result in results} == {BindOutcome.CONFLICT}
        assert all("topology spread" in result.error for result in results)


async def test_a_follower_waits_for_its_leader_to_be_confirmed() -> None:
    async with bench(World(raw_node("n1", "a"), raw_node("n2", "a"), **TOGETHER)) as b:
        go = asyncio.Event()
        b.answers("one", after(go, failure(403, "Forbidden", "no")))
        b.found("one", json_answer(raw_pod("one", version=2)))
        first = asyncio.create_task(b.bind("one", "n1"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        second = asyncio.create_task(b.bind("two", "n2"))
        await asyncio.sleep(0)
        go.set()
        assert (await first).outcome is BindOutcome.REFUSED
        # It may go there as the first of its kind, too.
        assert (await second).outcome is BindOutcome.BOUND


async def test_nothing_is_bound_before_all_is_known() -> None:
    world = apart()
    async with bench(world) as b:
        world.state.pods.synced = False
        result = await b.bind("one", "n1")
        assert (result.outcome, b.posted("one")) == (BindOutcome.REFUSED, 0)
        assert "pods" in result.error


async def test_at_stop_what_waits_is_refused_and_what_is_sent_is_answered_as_it_went() -> None:
    """Our watches are over by then, and another leader places pods elsewhere."""
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        go = asyncio.Event()
        b.answers("one", after(go, json_answer(OK)))
        sent = asyncio.create_task(b.bind("one", "n2"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        waiting = asyncio.create_task(b.bind("two", "n1"))
        await asyncio.sleep(0)
        b.binder.stop()
        late = await b.bind("three", "n2")
        for refused in (await waiting, late):
            assert refused == BindResult(BindOutcome.REFUSED, "the extender is being stopped")
        go.set()
        assert (await sent).outcome is BindOutcome.BOUND
        assert (b.posted("two"), b.posted("three")) == (0, 0)


async def test_at_stop_who_waits_for_another_to_come_is_refused() -> None:
    world = World(raw_node("n1", "a"), raw_node("n2", "b"), **SPREAD)
    async with bench(world) as b:
        world.watch(raw_pod("zero", "n1", version=5))
        for name, node in (("one", "n2"), ("two", "n1")):
            b.in_flight.passed(world.pod(name), [node])
        waiting = asyncio.create_task(b.bind("two", "n1"))
        await asyncio.sleep(0)
        b.binder.stop()
        async with asyncio.timeout(0.1):
            assert (await waiting).outcome is BindOutcome.REFUSED
        assert b.posted("two") == 0


async def test_after_stop_a_failed_binding_is_looked_at_and_not_sent_again() -> None:
    async with bench(apart()) as b:
        go = asyncio.Event()
        b.answers("one", after(go, failure(500, "InternalError", "no")))
        b.found("one", json_answer(raw_pod("one", version=2)))
        sent = asyncio.create_task(b.bind("one", "n1"))
        await b.api.wait_for(lambda: b.posted("one") == 1)
        b.binder.stop()
        go.set()
        assert (await sent).outcome is BindOutcome.UNKNOWN
        assert b.posted("one") == 1
