"""The verbs on a state that is known: what is answered, and what is remembered."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from schedclass.domain.scheduling import Pod
from schedclass.scheduler.binding import Binder
from schedclass.scheduler.chained import ChainedExtenders
from schedclass.scheduler.claims import ClaimedPlaces
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.protocol import MalformedRequestError
from schedclass.scheduler.service import Extender
from schedclass.scheduler.waiting import RefusedPods
from tests.unit.scheduler.world import (
    APART,
    SPREAD,
    ZONE,
    World,
    ask,
    raw_class,
    raw_namespace,
    raw_node,
    raw_pod,
)

NODES = (raw_node("n1", "a"), raw_node("n2", "b"))


class Asked:
    """An extender on a world, without an API server to bind at."""

    def __init__(
        self,
        world: World,
        chained: ChainedExtenders | None = None,
        *,
        chosen: str | None = None,
        on_preempt: Callable[[Pod], None] = lambda _pod: None,
    ) -> None:
        self.world = world
        self.in_flight = InFlight()
        judge = Judge(world.state, world.decisions)
        self.refused = RefusedPods(
            version=lambda: world.state.version,
            passing=lambda pod, names: bool(judge.filter(pod, names)),
            class_of=world.state.cluster.class_key,
        )
        nobody: Any = None
        binder = Binder(nobody, world.state, world.decisions, self.in_flight)
        self.extender = Extender(
            world.state,
            world.decisions,
            judge,
            self.in_flight,
            self.refused,
            binder,
            claimed=ClaimedPlaces(nobody, world.state),
            chained=chained or ChainedExtenders((), lambda _: None),
            on_asked=lambda _pod, _names: chosen,
            on_preempt=on_preempt,
        )

    async def filter(self, raw: dict[str, Any], *nodes: str) -> dict[str, Any]:
        return dict(orjson.loads(await self.extender.filter(ask(raw, *nodes))))

    async def scores(self, raw: dict[str, Any], *nodes: str) -> dict[str, int]:
        answer = orjson.loads(await self.extender.prioritize(ask(raw, *nodes)))
        return {item["Host"]: item["Score"] for item in answer}

    async def preempt(self, raw: dict[str, Any], **victims: list[str]) -> list[str]:
        meta = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in victims.items()
        }
        body = orjson.dumps({"Pod": raw, "NodeNameToMetaVictims": meta})
        answer = orjson.loads(await self.extender.preempt(body))["NodeNameToMetaVictims"]
        assert all(answer[node] == meta[node] for node in answer)
        return list(answer)


async def test_if_any_node_is_left_only_those_are_named() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    assert answer["NodeNames"] == ["n1"]
    rest = ("FailedNodes", "FailedAndUnresolvableNodes", "Error")
    assert not any(answer[field] for field in rest)


async def test_a_node_that_was_chosen_is_the_only_one_named() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}), chosen="n1")
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    assert answer["NodeNames"] == ["n1"]
    assert len(asked.in_flight) == 1


async def test_if_none_is_left_every_one_has_its_reason_and_no_eviction_is_offered() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "c"}))
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    why = 'node(s) didn\'t match SchedulingClass "dc" node selector'
    assert answer["FailedAndUnresolvableNodes"] == {"n1": why, "n2": why}
    assert answer["FailedNodes"] == {}
    assert len(asked.refused) == 1


async def test_a_class_that_does_not_exist_is_said_for_each_node() -> None:
    answer = await Asked(World(*NODES)).filter(raw_pod("one"), "n1")
    assert answer["FailedAndUnresolvableNodes"] == {"n1": 'SchedulingClass "dc" not found'}


async def test_a_node_that_is_not_known_yet_is_no_candidate() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    answer = await asked.filter(raw_pod("one"), "new")
    assert "not known" in answer["FailedAndUnresolvableNodes"]["new"]
    new = raw_node("new", "a")
    new["metadata"]["resourceVersion"] = "2"
    asked.world.state.known.nodes.apply("ADDED", new)
    for _ in asked.refused.look():
        pass
    assert asked.refused.due() == 0


async def test_a_pod_without_a_class_passes_wherever_no_class_of_others_is_against_it() -> None:
    world = World(*NODES, **APART)
    world.state.known.namespaces.apply("MODIFIED", raw_namespace(None, version=2))
    asked = Asked(world)
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1", "n2"]
    running = raw_pod("other", "n1")
    running["metadata"]["annotations"] = {"scheduler.cozystack.io/scheduling-class": "dc"}
    world.watch(running)
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n2"]


async def test_of_a_namespace_that_goes_no_pod_is_tried_and_none_is_evicted_for_it() -> None:
    """The API server binds nothing there, and its pods would be tried as often as others go."""
    world = World(*NODES, nodeSelector={ZONE: "a"})
    asked = Asked(world)
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]
    leaving = raw_namespace(version=2)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.state.known.namespaces.apply("MODIFIED", leaving)
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    assert not answer["NodeNames"]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n1", "n2"}
    assert "is being deleted" in answer["FailedAndUnresolvableNodes"]["n1"]
    assert answer["FailedNodes"] == {}
    assert len(asked.refused) == 0


async def test_a_refusal_of_the_node_of_an_earlier_binding_is_no_last_word() -> None:
    world = World(*NODES, nodeSelector={ZONE: "a"})
    world.watch(raw_pod("one"))
    asked = Asked(world)
    world.state.cluster.assume(world.pod("one"), "n1")
    world.state.known.classes.apply("MODIFIED", raw_class(2, nodeSelector={ZONE: "b"}))
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    assert "an earlier binding to n1" in answer["Error"]
    world.state.cluster.forget("uid-one")
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n2"]


class NoDisk(ChainedExtenders):
    """Another extender that leaves no node, and something that happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__((), lambda _: None)
        self._meanwhile = meanwhile

    def __bool__(self) -> bool:
        return True

    async def filter(
        self, pod: Mapping[str, Any], names: list[str]
    ) -> tuple[list[str], dict[str, str]]:
        assert names == ["n1"]
        self._meanwhile()
        return [], {"n1": "no disk"}


async def test_a_node_refused_by_others_while_a_binding_to_it_is_open_is_no_last_word() -> None:
    world = World(*NODES, nodeSelector={})
    world.watch(raw_pod("one"))
    world.state.cluster.assume(world.pod("one"), "n1")
    answer = await Asked(world, NoDisk(lambda: None)).filter(raw_pod("one"), "n1", "n2")
    assert "open" in answer["Error"]


async def test_what_changes_while_others_are_asked_is_not_lost() -> None:
    world = World(*NODES, nodeSelector={ZONE: "a"})
    moved = raw_class(2, nodeSelector={ZONE: "b"})
    meanwhile = NoDisk(lambda: world.state.known.classes.apply("MODIFIED", moved))
    asked = Asked(world, meanwhile)
    answer = await asked.filter(raw_pod("one"), "n1", "n2")
    assert "became open" in answer["Error"]
    assert len(asked.refused) == 0


async def test_before_all_is_known_the_pod_is_to_be_tried_again() -> None:
    world = World(*NODES, nodeSelector={ZONE: "a"})
    world.state.known.nodes.synced = False
    answer = await Asked(world).filter(raw_pod("one"), "n1")
    assert "nodes" in answer["Error"]
    assert answer["NodeNames"] == []


async def test_the_next_one_is_judged_beside_a_pod_of_which_it_is_known_where_it_goes() -> None:
    asked = Asked(World(*NODES, **APART))
    assert (await asked.filter(raw_pod("one"), "n1"))["NodeNames"] == ["n1"]
    async with asyncio.timeout(0.1):
        assert (await asked.filter(raw_pod("two"), "n1", "n2"))["NodeNames"] == ["n2"]


async def test_where_that_leaves_nothing_it_counts_that_the_other_is_not_there_yet() -> None:
    """It may never come: what is promised to nobody must not refuse a pod for good."""
    asked = Asked(World(*NODES, **APART))
    await asked.filter(raw_pod("one"), "n1")
    assert (await asked.filter(raw_pod("two"), "n1"))["NodeNames"] == ["n1"]


async def test_the_next_one_waits_for_a_pod_that_could_shut_a_node() -> None:
    asked = Asked(World(*NODES, **APART))
    assert len((await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"]) == 2
    waiting = asyncio.create_task(asked.filter(raw_pod("two"), "n1", "n2"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    asked.world.state.cluster.assume(asked.in_flight.pod("uid-one") or _never(), "n1")
    asked.in_flight.settled("uid-one")
    assert (await waiting)["NodeNames"] == ["n2"]


async def test_it_does_not_wait_for_one_of_another_kind() -> None:
    asked = Asked(World(*NODES, **APART))
    await asked.filter(raw_pod("one", app="db"), "n1")
    async with asyncio.timeout(0.1):
        await asked.filter(raw_pod("two", app="cache"), "n1")


def _never() -> Any:
    raise AssertionError("the pod is remembered")


async def test_where_nothing_is_preferred_nothing_is_scored() -> None:
    assert await Asked(World(*NODES, **APART)).scores(raw_pod("one"), "n1", "n2") == {}


async def test_preferences_have_the_weight_that_kube_scheduler_gives_its_plugins() -> None:
    wish = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]},
    }
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
    asked = Asked(World(*NODES, nodeAffinity=affinity))
    # kube-scheduler multiplies by ten: 2 (NodeAffinity) x 100.
    assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 0, "n2": 20}


async def test_a_class_that_changes_counts_from_then_on() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]
    changed = raw_class(2, nodeSelector={ZONE: "b"})
    asked.world.state.known.classes.apply("MODIFIED", changed)
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n2"]


async def test_a_change_of_its_status_is_no_change() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    before = asked.world.state.cluster.version
    counted = {**raw_class(7, nodeSelector={ZONE: "a"}), "status": {"matchingNodes": 1}}
    counted["metadata"]["generation"] = 1
    asked.world.state.known.classes.apply("MODIFIED", counted)
    assert asked.world.state.cluster.version == before


async def test_victims_are_taken_only_where_the_class_lets_the_pod_in() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    assert await asked.preempt(raw_pod("one"), n1=["v1"], n2=["v2"]) == ["n1"]


async def test_a_node_is_open_if_the_victims_are_what_shuts_it() -> None:
    world = World(*NODES, **APART)
    world.watch(raw_pod("v1", "n1"))
    world.watch(raw_pod("v2", "n2"))
    asked = Asked(world)
    assert await asked.preempt(raw_pod("one"), n1=["uid-v1"], n2=["uid-x"]) == ["n1"]
    assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == []


async def test_a_node_without_victims_is_left_out() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    assert await asked.preempt(raw_pod("one"), n1=[]) == []


async def test_a_preemption_counts_as_one_only_where_a_node_is_named() -> None:
    preempting: list[Pod] = []
    world = World(*NODES, nodeSelector={ZONE: "a"})
    asked = Asked(world, on_preempt=preempting.append)
    assert await asked.preempt(raw_pod("one"), n2=["v2"]) == []
    assert await asked.preempt(raw_pod("one"), n1=[]) == []
    world.state.known.nodes.synced = False
    assert await asked.preempt(raw_pod("one"), n1=["v1"]) == []
    assert preempting == []
    world.state.known.nodes.synced = True
    assert await asked.preempt(raw_pod("one"), n1=["v1"], n2=["v2"]) == ["n1"]
    assert [pod.uid for pod in preempting] == ["uid-one"]


async def test_a_pod_that_no_api_server_has_is_refused_in_a_sentence() -> None:
    asked = Asked(World(*NODES, nodeSelector={ZONE: "a"}))
    with pytest.raises(MalformedRequestError, match="Pod: "):
        await asked.filter({"metadata": {"labels": []}}, "n1")


def promised(name: str, node: str, priority: int, version: int = 1) -> dict[str, Any]:
    raw = raw_pod(name, version=version)
    raw["status"] = {"nominatedNodeName": node}
    raw["spec"] = {"priority": priority}
    return raw


async def test_a_place_that_was_promised_is_left_to_whom_it_was_promised() -> None:
    world = World(*NODES, **APART)
    world.watch(promised("high", "n1", priority=10))
    asked = Asked(world)
    answer = await asked.filter(raw_pod("low"), "n1")
    assert "anti-affinity" in answer["FailedAndUnresolvableNodes"]["n1"]
    assert (await asked.filter(promised("high", "n1", priority=10), "n1"))["NodeNames"] == ["n1"]


async def test_but_not_against_a_pod_of_higher_priority() -> None:
    world = World(*NODES, **APART)
    world.watch(promised("high", "n1", priority=10))
    answer = await Asked(world).filter(promised("higher", "", priority=20), "n1")
    assert answer["NodeNames"] == ["n1"]


async def test_a_promise_that_is_taken_back_wakes_who_was_refused_for_it() -> None:
    world = World(*NODES, **APART)
    world.watch(promised("high", "n1", priority=10))
    asked = Asked(world)
    await asked.filter(raw_pod("low"), "n1")
    world.watch(promised("high", "", priority=10, version=2))
    for _ in asked.refused.look():
        pass
    assert asked.refused.due() == 0


ZONES = (raw_node("a1", "a"), raw_node("a2", "a"), raw_node("b1", "b"))


def with_volume(name: str, kind: str = "persistentVolumeClaim", **more: Any) -> dict[str, Any]:
    raw = raw_pod(name, **more)
    raw["spec"]["volumes"] = [{"name": "data", kind: {"claimName": name}}]
    return raw


@pytest.mark.parametrize("kind", ["persistentVolumeClaim", "ephemeral"])
async def test_a_pod_whose_volume_may_have_to_be_made_gets_one_domain_that_others_respect(
    kind: str,
) -> None:
    asked = Asked(World(*ZONES, **SPREAD))
    assert (await asked.filter(with_volume("one", kind), "b1", "a1", "a2"))["NodeNames"] == [
        "a1",
        "a2",
    ]
    # However long that takes; nobody has come to bind.
    assert (await asked.filter(raw_pod("two"), "a1", "a2", "b1"))["NodeNames"] == ["b1"]


async def test_without_a_rule_between_pods_no_node_is_taken_from_it() -> None:
    asked = Asked(World(*ZONES, nodeSelector={}))
    names = (await asked.filter(with_volume("one"), "b1", "a1", "a2"))["NodeNames"]
    assert names == ["b1", "a1", "a2"]


async def test_a_new_attempt_is_sent_to_another_domain() -> None:
    asked = Asked(World(*ZONES, **SPREAD))
    first = await asked.filter(with_volume("one"), "a1", "a2", "b1")
    second = await asked.filter(with_volume("one"), "a1", "a2", "b1")
    assert (first["NodeNames"], second["NodeNames"]) == (["a1", "a2"], ["b1"])


@pytest.mark.parametrize("end", ["gone", "unschedulable", "bound elsewhere"])
async def test_the_domain_is_open_again_once_the_attempt_is_over(end: str) -> None:
    asked = Asked(World(*ZONES, **APART))
    world = asked.world
    one, two = with_volume("one"), raw_pod("two", version=2)
    world.watch(one, "ADDED")
    await asked.filter(one, "a1")
    assert (await asked.filter(two, "a1"))["NodeNames"] == []
    if end == "gone":
        world.watch(with_volume("one", version=3), "DELETED")
    elif end == "unschedulable":
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        world.watch({**with_volume("one", version=3), "status": {"conditions": [tried]}})
    else:
        world.watch(with_volume("one", node="b1", version=3))
    for _ in asked.refused.look():
        pass
    assert asked.refused.due() == 0
    assert (await asked.filter(two, "a1"))["NodeNames"] == ["a1"]


def wakes(asked: Asked) -> bool:
    for _ in asked.refused.look():
        pass
    return asked.refused.due() is not None


async def test_those_who_still_wait_are_asked_about_and_not_the_first_who_is_bound_by_now() -> None:
    asked = Asked(World(*NODES, **APART))
    world = asked.world
    world.watch(raw_pod("x", "n1"))
    raws = {name: raw_pod(name) for name in ("first", "second", "third")}
    for raw in raws.values():
        world.watch(raw, "ADDED")
        assert (await asked.filter(raw, "n1"))["NodeNames"] == []
    world.watch(raw_pod("x", "n1", version=2), "DELETED")
    assert wakes(asked)
    assert (await asked.filter(raws["first"], "n1"))["NodeNames"] == ["n1"]
    asked.in_flight.settled("uid-first")
    world.watch(raw_pod("first", "n1", version=2))
    assert not wakes(asked)
    world.watch(raw_pod("first", "n1", version=3), "DELETED")
    assert wakes(asked)


async def test_a_node_is_open_to_them_that_the_first_who_is_bound_would_be_refused() -> None:
    asked = Asked(World(*NODES, **SPREAD))
    world = asked.world
    world.watch(raw_pod("x", "n2"))
    raws = {name: raw_pod(name) for name in ("first", "second")}
    for raw in raws.values():
        world.watch(raw, "ADDED")
        assert (await asked.filter(raw, "n2"))["NodeNames"] == []
    assert (await asked.filter(raws["first"], "n1"))["NodeNames"] == ["n1"]
    asked.in_flight.settled("uid-first")
    world.watch(raw_pod("first", "n1", version=2))
    world.watch(raw_pod("y", "n2"))
    assert not wakes(asked)
    world.watch(raw_pod("x", "n2", version=2), "DELETED")
    assert wakes(asked)  # one in each zone; without the first it would be none and one


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
async def test_pods_of_another_priority_are_asked_about_by_themselves(
    order: tuple[str, str],
) -> None:
    """A promise to a pod between the two shuts the node for one of them only."""
    priorities = {"low": 0, "high": 20}
    asked = Asked(World(*NODES, **APART))
    world = asked.world
    world.watch(raw_pod("x", "n1"))
    world.watch(promised("middle", "n1", priority=10))
    for name in order:
        raw = promised(name, "", priority=priorities[name])
        world.watch(raw, "ADDED")
        assert (await asked.filter(raw, "n1"))["NodeNames"] == []
    world.watch(raw_pod("x", "n1", version=2), "DELETED")
    assert wakes(asked)  # the high one
    asked.refused.tried("uid-high")
    assert not wakes(asked)
    world.watch(promised("middle", "", priority=10, version=2))
    assert wakes(asked)


@pytest.mark.parametrize("order", [("holder", "other"), ("other", "holder")])
async def test_a_pod_with_a_promise_is_asked_about_by_itself(order: tuple[str, str]) -> None:
    """Its own promise shuts the node for all others of its kind, and not for itself."""
    asked = Asked(World(*NODES, **APART))
    world = asked.world
    world.watch(raw_pod("victim", "n1"))
    raws = {
        "holder": promised("holder", "n1", priority=10),
        "other": promised("other", "", priority=10),
    }
    for raw in raws.values():
        world.watch(raw, "ADDED")
    for name in order:
        assert (await asked.filter(raws[name], "n1"))["NodeNames"] == []
    world.watch(raw_pod("victim", "n1", version=2), "DELETED")
    assert wakes(asked)
    asked.refused.tried("uid-holder")
    assert not wakes(asked)
