"""A scripted API server, for faults only: whatever works is tried on the real one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from kubernetes.aio.client import Configuration

from schedclass.kube.client import KubeClient

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


class StubApi:
    """Answers each method and path from a script; the last answer of a script repeats."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.url = ""
        self._scripts: dict[tuple[str, str], list[Answer]] = {}
        self._arrived = asyncio.Condition()

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """Set what comes next."""
        self._scripts[method, path] = list(answers)

    def received(self, method: str, path: str) -> list[Received]:
        return [one for one in self.requests if (one.method, one.path) == (method, path)]

    async def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Return once the predicate holds; it is asked at each request."""
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(predicate)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        watch = "WATCH" if request.query.get("watch") == "true" else request.method
        self.requests.append(
            Received(
                watch,
                request.path,
                dict(request.query),
                dict(request.headers),
                orjson.loads(body) if body else None,
            )
        )
        async with self._arrived:
            self._arrived.notify_all()
        script = self._scripts.get((watch, request.path))
        if not script:
            return await failure(404, "", "404 page not found")(request)
        return await (script.pop(0) if len(script) > 1 else script[0])(request)


@asynccontextmanager
async def stub_api() -> AsyncIterator[StubApi]:
    stub = StubApi()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        stub.url = site.name.rstrip("/")
        host, port = runner.addresses[0][:2]
        stub.url = f"http://{host}:{port}"
        yield stub
    finally:
        await runner.cleanup()


@asynccontextmanager
async def stub_client(stub: StubApi, *, role: str = "test") -> AsyncIterator[KubeClient]:
    async def source(configuration: Configuration) -> None:
        configuration.host = stub.url
        configuration.api_key["BearerToken"] = "Bearer t0k3n"

    async with await KubeClient.load(role=role, source=source) as client:
        yield client


def json_answer(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(
            body=orjson.dumps(body),
            status=status,
            content_type="application/json",
            headers=dict(headers or {}),
        )

    return answer


def text_answer(text: str, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


def page(items: list[Json], version: str, more: str = "") -> Answer:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return json_answer({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})


def status_object(code: int, reason: str, message: str, **details: Any) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def failure(
    code: int, reason: str, message: str, *, retry_after: int | None = None, **details: Any
) -> Answer:
    if not reason:
        return text_answer(message, code)
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return json_answer(status_object(code, reason, message, **details), code, headers)


def after(event: asyncio.Event, answer: Answer) -> Answer:
    """The same answer, as late as the event."""

    async def late(request: web.Request) -> web.StreamResponse:
        await event.wait()
        return await answer(request)

    return late


def obj(name: str, version: int, **labels: str) -> Json:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
        }
    }


class Stream:
    """One watch, played by the test."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._broken = False

    def send(self, kind: str, body: Json) -> None:
        self.raw(orjson.dumps({"type": kind, "object": body}) + b"\n")

    def bookmark(self, version: int) -> None:
        self.send("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})

    def raw(self, data: bytes) -> None:
        self._parts.put_nowait(data)

    def end(self) -> None:
        """As the server does after timeoutSeconds."""
        self._parts.put_nowait(None)

    def cut(self) -> None:
        """Lose the connection."""
        self._broken = True
        self._parts.put_nowait(None)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.opened.set()
        while (part := await self._parts.get()) is not None:
            await response.write(part)
        if self._broken and request.transport is not None:
            request.transport.abort()
        return response


async def eventually(predicate: Callable[[], bool], what: str = "") -> None:
    """Return once the predicate holds, which must be soon."""
    try:
        async with asyncio.timeout(10):
            while not predicate():  # noqa: ASYNC110 - any state of the code under test
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"did not come true in time: {what or predicate}") from None
