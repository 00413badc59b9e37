"""/healthz, /readyz and /metrics on a port of their own.

Alive means that the event loop answers. Ready means that every named check passes; a replica that
is alive but not ready keeps answering admission reviews and is only taken out of the Service.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from schedclass.listening import listen
from schedclass.observability.metrics import Index, Metrics
from schedclass.settings import Settings

logger = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Why something is not ready, in one line; None when it is."""


class Render(Protocol):
    """Exposes metrics, see `Metrics.render`."""

    def __call__(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type."""


class ProbeServer:
    """Use as an async context manager, or `start` and `stop`.

    Attributes:
        port: the port it listens on; the one asked for until it does.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        render: Render,
        host: str | None = None,
        port: int = 8081,
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            checks: by name, what readiness consists of.
            render: for /metrics.
            host: address to listen on; None for all.
            port: port to listen on; 0 for any free one.
        """
        self.port = port
        self._checks = dict(checks)
        self._render = render
        self._host = host
        self._runner: web.AppRunner | None = None

    @classmethod
    def of(cls, settings: Settings, checks: Mapping[str, Check], metrics: Metrics) -> Self:
        """As the settings of this process say."""
        return cls(
            checks, render=metrics.render, host=settings.probe_host, port=settings.probe_port
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be opened.
        """
        app = web.Application(middlewares=[_close_after])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1)
        self.port = await listen(runner, self._host, self.port)
        self._runner = runner

    async def stop(self) -> None:
        """Close the port; harmless when it is not open."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def failing(self) -> dict[str, str]:
        """The checks that do not pass, with the reason of each."""
        return {name: why for name, check in self._checks.items() if (why := _run(name, check))}

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        failing = self.failing()
        lines = [
            f"[-] {name}: {failing[name]}" if name in failing else f"[+] {name}"
            for name in self._checks
        ]
        lines.append("not ready" if failing else "ready")
        return web.Response(status=503 if failing else 200, text="\n".join(lines) + "\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = self._render(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})


@web.middleware
async def _close_after(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep no connection of a prober or scraper: at the end Kopf would wait for each, 5 seconds."""
    response = await handler(request)
    response.force_close()
    return response


def caches(indexes: Mapping[str, Index], *, seconds: float) -> dict[str, Check]:
    """Two checks of each cache: that it is complete, and that it still hears of the API server.

    Args:
        indexes: the caches by resource.
        seconds: the longest silence.
    """
    checks: dict[str, Check] = {}
    for resource, index in indexes.items():
        checks[f"{resource}-synced"] = synced(resource, index)
        last_activity = partial(getattr, index, "last_activity")
        checks[f"{resource}-recent"] = recent(resource, last_activity, seconds=seconds)
    return checks


def synced(what: str, index: Index) -> Check:
    """Passes once a cache is complete."""
    return lambda: None if index.synced else f"the first complete list of {what} is not there yet"


def recent(
    what: str,
    last_activity: Callable[[], float | None],
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Check:
    """Passes while the API server was heard of lately.

    Args:
        what: plural name of the resource.
        last_activity: when it was last heard of, on `clock`; None for never.
        seconds: the longest silence.
        clock: the time.
    """

    def check() -> str | None:
        last = last_activity()
        if last is None:
            return f"nothing was heard of {what} yet"
        silence = clock() - last
        if silence <= seconds:
            return None
        return f"nothing was heard of {what} for {silence:.0f} s, allowed are {seconds:g} s"

    return check


def unless(condition: Callable[[], bool], why: str) -> Check:
    """Passes while `condition` is false, e.g. while the server is not draining."""
    return lambda: why if condition() else None


def _run(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception:  # a broken check is a failing one, and must not hide the others
        logger.exception("readiness check failed", extra={"check": name})
        return "the check itself failed, see the log"
