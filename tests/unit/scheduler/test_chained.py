"""Further extenders: what they are sent, and what becomes of each answer they can give."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from schedclass.scheduler import chained as module
from schedclass.scheduler.chained import ChainedExtenders
from schedclass.settings import ExtraExtender
from tests.unit.scheduler.test_service import Asked
from tests.unit.scheduler.world import ZONE, World, raw_node, raw_pod

NODES = {name: raw_node(name, zone) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))}
PASS_N1 = {"nodes": {"items": [{"metadata": {"name": "n1"}}]}, "failedNodes": {"n2": "no volume"}}


class Linstor:
    """An extender that wants whole nodes."""

    def __init__(self) -> None:
        self.filter: Any = PASS_N1
        self.scores: Any = [{"host": "n1", "score": 3}]
        self.status = 200
        self.hang = False
        self.pieces = 1
        self.ends_early = False
        self.sent: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.sent.append(orjson.loads(await request.read()))
        if self.hang:
            await asyncio.sleep(60)
        answer = self.filter if request.path == "/filter" else self.scores
        body = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        if self.pieces > 1 or self.ends_early:
            return await self._in_pieces(request, body)
        return web.Response(body=body, status=self.status, content_type="application/json")

    async def _in_pieces(self, request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        size = len(body) // self.pieces + 1
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
            await asyncio.sleep(0.01)
            if self.ends_early and request.transport is not None:
                request.transport.close()
                break
        return response


@asynccontextmanager
async def chained(**options: Any) -> AsyncIterator[tuple[Asked, Linstor]]:
    linstor = Linstor()
    app = web.Application()
    app.router.add_post("/{verb}", linstor.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = {
        "urlPrefix": f"http://127.0.0.1:{runner.addresses[0][1]}/",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "httpTimeout": "300ms",
        **options,
    }
    world = World(*NODES.values(), nodeSelector={ZONE: "a"})
    extenders = ChainedExtenders([ExtraExtender(**settings)], NODES.get)
    try:
        async with extenders:
            yield Asked(world, extenders), linstor
    finally:
        await runner.cleanup()


async def test_it_gets_the_whole_nodes_that_the_class_leaves() -> None:
    async with chained() as (asked, linstor):
        await asked.filter(raw_pod("one"), "n1", "n2", "n3")
        (sent,) = linstor.sent
        assert sent["Nodes"]["items"] == [NODES["n1"], NODES["n2"]]
        assert sent["NodeNames"] is None
        assert sent["Pod"]["metadata"]["name"] == "one"


async def test_both_verdicts_hold() -> None:
    async with chained() as (asked, _):
        assert (await asked.filter(raw_pod("one"), "n1", "n2", "n3"))["NodeNames"] == ["n1"]


async def test_if_none_is_left_both_kinds_of_reasons_are_told() -> None:
    async with chained() as (asked, linstor):
        linstor.filter = {"Nodes": {"items": []}, "FailedNodes": {"n1": "no volume"}}
        answer = await asked.filter(raw_pod("one"), "n1", "n3")
        assert answer["FailedAndUnresolvableNodes"] == {
            "n1": "no volume",
            "n3": 'node(s) didn\'t match SchedulingClass "dc" node selector',
        }


async def test_it_may_go_by_names() -> None:
    async with chained(nodeCacheCapable=True) as (asked, linstor):
        linstor.filter = {"NodeNames": ["n2"], "FailedNodes": None}
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n2"]
        assert linstor.sent[0]["NodeNames"] == ["n1", "n2"]


async def test_those_that_hang_have_one_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a few of them would hold kube-scheduler up until it gives up."""
    monkeypatch.setattr(module, "TOGETHER_SECONDS", 0.2)
    async with chained(ignorable=True, httpTimeout="6s") as (asked, linstor):
        linstor.hang = True
        async with asyncio.timeout(6):
            assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1", "n2"]
            await asked.scores(raw_pod("one"), "n1", "n2")
        assert len(linstor.sent) == 2


async def test_its_scores_are_added_with_its_weight() -> None:
    async with chained() as (asked, _):
        assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 15, "n2": 0}


async def test_a_name_it_makes_up_is_no_node() -> None:
    async with chained(nodeCacheCapable=True) as (asked, linstor):
        linstor.filter = {"NodeNames": ["n1", "n3", "made-up"]}
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]


@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_large_answer_is_read_to_its_end(pieces: int) -> None:
    async with chained(httpTimeout="5s") as (asked, linstor):
        padding = {"metadata": {"name": "made-up", "annotations": {"pad": "x" * (2 << 20)}}}
        linstor.filter = {"Nodes": {"items": [padding, NODES["n1"]]}, "FailedNodes": {}}
        linstor.pieces = pieces
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]


@pytest.mark.parametrize("capable", [True, False], ids=["names", "nodes"])
async def test_an_answer_in_pieces_is_read_to_its_end(capable: bool) -> None:
    async with chained(nodeCacheCapable=capable) as (asked, linstor):
        linstor.filter = {"NodeNames": ["n1"]} if capable else PASS_N1
        linstor.pieces = 2
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]
        assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 15, "n2": 0}


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("ignorable", [True, False])
async def test_an_answer_beyond_all_bounds_is_none(
    pieces: int, ignorable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(orjson.dumps(PASS_N1))
    async with chained(ignorable=ignorable) as (asked, linstor):
        linstor.pieces = pieces
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", size)
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", size - 1)
        answer = await asked.filter(raw_pod("one"), "n1", "n2")
        assert answer["NodeNames"] == (["n1", "n2"] if ignorable else [])
        if not ignorable:
            assert answer["Error"].endswith(f"/filter answered with more than {size - 1} bytes")


FAULTS = [
    {"status": 500},
    {"filter": b"{"},
    {"filter": []},
    {"filter": {"Nodes": {"items": [{}]}}},
    {"filter": {"Error": "out of order"}},
    {"hang": True},
    {"pieces": 2, "ends_early": True},
]


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_its_answer_the_pod_is_tried_again(fault: dict[str, Any]) -> None:
    async with chained() as (asked, linstor):
        vars(linstor).update(fault)
        answer = await asked.filter(raw_pod("one"), "n1", "n2")
        assert answer["Error"].startswith("extender http://127.0.0.1")
        assert answer["NodeNames"] == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_ignorable_one_is_ignored_then(fault: dict[str, Any]) -> None:
    async with chained(ignorable=True) as (asked, linstor):
        vars(linstor).update(fault)
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1", "n2"]


WRONG = [
    (False, b"null", "not a JSON object"),
    (False, b'"n1"', "not a JSON object"),
    (False, {"Error": 5}, "error: must be a string"),
    (False, {"Error": {"reason": "x"}}, "error: must be a string"),
    (False, {"Nodes": [{"metadata": {"name": "n1"}}]}, "nodes: must be an object"),
    (False, {"Nodes": "n1"}, "nodes: must be an object"),
    (False, {"Nodes": {"items": {"n1": {}}}}, "nodes.items: must be a list"),
    (False, {"Nodes": {"items": ["n1"]}}, "nodes.items: must be an object"),
    (False, {"Nodes": {"items": [None]}}, "a node has no name"),
    (False, {"Nodes": {"items": [{"metadata": "n1"}]}}, "metadata: must be an object"),
    (False, {"Nodes": {"items": [{"metadata": {"name": ""}}]}}, "a node has no name"),
    (False, {"Nodes": {"items": [{"metadata": {"name": 1}}]}}, "name: must be a string"),
    (True, {"NodeNames": {"n1": True}}, "nodeNames: must be a list"),
    (True, {"NodeNames": "n1"}, "nodeNames: must be a list"),
    (True, {"NodeNames": ["n1", 2]}, "nodeNames: must be a string"),
    (True, {"NodeNames": ["n1"], "FailedNodes": ["n2"]}, "failedNodes: must be an object"),
    (True, {"NodeNames": ["n1"], "FailedNodes": "n2"}, "failedNodes: must be an object"),
    (True, {"NodeNames": ["n1"], "FailedNodes": {"n2": ["full"]}}, "failedNodes.n2: must be a"),
    (
        True,
        {"NodeNames": ["n1"], "FailedAndUnresolvableNodes": ["n2"]},
        "failedAndUnresolvableNodes: must be an object",
    ),
]


@pytest.mark.parametrize(("capable", "wrong", "why"), WRONG)
@pytest.mark.parametrize("ignorable", [True, False])
async def test_an_answer_of_the_wrong_shape_is_none(
    capable: bool, wrong: Any, why: str, ignorable: bool
) -> None:
    async with chained(nodeCacheCapable=capable, ignorable=ignorable) as (asked, linstor):
        linstor.filter = wrong
        answer = await asked.filter(raw_pod("one"), "n1", "n2")
        assert answer["NodeNames"] == (["n1", "n2"] if ignorable else [])
        if not ignorable:
            assert answer["Error"].startswith("extender http://127.0.0.1")
            assert why in answer["Error"]


@pytest.mark.parametrize("capable", [True, False], ids=["names", "nodes"])
async def test_null_reads_as_empty(capable: bool) -> None:
    async with chained(nodeCacheCapable=capable) as (asked, linstor):
        fields = ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error")
        linstor.filter = dict.fromkeys(fields)
        answer = await asked.filter(raw_pod("one"), "n1", "n2")
        assert (answer["NodeNames"], answer["Error"]) == ([], "")


@pytest.mark.parametrize(
    "wrong",
    [
        b"{",
        [1],
        {"n1": 3},
        "n1",
        [{"host": "n1", "score": 3}, {"host": 2, "score": 3}],
        [{"host": "n1", "score": "3"}],
        [{"host": "n1", "score": 2.5}],
        [{"host": "n1", "score": True}],
        [{"host": "n1", "score": 2**63}],
    ],
)
async def test_scores_that_do_not_come_count_nothing(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with chained() as (asked, linstor):
        linstor.scores = wrong
        assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 0, "n2": 0}
        assert "extender http://127.0.0.1" in caplog.text
