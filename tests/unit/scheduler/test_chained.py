"""Further extenders: what they are sent, and what becomes of each answer they can give."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

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
        self.sent: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.sent.append(orjson.loads(await request.read()))
        if self.hang:
            await asyncio.sleep(60)
        answer = self.filter if request.path == "/filter" else self.scores
        body = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        return web.Response(body=body, status=self.status, content_type="application/json")


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


async def test_its_scores_are_added_with_its_weight() -> None:
    async with chained() as (asked, _):
        assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 15, "n2": 0}


async def test_a_name_it_makes_up_is_no_node() -> None:
    async with chained(nodeCacheCapable=True) as (asked, linstor):
        linstor.filter = {"NodeNames": ["n1", "n3", "made-up"]}
        assert (await asked.filter(raw_pod("one"), "n1", "n2"))["NodeNames"] == ["n1"]


FAULTS = [
    {"status": 500},
    {"filter": b"{"},
    {"filter": []},
    {"filter": {"Nodes": {"items": [{}]}}},
    {"filter": {"Error": "out of order"}},
    {"hang": True},
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


async def test_scores_that_do_not_come_count_nothing() -> None:
    async with chained() as (asked, linstor):
        linstor.scores = [1]
        assert await asked.scores(raw_pod("one"), "n1", "n2") == {"n1": 0, "n2": 0}
