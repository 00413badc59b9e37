"""How Kopf is hosted: under our client's identity, in our event loop, until told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
import kopf

from schedclass.kube.client import KubeClient


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
