"""Between the extenders and the API server: lets everything through but some bindings."""

import asyncio
import threading
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from controlplane import Installation
from controlplane.installation import NAMESPACE, RELEASE
from controlplane.processes import Command

HANG_SECONDS: Final = 6.0
"""Longer than the extender waits for the answer to a binding."""


class FaultyApi:
    """While entered, every extender talks through it.

    Of each eight bindings one is refused with 409, one with 500, one is done and answered with 500,
    and one in 24 is done late, long after the extender has stopped to wait.

    Attributes:
        faults: how many bindings it has spoilt.
    """

    def __init__(self, operator: Installation) -> None:
        self.faults = 0
        self._operator = operator
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._late: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        port = self._wait(self._start())
        for name in self._operator.extenders:
            self._restart(name, {"KUBECONFIG": self._kubeconfig(port)})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._operator.extenders:
            self._restart(name, {})
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _kubeconfig(self, port: int) -> str:
        """The extender's own, with another address."""
        identities, cluster = self._operator.cluster.identities, self._operator.cluster
        account = f"{RELEASE}-scheduler"
        own = identities.service_account_kubeconfig(NAMESPACE, account)
        other = own.with_name(f"{own.name}.faulty")
        other.write_text(own.read_text().replace(cluster.url, f"http://127.0.0.1:{port}"))
        return str(other)

    def _restart(self, name: str, env: dict[str, str]) -> None:
        command = self._operator.command(name)
        cluster = self._operator.cluster
        cluster.start_process(name, Command(command.argv, {**command.env, **env}, command.unset))
        self._operator.wait_replica_ready(name)

    async def _start(self) -> int:
        cluster = self._operator.cluster
        token = cluster.identities.service_account_token(NAMESPACE, f"{RELEASE}-scheduler")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(
            cluster.url,
            connector=aiohttp.TCPConnector(ssl=cluster.identities.tls(), limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    async def _stop(self) -> None:
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method == "POST" and request.path.endswith("/binding"):
            return await self._binding(request, body)
        return await self._pass_on(request, body)

    async def _binding(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self._count += 1
        turn = self._count % 8
        self.faults += turn in {1, 3, 5}
        if turn == 1:
            return _failure(409, "Conflict")
        if turn == 3:
            return _failure(500, "InternalError")
        if turn == 5 and self._count % 24 == 5:
            task = asyncio.ensure_future(self._later(request, body))
            self._late.add(task)
            await asyncio.sleep(HANG_SECONDS)
            return _failure(504, "Timeout")
        if turn == 5:
            await self._pass_on(request, body, answer=False)
            return _failure(500, "InternalError")
        return await self._pass_on(request, body)

    async def _later(self, request: web.Request, body: bytes) -> None:
        await asyncio.sleep(HANG_SECONDS)
        async with self._session.request(
            request.method, request.rel_url, data=body, headers=self._plain(request)
        ) as answer:
            await answer.read()

    def _plain(self, request: web.Request) -> dict[str, str]:
        kept = {k: v for k, v in request.headers.items() if k in {"Content-Type", "Accept"}}
        return {**kept, **self._headers}

    async def _pass_on(
        self, request: web.Request, body: bytes, *, answer: bool = True
    ) -> web.StreamResponse:
        async with self._session.request(
            request.method, request.rel_url, data=body or None, headers=self._plain(request)
        ) as upstream:
            kind = upstream.headers.get("Content-Type", "application/json")
            if request.query.get("watch") != "true" or not answer:
                return web.Response(
                    body=await upstream.read(),
                    status=upstream.status,
                    headers={"Content-Type": kind},
                )
            response = web.StreamResponse(status=upstream.status, headers={"Content-Type": kind})
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            return response


def _failure(status: int, reason: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": "!"}
    return web.json_response(body, status=status)
