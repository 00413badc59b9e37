"""How Kopf is hosted: under our client's identity, in our event loop, until told to stop."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import aiohttp
import kopf

from schedclass.kube.client import KubeClient

logger = logging.getLogger(__name__)


def register_login(registry: kopf.OperatorRegistry, client: KubeClient) -> None:
    """Give Kopf the credentials of `client`.

    A static token would end the process when it expires: Kopf logs in anew only after a 401, and
    ends if the file still holds the old token then. So the session reads the token per request.
    """

    @kopf.on.login(registry=registry)
    async def login(**_: object) -> kopf.AiohttpSession:
        # Each watch holds a connection for as long as it lives.
        connector = aiohttp.TCPConnector(limit=0, ssl=client.ssl_context)
        middlewares = (_keep_watching, _authorize(client))
        session = aiohttp.ClientSession(connector=connector, middlewares=middlewares)
        return kopf.AiohttpSession(server=client.server, aiohttp_session=session)


Send = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]


async def _keep_watching(request: aiohttp.ClientRequest, send: Send) -> aiohttp.ClientResponse:
    """Let no answer to a LIST or watch end the process.

    When a CRD is deleted, its collection is answered with 404, which is fatal for Kopf's watcher,
    and so would be 5xx after some attempts. As 429 they are tried again for as long as it takes;
    a watcher whose kind is gone is ended by Kopf once it has seen the deletion of the CRD.
    """
    response = await send(request)
    lists = request.method == "GET" and not {"limit", "watch"}.isdisjoint(request.url.query)
    if lists and (response.status == 404 or response.status >= 500):
        response.status = 429
    return response


def _authorize(client: KubeClient) -> aiohttp.ClientMiddlewareType:
    async def authorize(request: aiohttp.ClientRequest, send: Send) -> aiohttp.ClientResponse:
        sent = await client.credentials.authorization()
        if sent is not None:
            request.headers["Authorization"] = sent
        response = await send(request)
        if response.status == 401 and (other := await client.credentials.renewed(sent)):
            response.release()
            request.headers["Authorization"] = other
            response = await send(request)
        return response

    return authorize


async def run_kopf(
    registry: kopf.OperatorRegistry,
    settings: kopf.OperatorSettings,
    stop: asyncio.Event,
    background: Iterable[asyncio.Task[object]] = (),
) -> None:
    """Run Kopf until `stop` is set, SIGTERM comes, or it ends by itself.

    Args:
        registry: the handlers.
        settings: what the role has set; what all roles share is set here.
        stop: ends the operator.
        background: tasks to cancel when Kopf stops. Left running, they would hold up its exit for
            five seconds, as it waits for every task that was created since its start.

    Raises:
        Exception: whatever ended it; the process must then end too, to be started afresh.
    """
    settings.peering.standalone = True  # a Lease elects the leader, see kube/lease.py
    settings.admission.managed = None  # the chart owns the webhook configurations
    settings.posting.enabled = False  # Events are written on purpose, see kube/events.py
    settings.posting.loggers = False
    settings.execution.max_workers = 1  # all handlers are coroutines
    settings.process.ultimate_exiting_timeout = 25  # below terminationGracePeriodSeconds

    @kopf.on.cleanup(registry=registry)
    async def cancel_background(**_: object) -> None:
        stop.set()  # Kopf's own waiter for it is one of those tasks
        for task in background:
            task.cancel()

    await kopf.operator(
        registry=registry, settings=settings, standalone=True, clusterwide=True, stop_flag=stop
    )


def in_background(
    group: asyncio.TaskGroup, *works: Coroutine[Any, Any, object]
) -> list[asyncio.Task[object]]:
    """Start what runs beside Kopf; its failure ends the group, unless it is being stopped anyway.

    Then it is logged only: it must not cut short what the others still do, such as draining.
    """
    return [group.create_task(_until_cancelled(work)) for work in works]


async def _until_cancelled(work: Coroutine[Any, Any, object]) -> object:
    try:
        return await work
    except Exception:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise
        logger.exception("a part ended badly while it was being stopped")
        return None


async def unless_stopped(stop: asyncio.Event, waiting: Coroutine[Any, Any, object]) -> bool:
    """Wait for something that may take for ever; returns False if `stop` was set before."""
    stopping = asyncio.create_task(stop.wait())
    task = asyncio.create_task(waiting)
    try:
        await asyncio.wait({stopping, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        return False
    await task
    return True


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, until Kopf takes the signals over."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
