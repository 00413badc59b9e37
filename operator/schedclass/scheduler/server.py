"""HTTP for the extender, on loopback only: kube-scheduler runs in the same pod."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Self

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from schedclass.listening import listen
from schedclass.scheduler.protocol import MAX_BODY_BYTES, MalformedRequestError

logger = logging.getLogger(__name__)

Verb = Callable[[bytes], Awaitable[bytes]]
"""Body of a request to body of its answer."""

READ_SECONDS: Final = 10.0
"""For the body of a request; its sender is in the same pod."""

SHUTDOWN_SECONDS: Final = 12.0
"""For requests under way; more than kube-scheduler waits for an answer."""


class ExtenderServer:
    """Use as an async context manager. Requests run side by side: one that waits holds up none.

    Attributes:
        port: the port it listens on; the one asked for until it does.
    """

    def __init__(
        self,
        verbs: Mapping[str, Verb],
        *,
        host: str,
        port: int,
        observe: Callable[[str, float], None] = lambda _verb, _seconds: None,
        count_error: Callable[[str], None] = lambda _verb: None,
    ) -> None:
        """Nothing is opened before it is entered.

        Args:
            verbs: by the last part of the URL.
            host: address to listen on.
            port: port to listen on; 0 for any free one.
            observe: receives verb and seconds of each answer.
            count_error: receives the verb of each request that could not be answered.
        """
        self.port = port
        self._verbs = dict(verbs)
        self._host = host
        self._observe = observe
        self._count_error = count_error
        self._runner: web.ServerRunner | None = None

    @property
    def listening(self) -> bool:
        """Whether the port is open."""
        return self._runner is not None

    async def __aenter__(self) -> Self:
        # Without an application: its router is a third of the price of a request.
        server = web.Server(self._handle, request_factory=_request, access_log=None)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
        self.port = await listen(runner, self._host, self.port)
        self._runner = runner
        return self

    async def __aexit__(self, *_: object) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        began = time.perf_counter()
        name = request.path.removeprefix("/")
        verb = self._verbs.get(name)
        if verb is None:
            return _refusal(404, f"there is no such verb; use one of {', '.join(self._verbs)}")
        if request.method != "POST":
            return _refusal(405, f"{name} takes POST only")
        try:
            answer = await verb(await self._body(request))
        except Exception as error:  # noqa: BLE001 - answered, counted, and logged unless expected
            self._count_error(name)
            return _failure(name, error)
        self._observe(name, time.perf_counter() - began)
        return web.Response(body=answer, content_type="application/json")

    @staticmethod
    async def _body(request: web.BaseRequest) -> bytes:
        async with asyncio.timeout(READ_SECONDS):
            return await request.read()


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    return web.BaseRequest(
        message,
        payload,
        protocol,
        writer,
        task,
        asyncio.get_running_loop(),
        client_max_size=MAX_BODY_BYTES,
    )


def _failure(verb: str, error: Exception) -> web.Response:
    """A fault with one request must fail that one only; kube-scheduler tries the pod again."""
    if isinstance(error, MalformedRequestError):
        return _refusal(400, str(error))
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _refusal(413, f"the request is longer than {MAX_BODY_BYTES} bytes")
    if isinstance(error, TimeoutError):
        return _refusal(408, f"the request did not arrive within {READ_SECONDS:g} s")
    logger.error("%s failed by a fault of its own", verb, exc_info=error)
    return _refusal(500, f"{verb} failed by a fault of the extender, see its log")


def _refusal(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{sentence}\n")
