"""The lines of the log say what was answered, rule by rule, and change no answer."""

import logging
from typing import Any

import orjson
import pytest

from schedclass.observability.logs import JsonFormatter
from schedclass.scheduler import decisionlog
from schedclass.scheduler.decisionlog import DecisionLog
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.service import verbs
from tests.unit.scheduler.test_service import Asked
from tests.unit.scheduler.world import APART, SPREAD, ZONE, World, ask, raw_node, raw_pod

NODES = (raw_node("n1", "a"), raw_node("n2", "b"), raw_node("n3", "b"))
NAMES = ("n1", "n2", "n3")


class Logged:
    """An extender whose answers are logged, and the lines as they are written."""

    def __init__(
        self, caplog: pytest.LogCaptureFixture, world: World, chosen: str | None = None
    ) -> None:
        caplog.set_level(logging.INFO, "schedclass")
        self._caplog = caplog
        self._plain = verbs(Asked(world, chosen=chosen).extender)
        judge = Judge(world.state, world.decisions)
        self.verbs = DecisionLog(world.state, world.decisions, judge).wrap(self._plain)

    async def line(self, verb: str, body: bytes) -> Any:
        """Asks with and without the log, and returns the one line that it wrote."""
        answer = await self.verbs[verb](body)
        assert answer == await self._plain[verb](body)
        (record,) = self._caplog.records
        self._caplog.clear()
        return orjson.loads(JsonFormatter().format(record))


async def test_a_refused_pod_has_every_rule_against_every_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(*NODES, nodeSelector={ZONE: "a"}, **APART)
    world.watch(raw_pod("there", "n1"))
    world.watch(raw_pod("too", "n2"))
    line = await Logged(caplog, world).line("filter", ask(raw_pod("one"), *NAMES))
    assert (line["decision"], line["class"], line["passed"]) == ("filter", "dc", [])
    assert line["k8s"] == {"kind": "Pod", "namespace": "team", "name": "one", "uid": "uid-one"}
    rules = {told["node"]: [rule["reason"] for rule in told["rules"]] for told in line["refused"]}
    assert rules == {
        "n1": ["PodAntiAffinity"],
        "n2": ["NodeNotAllowed", "PodAntiAffinity"],
        "n3": ["NodeNotAllowed"],
    }


async def test_reasons_are_told_where_the_answer_leaves_them_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(*NODES, nodeSelector={ZONE: "a"})
    line = await Logged(caplog, world).line("filter", ask(raw_pod("one"), *NAMES))
    assert line["passed"] == ["n1"]
    assert [told["node"] for told in line["refused"]] == ["n2", "n3"]
    assert {rule["message"] for told in line["refused"] for rule in told["rules"]} == {
        'node(s) didn\'t match SchedulingClass "dc" node selector'
    }


async def test_scores_are_those_answered_with_the_rules_they_come_from(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (constraint,) = SPREAD["topologySpreadConstraints"]
    soft = {**constraint, "whenUnsatisfiable": "ScheduleAnyway"}
    world = World(*NODES, topologySpreadConstraints=[soft])
    world.watch(raw_pod("there", "n1"))
    line = await Logged(caplog, world).line("prioritize", ask(raw_pod("one"), *NAMES))
    assert line["scores"] == [
        {"node": "n1", "score": 0, "rules": {"PodTopologySpread": 0}},
        {"node": "n2", "score": 20, "rules": {"PodTopologySpread": 100}},
        {"node": "n3", "score": 20, "rules": {"PodTopologySpread": 100}},
    ]


async def test_nodes_that_fit_and_were_not_chosen_are_told_apart_from_the_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(*NODES, nodeSelector={ZONE: "b"})
    line = await Logged(caplog, world, chosen="n3").line("filter", ask(raw_pod("one"), *NAMES))
    assert (line["passed"], line["leftOut"], line["omitted"]) == (["n3"], ["n2"], 0)
    assert [told["node"] for told in line["refused"]] == ["n1"]


async def test_no_line_grows_with_the_cluster(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisionlog, "MAX_NODES", 1)
    world = World(*NODES, nodeSelector={ZONE: "b"})
    line = await Logged(caplog, world).line("filter", ask(raw_pod("one"), *NAMES))
    assert (line["passed"], len(line["refused"]), line["omitted"]) == (["n2"], 1, 1)


async def test_what_cannot_be_told_is_answered_all_the_same(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(*NODES, nodeSelector={ZONE: "b"})
    logged = Logged(caplog, world)
    monkeypatch.setattr(world.decisions, "explain", None)
    answer = orjson.loads(await logged.verbs["filter"](ask(raw_pod("one"), *NAMES)))
    assert answer["NodeNames"] == ["n2", "n3"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_nothing_of_a_pod_but_its_name_is_written(caplog: pytest.LogCaptureFixture) -> None:
    world = World(*NODES, nodeSelector={ZONE: "b"})
    secret = raw_pod("one", token="hidden")
    secret["spec"]["containers"] = [{"name": "c", "env": [{"name": "A", "value": "hidden"}]}]
    logged = Logged(caplog, world)
    for verb in ("filter", "prioritize"):
        assert "hidden" not in orjson.dumps(await logged.line(verb, ask(secret, *NAMES))).decode()
