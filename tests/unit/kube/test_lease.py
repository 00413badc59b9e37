"""Never two leaders, always one soon: two candidates before an API server that misbehaves."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from schedclass.kube.lease import LeadershipLost, LeaseElector, LeaseTimings
from tests.stubapi import Answer, StubApi, eventually, failure, json_answer, stub_api, stub_client

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
PATH = f"{COLLECTION}/r-controller"
STEADY = LeaseTimings(duration=15, deadline=10, retry=0.03)
HASTY = LeaseTimings(duration=1, deadline=0.6, retry=0.1)

Fault = Callable[[web.Request], Awaitable[None]]


class LeaseServer:
    """One Lease with optimistic locking, and faults before or after a request takes effect."""

    def __init__(self, stub: StubApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.before: Fault | None = None
        self.after: Fault | None = None
        for method in ("GET", "PUT"):
            stub.script(method, PATH, self.answer)
        stub.script("POST", COLLECTION, self.answer)

    @property
    def holder(self) -> str:
        return "" if self.lease is None else str(self.lease["spec"]["holderIdentity"])

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.before is not None:
            await self.before(request)
        answer = self._take_effect(request.method, await request.read())
        if self.after is not None:
            await self.after(request)
        return await answer(request)

    def _take_effect(self, method: str, body: bytes) -> Answer:
        if method == "GET":
            if self.lease is None:
                return failure(404, "NotFound", "no lease", name="r-controller")
            return json_answer(self.lease)
        new = orjson.loads(body)
        if method == "POST" and self.lease is not None:
            return failure(409, "AlreadyExists", "there is one")
        if method == "PUT":
            if self.lease is None:
                return failure(404, "NotFound", "no lease", name="r-controller")
            if new["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return failure(409, "Conflict", "modified")
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.lease = new
        return json_answer(new)


class Candidate:
    """An elector whose work is to be the only one who works."""

    def __init__(self, elector: LeaseElector, working: set[str]) -> None:
        self.elector = elector
        self.working = working
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        assert not self.working, f"{self.elector.identity} beside {self.working}"
        self.working.add(self.elector.identity)
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.working.discard(self.elector.identity)
            self.stopped.set()

    def start(self) -> "Candidate":
        self.task = asyncio.create_task(self.elector.run(self.lead))
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


class Arena:
    def __init__(self, stub: StubApi) -> None:
        self.stub = stub
        self.server = LeaseServer(stub)
        self.working: set[str] = set()
        self.changes: list[tuple[str, bool]] = []
        self.candidates: list[Candidate] = []

    async def renewals(self, count: int) -> None:
        goal = len(self.stub.received("PUT", PATH)) + count
        await eventually(lambda: len(self.stub.received("PUT", PATH)) >= goal)

    @asynccontextmanager
    async def candidate(
        self, name: str, timings: LeaseTimings = STEADY
    ) -> AsyncIterator[Candidate]:
        async with stub_client(self.stub, role=name) as client:
            elector = LeaseElector(
                client,
                namespace="ns",
                name="r-controller",
                identity=name,
                timings=timings,
                on_change=lambda leading: self.changes.append((name, leading)),
            )
            candidate = Candidate(elector, self.working).start()
            try:
                yield candidate
            finally:
                assert candidate.task is not None
                candidate.task.cancel()
                await asyncio.gather(candidate.task, return_exceptions=True)


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with stub_api() as stub:
        yield Arena(stub)


def from_role(request: web.Request, role: str) -> bool:
    return f"({role})" in request.headers["User-Agent"]


async def forever(_: web.Request) -> None:
    await asyncio.Event().wait()


async def test_the_first_creates_the_lease_and_leads_alone(arena: Arena) -> None:
    async with arena.candidate("a") as a:
        await a.began.wait()
        async with arena.candidate("b") as b:
            await arena.stub.wait_for(lambda: len(arena.stub.received("GET", PATH)) >= 4)
            assert a.elector.leading
            assert not b.elector.leading
            assert b.elector.holder == "a"
            await eventually(lambda: len(arena.stub.received("PUT", PATH)) >= 2)
        spec = arena.server.lease["spec"] if arena.server.lease else {}
        assert spec["holderIdentity"] == "a"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0


async def test_a_stopped_leader_releases_and_the_next_begins_at_once(arena: Arena) -> None:
    loop = asyncio.get_running_loop()
    async with arena.candidate("a") as a:
        await a.began.wait()
        async with arena.candidate("b") as b:
            await eventually(lambda: b.elector.holder == "a")
            await a.stop()
            assert a.stopped.is_set()
            began = loop.time()
            await b.began.wait()
            assert loop.time() - began < STEADY.duration / 3
    assert arena.changes == [("a", True), ("a", False), ("b", True), ("b", False)]
    assert arena.server.lease is not None
    assert arena.server.lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_leader_without_replies_stops_before_the_next_begins(
    arena: Arena, when: str
) -> None:
    loop = asyncio.get_running_loop()
    async with arena.candidate("a", HASTY) as a, arena.candidate("b", HASTY) as b:
        await eventually(lambda: bool(arena.working))
        leader, other = (a, b) if a.began.is_set() else (b, a)

        async def no_reply(request: web.Request) -> None:
            if from_role(request, leader.elector.identity):
                await forever(request)

        setattr(arena.server, when, no_reply)
        cut = loop.time()
        await leader.stopped.wait()
        assert loop.time() - cut < HASTY.duration
        assert not leader.elector.leading
        await other.began.wait()
        assert leader.task is not None
        with pytest.raises(LeadershipLost, match=r"not renewed within 0\.6 s"):
            await leader.task
    assert (leader.elector.identity, False) in arena.changes


async def test_a_leader_whose_lease_is_taken_stops_at_the_next_attempt(arena: Arena) -> None:
    async with arena.candidate("a") as a:
        await a.began.wait()
        assert arena.server.lease is not None
        arena.server.version += 1
        arena.server.lease = orjson.loads(orjson.dumps(arena.server.lease))
        assert arena.server.lease is not None
        arena.server.lease["spec"]["holderIdentity"] = "thief"
        arena.server.lease["metadata"]["resourceVersion"] = str(arena.server.version)
        assert a.task is not None
        with pytest.raises(LeadershipLost, match="now held by thief"):
            await a.task
        assert arena.server.holder == "thief"


async def test_single_failures_do_not_cost_the_leadership(arena: Arena) -> None:
    broken = failure(500, "InternalError", "etcd")
    async with arena.candidate("a") as a:
        await a.began.wait()
        for _ in range(3):
            await arena.renewals(2)
            arena.stub.script("PUT", PATH, broken, arena.server.answer)
            await arena.renewals(3)
        assert a.elector.leading
        assert a.elector.errors == 3


async def test_connections_that_go_half_dead_together_do_not_cost_the_leadership(
    arena: Arena,
) -> None:
    seen: set[object] = set()
    many = asyncio.Event()

    async def gather_many(request: web.Request) -> None:
        seen.add(request.transport)
        if len(seen) > 6:
            many.set()
        if from_role(request, "a") and request.query.get("beside"):
            await many.wait()

    arena.server.before = gather_many
    timings = LeaseTimings(duration=6, deadline=4, retry=0.03)
    async with stub_client(arena.stub, role="a") as client:
        elector = LeaseElector(
            client, namespace="ns", name="r-controller", identity="a", timings=timings
        )
        candidate = Candidate(elector, arena.working).start()
        await candidate.began.wait()
        # Others' requests leave as many idle connections behind.
        await asyncio.gather(*(client.get(PATH, params={"beside": "1"}) for _ in range(7)))
        half_dead = frozenset(seen)

        async def hang_on_old(request: web.Request) -> None:
            if request.transport in half_dead:
                await forever(request)

        arena.server.before = hang_on_old
        await eventually(lambda: elector.errors == 1)
        await arena.renewals(3)
        assert elector.leading
        await candidate.stop()


async def test_who_stands_by_knows_when_the_api_server_was_last_heard_of(arena: Arena) -> None:
    async with arena.candidate("a", HASTY) as a, arena.candidate("b", HASTY) as b:
        await eventually(lambda: bool(arena.working))
        other = b.elector if a.began.is_set() else a.elector
        first = other.heard_at or 0.0
        await eventually(lambda: (other.heard_at or 0.0) > first)
        arena.server.before = forever
        failures = other.errors
        await eventually(lambda: other.errors > failures)
        silent_since = other.heard_at
        await eventually(lambda: other.errors > failures + 1)
        assert other.heard_at == silent_since
        assert not other.leading


async def test_a_deleted_lease_is_respected_by_those_who_saw_it(arena: Arena) -> None:
    async with arena.candidate("a") as a:
        await a.began.wait()
        async with arena.candidate("b") as b:
            await eventually(lambda: b.elector.holder == "a")

            async def hold_a(request: web.Request) -> None:
                if from_role(request, "a"):
                    await forever(request)

            arena.server.before = hold_a
            arena.server.lease = None
            looks = len(arena.stub.received("GET", PATH))
            await eventually(lambda: len(arena.stub.received("GET", PATH)) >= looks + 5)
            assert a.elector.leading
            assert len(arena.stub.received("POST", COLLECTION)) == 1
            arena.server.before = None


async def test_a_failing_leader_releases_and_its_failure_is_told(arena: Arena) -> None:
    async def fails() -> None:
        raise RuntimeError("broken work")

    async with stub_client(arena.stub) as client:
        elector = LeaseElector(
            client, namespace="ns", name="r-controller", identity="a", timings=HASTY
        )
        with pytest.raises(RuntimeError, match="broken work"):
            await elector.run(fails)
    assert arena.server.holder == ""


async def test_work_that_does_not_stop_does_not_hold_up_the_end(arena: Arena) -> None:
    release = asyncio.Event()
    began = asyncio.Event()

    async def stubborn() -> None:
        began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with stub_client(arena.stub) as client:
        elector = LeaseElector(
            client, namespace="ns", name="r-controller", identity="a", timings=HASTY
        )
        task = asyncio.create_task(elector.run(stubborn))
        await began.wait()
        arena.server.before = forever
        with pytest.raises(LeadershipLost):
            await task
        assert arena.server.holder == "a"  # the work may go on, so nobody is invited
        release.set()


async def test_cancelling_the_wait_for_leadership_leaves_the_leader_alone(arena: Arena) -> None:
    async with arena.candidate("a") as a:
        await a.began.wait()
        async with arena.candidate("b") as b:
            await eventually(lambda: b.elector.holder == "a")
            await b.stop()
        assert arena.server.holder == "a"
        assert not b.began.is_set()


async def test_a_lease_that_was_won_unheard_is_released_on_stop(arena: Arena) -> None:
    async def lose_the_answer(request: web.Request) -> None:
        if request.method == "POST":
            await forever(request)

    arena.server.after = lose_the_answer
    async with arena.candidate("a") as a:
        await eventually(lambda: arena.server.holder == "a")
        await a.stop()
        assert arena.server.holder == ""


async def test_an_unserved_api_is_no_missing_lease(arena: Arena) -> None:
    arena.stub.script("GET", PATH, failure(404, "", "404 page not found"))
    async with arena.candidate("a") as a:
        await eventually(lambda: a.elector.errors >= 2)
        assert not arena.stub.received("POST", COLLECTION)


async def test_two_candidates_before_a_slow_and_lossy_server_never_lead_together(
    arena: Arena,
) -> None:
    rng = random.Random(7)

    async def lag(_: web.Request) -> None:
        await asyncio.sleep(rng.choice([0, 0, 0.02, 0.1, 0.4, 0.9]))

    arena.server.before = arena.server.after = lag

    async def candidate(name: str) -> None:
        while True:
            async with arena.candidate(name, HASTY) as one:
                assert one.task is not None
                try:
                    await one.task
                except LeadershipLost:
                    continue

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(candidate(name)) for name in ("a", "b")]
        await eventually(
            lambda: len([1 for _, leading in arena.changes if not leading]) >= 3, "three losses"
        )
        for task in tasks:
            task.cancel()
    assert len(arena.working) <= 1


@given(st.integers(-2, 4), st.floats(-1, 4, allow_nan=False), st.floats(-1, 4, allow_nan=False))
def test_timings_that_allow_two_leaders_are_refused(
    duration: int, deadline: float, retry: float
) -> None:
    if 0 < retry < deadline < duration:
        LeaseTimings(duration, deadline, retry)
    else:
        with pytest.raises(ValueError, match="0 < retry"):
            LeaseTimings(duration, deadline, retry)
