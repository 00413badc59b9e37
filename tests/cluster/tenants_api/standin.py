"""A stand-in for the aggregated API of Tenants, which fails as it is told to."""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from schedclass.domain import names
from schedclass.tls.authority import new_authority, new_certificate
from tests.cluster.handshakes import collect_handshakes

Json = dict[str, Any]
Fault = Callable[["StandIn", web.Request], Awaitable[web.StreamResponse | None]]
"""Answers a request in place of the server, or None for an ordinary answer."""

BASE = f"/apis/{names.TENANT_API_VERSION}"


class StandIn:
    """Serves Tenants while it is entered.

    Attributes:
        fault: asked first about each LIST and watch; None for a server without faults.
        requests: how many LISTs and watches were asked for.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.fault: Fault | None = None
        self.requests = 0
        self._port = port
        self._folder = folder
        self._tenants: dict[str, Json] = {}
        self._version = 1
        self._watchers: set[asyncio.Queue[Json]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tenants-api")
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(20)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.take_down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def take_down(self) -> None:
        """Closes the port and every connection."""
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(20)
        collect_handshakes()

    def bring_up(self) -> None:
        """Serves again."""
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(20)

    def put(self, namespace: str, name: str, wants: Any) -> None:
        """Creates or replaces a Tenant, and tells the watchers."""
        asyncio.run_coroutine_threadsafe(self._put(namespace, name, wants), self._loop).result(5)

    async def _put(self, namespace: str, name: str, wants: Any) -> None:
        key = f"{namespace}/{name}"
        kind = "MODIFIED" if key in self._tenants else "ADDED"
        self._version += 1
        metadata = {"namespace": namespace, "name": name, "resourceVersion": str(self._version)}
        self._tenants[key] = {
            **{"apiVersion": names.TENANT_API_VERSION, "kind": "Tenant", "metadata": metadata},
            "spec": {"schedulingClass": wants},
        }
        for watcher in self._watchers:
            watcher.put_nowait({"type": kind, "object": self._tenants[key]})

    # --- HTTP ---------------------------------------------------------------------------------

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get(BASE, self._discovery)
        app.router.add_get(f"{BASE}/tenants", self._tenants_of_all_namespaces)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls()).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for connection in tuple(runner.server.connections if runner.server else ()):
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Sockets are closed some turns of the loop after their transports.
        for _ in range(10):
            await asyncio.sleep(0)

    def _tls(self) -> ssl.SSLContext:
        now = datetime.now(UTC)
        ca = new_authority(common_name="tenants", now=now, lifetime=timedelta(days=2))
        pair = new_certificate(ca, hosts=["localhost"], now=now, lifetime=timedelta(days=1))
        self._folder.mkdir(exist_ok=True)
        pem = self._folder / "pair.pem"
        pem.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context

    async def _discovery(self, _: web.Request) -> web.Response:
        resource = {
            **{"name": "tenants", "singularName": "tenant", "namespaced": True, "kind": "Tenant"},
            "verbs": ["list", "watch", "get"],
        }
        return web.json_response(
            {
                **{"kind": "APIResourceList", "apiVersion": "v1"},
                **{"groupVersion": names.TENANT_API_VERSION, "resources": [resource]},
            }
        )

    async def _tenants_of_all_namespaces(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.fault is not None and (answer := await self.fault(self, request)) is not None:
            return answer
        return await (self._watch(request) if is_watch(request) else self._list())

    async def _list(self) -> web.Response:
        return self.listing(list(self._tenants.values()))

    def listing(self, items: list[Any]) -> web.Response:
        """A complete LIST of these items."""
        metadata = {"resourceVersion": str(self._version)}
        head = {"apiVersion": names.TENANT_API_VERSION, "kind": "TenantList", "metadata": metadata}
        return web.json_response({**head, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        events: asyncio.Queue[Json] = asyncio.Queue()
        for item in self._tenants.values():
            if int(item["metadata"]["resourceVersion"]) > int(request.query["resourceVersion"]):
                events.put_nowait({"type": "MODIFIED", "object": item})
        self._watchers.add(events)
        try:
            await response.prepare(request)
            while True:
                event = await events.get()
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.discard(events)


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def status(code: int, reason: str, message: str) -> web.Response:
    body = {
        **{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"},
        **{"code": code, "reason": reason, "message": message},
    }
    return web.json_response(body, status=code)


# --- faults ---------------------------------------------------------------------------------------


async def unavailable(_: StandIn, __: web.Request) -> web.StreamResponse:
    return status(503, "ServiceUnavailable", "not now")


async def internal_error(_: StandIn, __: web.Request) -> web.StreamResponse:
    return status(500, "InternalError", "a panic")


async def not_found(_: StandIn, __: web.Request) -> web.StreamResponse:
    return status(404, "NotFound", "the server could not find the requested resource")


async def forbidden(_: StandIn, __: web.Request) -> web.StreamResponse:
    return status(403, "Forbidden", "its own authorization says no")


async def slow_list(_: StandIn, request: web.Request) -> web.StreamResponse | None:
    if not is_watch(request):
        await asyncio.sleep(4)
    return None


async def watch_ends_at_once(_: StandIn, request: web.Request) -> web.StreamResponse | None:
    return web.Response(content_type="application/json") if is_watch(request) else None


async def no_watch(_: StandIn, request: web.Request) -> web.StreamResponse | None:
    if is_watch(request):
        return status(405, "MethodNotAllowed", "the server does not allow this method")
    return None


async def always_gone(_: StandIn, request: web.Request) -> web.StreamResponse | None:
    return status(410, "Expired", "too old resource version") if is_watch(request) else None


async def gone_within(_: StandIn, request: web.Request) -> web.StreamResponse | None:
    if not is_watch(request):
        return None
    body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    event = json.dumps({"type": "ERROR", "object": body}).encode() + b"\n"
    return web.Response(body=event, content_type="application/json")


async def malformed_items(server: StandIn, request: web.Request) -> web.StreamResponse | None:
    if is_watch(request):
        return None
    named = {"namespace": "x", "name": "y"}
    specs: list[Any] = [None, [], "x", {"schedulingClass": 5}]
    odd: list[Any] = [
        *(None, 7, "text", [], {}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": 1}}),
        *({"metadata": named, "spec": spec} for spec in specs),
        {"metadata": named, "spec": {"schedulingClass": "a b"}, "status": {"namespace": ["x"]}},
    ]
    return server.listing([*odd, *server._tenants.values(), *odd])


async def no_json(_: StandIn, __: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>gateway</html>", content_type="text/html")


async def empty_list(server: StandIn, request: web.Request) -> web.StreamResponse | None:
    """As from an API whose own storage is not there yet."""
    return None if is_watch(request) else server.listing([])
