"""Hints: who gets one, what becomes of it, and that a wrong one is taken back."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from schedclass.domain import names
from schedclass.domain.scheduling import Decisions, Scope
from schedclass.domain.scheduling.choosing import Chooser
from schedclass.scheduler import nominator as module
from schedclass.scheduler.hints import ACTIVE_SECONDS, STALE_SECONDS, HintResult, Hints
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.nominator import Nominator
from tests.stubapi import Answer, Json, StubApi, eventually, failure, stub_api, stub_client
from tests.unit.scheduler.test_service import Asked
from tests.unit.scheduler.world import APART, ZONE, World, raw_node, raw_pod

SIZE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
OURS = {
    "manager": names.FIELD_MANAGER,
    "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}},
    "subresource": "status",
}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
THEIRS = {**OURS, "manager": "kube-scheduler"}


def node(name: str, zone: str = "a") -> Json:
    return {**raw_node(name, zone), "status": {"allocatable": SIZE}}


def in_zone(zone: str) -> Json:
    return {"key": ZONE, "operator": "In", "values": [zone]}


def waiting(name: str, version: int = 1, *, priority: int = 0, **spec: Any) -> Json:
    raw = raw_pod(name, version=version)
    raw["spec"] = {
        "schedulerName": names.SCHEDULER_NAME,
        "priority": priority,
        "containers": [{"resources": {"requests": {"cpu": "100m"}}}],
        **spec,
    }
    return raw


def hinted(raw: Json, to: str, version: int, *, tried: bool = False, by: Json = OURS) -> Json:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return {
        **raw,
        "metadata": {**raw["metadata"], "resourceVersion": str(version), "managedFields": [by]},
        "status": {"nominatedNodeName": to, "conditions": conditions if tried else []},
    }


def status_path(name: str) -> str:
    return f"/api/v1/namespaces/team/pods/{name}/status"


@dataclass
class Scene:
    api: StubApi
    world: World
    hints: Hints
    nominator: Nominator
    in_flight: InFlight
    results: Counter[HintResult]
    now: list[float]
    pods: dict[str, Json] = field(default_factory=dict)

    def create(self, *raws: Json) -> None:
        for raw in raws:
            name = raw["metadata"]["name"]
            self.pods[name] = raw
            self.api.script("PATCH", status_path(name), self._patched(name))
            self.world.watch(raw, "ADDED")

    def _patched(self, name: str) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            raw = self.pods[name]
            if body["metadata"]["resourceVersion"] != raw["metadata"]["resourceVersion"]:
                return await failure(409, "Conflict", "somebody was faster")(request)
            to = body["status"]["nominatedNodeName"] or ""
            raw = hinted(raw, to, int(raw["metadata"]["resourceVersion"]) + 1)
            self.pods[name] = raw
            return web.json_response(raw)

        return answer

    def asked(self, name: str, *nodes: str) -> str | None:
        """kube-scheduler tries a pod; filter lets it pass, and leaves it this node alone."""
        pod = self.world.pod(name)
        self.in_flight.settled(pod.uid)
        node = self.nominator.asked(pod, list(nodes))
        self.in_flight.passed(pod, nodes if node is None else (node,))
        return node

    def queue(self, count: int, **spec: Any) -> list[str]:
        """So many pods wait, and the first of them is being tried."""
        found = [f"p{number}" for number in range(count)]
        self.create(*(waiting(name, **spec) for name in found))
        self.asked("p0", "n1", "n2", "n3")
        return found

    def given(self) -> dict[str, str]:
        """Pods and the nodes last named for them, as the API server was told."""
        found = {}
        for one in self.api.requests:
            if one.method == "PATCH":
                found[one.path.split("/")[-2]] = one.body["status"]["nominatedNodeName"]
        return found


@asynccontextmanager
async def scene(
    *nodes: Json, least_nodes: int = 1, least_candidates: int | None = None, **spec: Any
) -> AsyncIterator[Scene]:
    world = World(*(nodes or (node("n1"), node("n2"), node("n3"))), **spec)
    results: Counter[HintResult] = Counter()
    now = [1000.0]

    def observe(result: HintResult) -> None:
        results[result] += 1

    async with stub_api() as api, stub_client(api) as client:
        hints = Hints(world.state, observe=observe, clock=lambda: now[0])
        decisions = Decisions(world.state.cluster, Scope.MERGED)
        chooser = Chooser(world.state.cluster, decisions, hints.room)
        in_flight = InFlight()
        nominator = Nominator(
            client,
            world.state,
            hints,
            chooser,
            in_flight=in_flight,
            judge=Judge(world.state, world.decisions),
            least_nodes=least_nodes,
            least_candidates=least_candidates,
            observe=observe,
            first_lag=0.0,
        )
        running = asyncio.create_task(nominator.run())
        yield Scene(api, world, hints, nominator, in_flight, results, now)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def quiet(s: Scene) -> None:
    """Lets the nominator do what it would do."""
    s.nominator.news()
    await asyncio.sleep(0.05)


async def test_pods_behind_the_head_of_a_queue_get_a_node_each() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        found = s.queue(9)
        await eventually(lambda: s.results[HintResult.MADE] == 6)
        assert sorted(s.given()) == found[3:]  # p0 is being tried, two are left to be popped
        assert set(s.given().values()) <= {"n1", "n2", "n3"}
        for name in found[3:]:
            assert s.world.pod(name).hinted


async def test_a_hint_rests_on_the_version_that_was_seen() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        found = s.queue(9)
        s.pods["p5"] = hinted(s.pods["p5"], "n2", 7, by=THEIRS)  # a preemption, not yet seen
        await eventually(lambda: s.results[HintResult.OVERTAKEN] == 1)
        await eventually(lambda: s.results[HintResult.MADE] == 5)
        assert s.pods["p5"]["status"]["nominatedNodeName"] == "n2"
        assert "uid-p5" not in s.hints.given
        assert s.hints.room.place_of("uid-p5") is None
        assert len(found) == 9


async def test_a_short_queue_a_small_cluster_and_an_idle_scheduler_get_none() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.queue(4)
        await quiet(s)
        assert s.given() == {}
    async with scene(nodeSelector={ZONE: "a"}, least_nodes=4) as s:
        s.queue(9)
        await quiet(s)
        assert s.given() == {}
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.create(*(waiting(f"p{number}") for number in range(9)))
        await quiet(s)
        assert s.given() == {}
        s.asked("p0", "n1")
        s.now[0] += ACTIVE_SECONDS + 1  # another replica's kube-scheduler has taken over
        s.create(*(waiting(f"q{number}") for number in range(9)))
        await quiet(s)
        made = len(s.given())
        s.create(*(waiting(f"r{number}") for number in range(9)))
        await quiet(s)
        assert len(s.given()) == made


async def test_only_pods_whose_node_nothing_else_decides_get_one() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.create(
            waiting("volume", volumes=[claim]),
            waiting("config", volumes=[{"name": "c", "configMap": {"name": "c"}}]),
            waiting("gated", schedulingGates=[{"name": "g"}]),
            waiting("devices", resourceClaims=[{"name": "gpu"}]),
            waiting("port", containers=[{"ports": [{"containerPort": 1, "hostPort": 1}]}]),
            waiting("other", schedulerName="default-scheduler"),
            hinted(waiting("tried"), "", 1, tried=True),
            hinted(waiting("preempts"), "n1", 1, by=THEIRS),
        )
        s.queue(9)
        await eventually(lambda: s.results[HintResult.MADE] >= 6)
        await quiet(s)
        others = set(s.given()) - {f"p{number}" for number in range(9)}
        assert others <= {"config"}


async def test_those_of_higher_priority_come_first() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.create(*(waiting(f"low{number}") for number in range(4)))
        s.create(*(waiting(f"high{number}", priority=5) for number in range(5)))
        s.asked("low0", "n1", "n2", "n3")
        await eventually(lambda: s.results[HintResult.MADE] == 6)
        assert set(s.given()) >= {"high2", "high3", "high4"}
        order = list(s.hints.given)
        assert order[:3] == ["uid-high2", "uid-high3", "uid-high4"]


async def test_hints_of_one_burst_respect_one_another() -> None:
    nodes = [node(f"n{number}") for number in range(1, 13)]
    async with scene(*nodes, **APART) as s:
        s.queue(13)
        await eventually(lambda: s.results[HintResult.MADE] == 10)
        assert len(set(s.given().values())) == 10


async def test_no_more_than_a_window_is_ever_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 24)
    monkeypatch.setattr(module, "BATCH", 8)
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.queue(90)
        await eventually(lambda: s.results[HintResult.MADE] >= 16)
        await quiet(s)
        made = s.results[HintResult.MADE]
        assert made <= 24
        for name in list(s.given()):
            s.world.watch(raw_pod(name, "n1", version=9))
        await eventually(lambda: s.results[HintResult.MADE] >= made + 16)


async def test_a_pod_that_is_bound_where_it_was_hinted_counts_as_used() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.queue(9)
        await eventually(lambda: s.results[HintResult.MADE] == 6)
        to = s.given()["p3"]
        s.asked("p3", to)
        s.world.watch(raw_pod("p3", to, version=9))
        other = next(name for name in ("n1", "n2", "n3") if name != s.given()["p4"])
        s.world.watch(raw_pod("p4", other, version=9))
        assert s.results[HintResult.USED] == 1
        assert s.results[HintResult.MISSED] == 1


async def test_a_hint_that_led_nowhere_is_taken_back_and_not_repeated() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.queue(9)
        await eventually(lambda: s.results[HintResult.MADE] == 6)
        s.asked("p3", "n1", "n2", "n3")  # all nodes: the hinted one did not fit
        assert s.hints.room.place_of("uid-p3") is None
        s.pods["p3"] = hinted(s.pods["p3"], s.given()["p3"], 5, tried=True)
        s.world.watch(s.pods["p3"])
        await eventually(lambda: s.results[HintResult.WITHDRAWN] == 1)
        assert s.given()["p3"] is None
        assert s.results[HintResult.MISSED] == 1
        before = len(s.api.requests)
        await quiet(s)
        assert len(s.api.requests) == before


async def test_a_hint_that_nobody_tries_is_taken_back() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.queue(9)
        await eventually(lambda: s.results[HintResult.MADE] == 6)
        s.now[0] += STALE_SECONDS + 1
        s.asked("p1", "n1")
        await eventually(lambda: s.results[HintResult.WITHDRAWN] == 6)
        assert set(s.given().values()) == {None}
        assert not s.hints.given


async def test_a_hint_of_an_earlier_life_or_of_another_replica_is_known_as_such() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.create(hinted(waiting("old"), "gone", 3, tried=True))
        s.create(waiting("other"))
        s.asked("other", "n1")
        await eventually(lambda: s.results[HintResult.WITHDRAWN] == 1)
        assert s.given() == {"old": None}


async def test_what_a_preemption_names_is_never_touched() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        s.create(hinted(waiting("one"), "n1", 3, tried=True, by=THEIRS))
        # Of our own hint, where kube-scheduler has chosen victims on that very node.
        s.create(hinted(waiting("two"), "n1", 2))
        s.hints.preempts(s.world.pod("two"))
        s.world.watch(hinted(waiting("two"), "n1", 3, tried=True))
        s.now[0] += STALE_SECONDS + 1
        s.create(waiting("other"))
        s.asked("other", "n1")
        await quiet(s)
        assert s.given() == {}


@asynccontextmanager
async def preempting() -> AsyncIterator[tuple[Scene, Asked, Json]]:
    """A pod with a hint of ours for n1, that its class allows in one zone only; n2 is not there."""
    async with scene(node("n1"), node("n2", "b"), nodeSelector={ZONE: "a"}) as s:
        one = hinted(waiting("one", priority=10), "n1", 2)
        s.create(one)
        s.asked("one", "n1", "n2")
        yield s, Asked(s.world, on_preempt=s.hints.preempts), one


async def tried_in_vain(s: Scene, version: int = 3) -> None:
    s.pods["one"] = hinted(waiting("one", priority=10), "n1", version, tried=True)
    s.world.watch(s.pods["one"])
    await quiet(s)


async def test_a_preemption_that_was_refused_changes_nothing_about_a_hint() -> None:
    """kube-scheduler leaves the node on the pod then, so it is on us to take it back."""
    async with preempting() as (s, asked, one):
        assert await asked.preempt(one, n2=["uid-low"]) == []
        assert "uid-one" in s.hints.given
        await tried_in_vain(s)
        await eventually(lambda: s.results[HintResult.WITHDRAWN] == 1)
        assert s.given() == {"one": None}


@pytest.mark.parametrize("refused_before", [True, False])
async def test_a_node_with_victims_is_left_to_the_pod_even_where_it_was_our_hint(
    refused_before: bool,
) -> None:
    async with preempting() as (s, asked, one):
        if refused_before:
            assert await asked.preempt(one, n2=["uid-low"]) == []
        assert await asked.preempt(one, n1=["uid-low"], n2=["uid-other"]) == ["n1"]
        await tried_in_vain(s)
        s.now[0] += STALE_SECONDS + 1
        assert await asked.preempt(one, n2=["uid-low"]) == []
        await tried_in_vain(s, version=4)
        assert s.given() == {}
        assert s.results[HintResult.WITHDRAWN] == 0


@pytest.mark.parametrize("when", ["before", "after", "namesake", "bound"])
async def test_of_a_pod_that_is_gone_no_preemption_is_remembered(when: str) -> None:
    async with preempting() as (s, asked, one):
        if when == "before":
            s.world.watch(hinted(one, "n1", 3), "DELETED")
        assert await asked.preempt(one, n1=["uid-low"]) == ["n1"]
        if when == "after":
            assert s.world.state.preempting == {"uid-one"}
            s.world.watch(hinted(one, "n1", 3), "DELETED")
        elif when == "namesake":
            again = waiting("one", 3)
            again["metadata"]["uid"] = "uid-again"
            s.world.watch(again)
        elif when == "bound":
            s.world.watch(raw_pod("one", "n1", version=3))
        assert s.world.state.preempting == set()
        assert not s.hints.given


async def test_a_hint_shuts_no_node_for_others_but_a_promise_does() -> None:
    async with scene(**APART) as s:
        judge = Judge(s.world.state, s.world.decisions)
        s.create(hinted(waiting("one"), "n1", 3), waiting("two"))
        assert judge.filter(s.world.pod("two"), ["n1", "n2"]) == ["n1", "n2"]
        s.world.watch(hinted(waiting("one"), "n1", 4, by=THEIRS))
        assert judge.filter(s.world.pod("two"), ["n1", "n2"]) == ["n2"]


async def test_a_hint_becomes_a_promise_where_a_preemption_names_the_same_node() -> None:
    """kube-scheduler writes nothing then, as the node is there already."""
    async with scene(**APART) as s:
        judge = Judge(s.world.state, s.world.decisions)
        s.create(hinted(waiting("one", priority=10), "n1", 3), waiting("two"))
        s.world.watch(raw_pod("low", "n1", version=3))
        assert judge.filter(s.world.pod("two"), ["n2"]) == ["n2"]
        s.hints.preempts(s.world.pod("one"))
        s.world.watch(raw_pod("low", "n1", version=3), "DELETED")
        assert judge.filter(s.world.pod("two"), ["n1", "n2"]) == ["n2"]
        s.world.watch(waiting("one", 4, priority=10))
        assert judge.filter(s.world.pod("two"), ["n1", "n2"]) == ["n1", "n2"]


async def test_while_hints_cannot_be_written_there_is_a_pause() -> None:
    async with scene(nodeSelector={ZONE: "a"}) as s:
        found = [f"p{number}" for number in range(30)]
        s.create(*(waiting(name) for name in found))
        for name in found:
            answer = failure(403, "Forbidden", "pods/status is forbidden")
            s.api.script("PATCH", status_path(name), answer)
        s.asked("p0", "n1")
        await eventually(lambda: s.results[HintResult.FAILED] >= 1)
        await quiet(s)
        assert len(s.given()) <= module.WRITERS
        assert not s.hints.given
        assert s.world.state.cluster.version >= 0


# --- nodes chosen in the answer of filter ---------------------------------------------------------

HINTS_OFF = 100
"""More nodes than there are: what is named is named by filter."""


def choosing(*nodes: Json, **spec: Any) -> Any:
    return scene(*nodes, least_nodes=HINTS_OFF, least_candidates=2, **spec)


async def test_while_others_wait_a_pod_gets_the_best_of_the_nodes_it_is_tried_on() -> None:
    wish = {"weight": 100, "preference": {"matchExpressions": [in_zone("b")]}}
    prefers = {"nodeAffinity": {PREFERRED: [wish]}}
    async with choosing(node("n1"), node("n2", "b"), node("n3"), **prefers) as s:
        s.create(*(waiting(f"p{number}") for number in range(9)))
        assert s.asked("p0", "n1", "n2", "n3") == "n2"
        assert s.asked("p1", "n1", "n3") is None  # nothing is named that it was not tried on
        s.world.watch(raw_pod("p0", "n2", version=9))
        assert s.results == {HintResult.CHOSEN: 1, HintResult.USED: 1}
        assert s.given() == {}


async def test_choices_of_one_burst_respect_one_another() -> None:
    nodes = [node(f"n{number}") for number in range(1, 13)]
    everywhere = [f"n{number}" for number in range(1, 13)]
    async with choosing(*nodes, **APART) as s:
        s.create(*(waiting(f"p{number}") for number in range(14)))
        chosen = [s.asked(f"p{number}", *everywhere) for number in range(10)]
        assert None not in chosen
        assert len(set(chosen)) == 10


async def test_a_pod_that_did_not_get_there_has_the_choice_of_all_nodes() -> None:
    async with choosing(nodeSelector={ZONE: "a"}) as s:
        s.create(*(waiting(f"p{number}") for number in range(9)))
        assert s.asked("p0", "n1", "n2", "n3") is not None
        assert s.asked("p0", "n1", "n2", "n3") is None
        assert s.results[HintResult.MISSED] == 1
        assert s.hints.room.place_of("uid-p0") is None


async def test_a_place_that_came_to_nothing_is_free_again() -> None:
    async with choosing(nodeSelector={ZONE: "a"}) as s:
        s.create(*(waiting(f"p{number}") for number in range(9)))
        assert s.asked("p0", "n1", "n2", "n3") is not None
        assert s.hints.room.place_of("uid-p0") is not None
        s.world.watch(hinted(waiting("p0"), "", 2, tried=True))
        assert s.hints.room.place_of("uid-p0") is None
        assert s.asked("p1", "n1", "n2", "n3") is not None
        s.world.watch(waiting("p1"), "DELETED")
        assert s.hints.room.place_of("uid-p1") is None


async def test_with_a_short_queue_few_candidates_or_other_judges_a_pod_has_the_choice() -> None:
    async with choosing(nodeSelector={ZONE: "a"}) as s:
        s.create(*(waiting(f"p{number}") for number in range(4)))
        assert s.asked("p0", "n1", "n2", "n3") is None
    for least in (4, None):
        async with scene(least_nodes=HINTS_OFF, least_candidates=least) as s:
            s.create(*(waiting(f"p{number}") for number in range(9)))
            assert s.asked("p0", "n1", "n2", "n3") is None


async def test_nothing_is_chosen_while_it_is_open_where_a_pod_goes_that_matters() -> None:
    async with choosing(**APART) as s:
        port = {"ports": [{"containerPort": 1, "hostPort": 1}]}
        s.create(
            waiting("unknown", containers=[port]), *(waiting(f"p{number}") for number in range(9))
        )
        assert s.asked("unknown", "n1", "n2", "n3") is None
        assert s.asked("p0", "n1", "n2", "n3") is None
        for name, to in (("unknown", "n2"), ("p0", "n1")):
            s.world.watch(raw_pod(name, to, version=9))
            s.in_flight.forget(f"uid-{name}")
        assert s.asked("p1", "n1", "n2", "n3") == "n3"


async def test_a_place_that_is_promised_to_another_pod_is_not_chosen() -> None:
    async with choosing(node("n1"), node("n2"), **APART) as s:
        s.create(hinted(waiting("one"), "n1", 3, by=THEIRS))
        s.create(*(waiting(f"p{number}") for number in range(9)))
        assert s.asked("p0", "n1", "n2") in {"n2", None}


async def test_a_hint_that_comes_too_late_is_said_in_the_answer_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WRITERS", 1)
    async with scene(nodeSelector={ZONE: "a"}, least_candidates=2) as s:
        s.queue(12)
        await eventually(lambda: len(s.hints.given) > 4 and s.results[HintResult.MADE] > 0)
        late = [hint for hint in s.hints.given.values() if not hint.written][-1]
        assert s.asked(late.pod.name, "n1", "n2", "n3") == late.node
        said = {"p0", late.pod.name}
        await eventually(
            lambda: all(h.written for h in s.hints.given.values() if h.pod.name not in said)
        )
        await quiet(s)
        assert late.pod.name not in s.given()
        assert s.hints.room.place_of(late.pod.uid) == late.node


async def test_a_hint_is_judged_with_those_that_are_on_their_way_in_their_places() -> None:
    async with scene(least_nodes=HINTS_OFF, least_candidates=2, **APART) as s:
        s.create(*(waiting(f"p{number}") for number in range(9)))
        first = s.asked("p0", "n1", "n2", "n3")
        assert first is not None
        other = next(name for name in ("n1", "n2", "n3") if name != first)
        s.create(hinted(waiting("same"), first, 3), hinted(waiting("else"), other, 3))
        # Nothing is waited for: of all that matter it is known where they go.
        assert s.asked("else", other) == other
        assert s.asked("same", first) is None


async def test_a_hint_waits_for_a_pod_of_which_nobody_knows_where_it_goes() -> None:
    async with scene(least_nodes=HINTS_OFF, least_candidates=2, **APART) as s:
        s.create(waiting("unknown", resourceClaims=[{"name": "gpu"}]))
        s.create(hinted(waiting("one"), "n1", 3))
        assert s.asked("unknown", "n1", "n2", "n3") is None
        assert s.asked("one", "n1") is None
        s.in_flight.settled("uid-unknown")
        assert s.asked("one", "n1") == "n1"


async def test_where_other_extenders_are_asked_a_hint_is_no_answer() -> None:
    async with scene(least_candidates=None, nodeSelector={ZONE: "a"}) as s:
        s.create(hinted(waiting("one"), "n1", 3))
        assert s.asked("one", "n1") is None
