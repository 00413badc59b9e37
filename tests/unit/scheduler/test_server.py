"""HTTP of the extender: every request gets one clear answer, and the process lives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from schedclass.scheduler import server as module
from schedclass.scheduler.protocol import MalformedRequestError
from schedclass.scheduler.server import ExtenderServer


async def echo(body: bytes) -> bytes:
    return body or b"{}"


async def malformed(_: bytes) -> bytes:
    raise MalformedRequestError("Pod: must be a pod")


async def broken(_: bytes) -> bytes:
    raise RuntimeError("a secret detail")


class Served:
    def __init__(self, server: ExtenderServer, session: aiohttp.ClientSession) -> None:
        self.server, self._session = server, session
        self.errors: list[str] = []

    async def send(
        self, verb: str, body: bytes = b"{}", method: str = "POST"
    ) -> tuple[int, str, str | None]:
        url = f"http://127.0.0.1:{self.server.port}/{verb}"
        async with self._session.request(method, url, data=body) as answer:
            return answer.status, await answer.text(), answer.headers.get("Content-Length")


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    errors: list[str] = []
    verbs = {"filter": echo, "bind": broken, "preempt": malformed}
    server = ExtenderServer(verbs, host="127.0.0.1", port=0, count_error=errors.append)
    async with server, aiohttp.ClientSession() as session:
        served = Served(server, session)
        served.errors = errors
        yield served


async def test_an_answer_has_its_length_so_that_the_connection_lives_on() -> None:
    async with serving() as s:
        assert await s.send("filter", b'{"a":1}') == (200, '{"a":1}', "7")


async def test_a_malformed_request_is_400_with_the_sentence() -> None:
    async with serving() as s:
        assert (await s.send("preempt"))[:2] == (400, "Pod: must be a pod\n")
        assert s.errors == ["preempt"]


async def test_a_fault_of_ours_is_500_tells_nothing_inside_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as s:
        status, text, _ = await s.send("bind")
        assert status == 500
        assert "secret" not in text
        assert "bind failed" in caplog.text
        assert (await s.send("filter"))[0] == 200


async def test_an_unknown_verb_and_another_method_are_named() -> None:
    async with serving() as s:
        status, text, _ = await s.send("score")
        assert (status, "use one of filter" in text) == (404, True)
        assert (await s.send("filter", method="GET"))[0] == 405
        assert (await s.send("", method="GET"))[0] == 404


async def test_a_body_that_is_too_long_is_413(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 1000)
    async with serving() as s:
        status, text, _ = await s.send("filter", b"x" * 2000)
        assert (status, "longer than 1000 bytes" in text) == (413, True)
        assert (await s.send("filter"))[0] == 200


async def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.05)
    async with serving() as s:
        reader, writer = await asyncio.open_connection("127.0.0.1", s.server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert (await s.send("filter"))[0] == 200


async def test_one_that_waits_holds_up_none() -> None:
    go = asyncio.Event()

    async def slow(_: bytes) -> bytes:
        await go.wait()
        return b"{}"

    server = ExtenderServer({"filter": slow, "bind": echo}, host="127.0.0.1", port=0)
    async with server, aiohttp.ClientSession() as session:
        served = Served(server, session)
        waiting = asyncio.create_task(served.send("filter"))
        await asyncio.sleep(0)
        assert (await served.send("bind"))[0] == 200
        go.set()
        assert (await waiting)[0] == 200
