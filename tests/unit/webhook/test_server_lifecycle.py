import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import aiohttp
import kopf
import psutil
import pytest
from aiohttp import web
from cryptography import x509

from schedclass.domain.findings import Reason
from schedclass.tls.authority import expires_at
from schedclass.webhook.reviews import HandlerRule, Review, register
from schedclass.webhook.server import AdmissionServer, Listening, admission_settings
from tests.unit.webhook.hosting import (
    PODS,
    Engine,
    Seen,
    annotate,
    authority,
    certificate,
    client_of,
    hosted,
    review,
    serving,
    trusting,
    until,
)

SIGNER = authority()


def is_open(port: int) -> bool:
    """Whether this process listens; looked up, as a connection would be one more to serve."""
    return any(
        connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", 0) == port
        for connection in psutil.Process().net_connections("tcp")
    )


async def test_port_stays_closed_until_ready() -> None:
    gate = asyncio.Event()
    engine = Engine({"mutate-pods": annotate})
    async with hosted(engine, tls=serving(SIGNER), ready=gate.wait) as server:
        await asyncio.sleep(0)
        assert not server.listening
        gate.set()
        await until(lambda: server.listening)
        assert is_open(server.port)
    assert not is_open(server.port)


async def test_stopping_server_answers_and_closes_connections_until_drained() -> None:
    engine = Engine({"mutate-pods": annotate})
    async with hosted(engine, tls=serving(SIGNER), drain_seconds=60) as server:
        async with client_of(server, SIGNER) as client:
            assert (await client.post("mutate-pods", review()))[0] == 200
            leaving = asyncio.create_task(server.__aexit__(None, None, None))
            await asyncio.sleep(0)
            assert server.draining
            for _ in range(3):
                url = f"https://localhost:{server.port}/mutate-pods"
                async with client.session.post(url, json=review()) as response:
                    assert response.status == 200
                    assert response.headers["Connection"] == "close"
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
    assert not server.listening
    assert not is_open(server.port)


async def test_review_under_way_is_answered_when_the_server_stops() -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(under_review: Review) -> None:
        entered.set()
        await release.wait()
        await annotate(under_review)

    engine = Engine({"mutate-pods": slow})
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(hosted(engine, tls=serving(SIGNER)))
        client = await stack.enter_async_context(client_of(server, SIGNER))
        pending = asyncio.create_task(client.post("mutate-pods", review()))
        await entered.wait()
        leaving = asyncio.create_task(server.__aexit__(None, None, None))
        await until(lambda: not is_open(server.port))
        release.set()
        status, answer = await pending
        assert status == 200
        assert "patch" in answer
        await client.session.close()
        await leaving


async def test_caller_that_hangs_up_in_the_middle_is_no_fault_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Seen()
    engine = Engine({"mutate-pods": annotate})
    async with hosted(engine, tls=serving(SIGNER), seen=seen) as server:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting(SIGNER), server_hostname="localhost"
        )
        writer.write(b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        await writer.drain()
        writer.transport.abort()
        await until(lambda: bool(seen.answers))
    assert seen.answers == [("UNKNOWN", "error", Reason.REQUEST_TIMEOUT.value)]
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")]


async def test_taken_port_ends_the_server_with_the_cause() -> None:
    engine = Engine({"mutate-pods": annotate})
    async with hosted(engine, tls=serving(SIGNER)) as server:

        async def at_once() -> None:
            return

        listening = Listening("127.0.0.1", server.port)
        second = AdmissionServer(
            [PODS], tls=serving(SIGNER).context, ready=at_once, listening=listening
        )
        with pytest.raises(OSError, match="address already in use"):
            await anext(aiter(second(engine.webhook_fn())))


async def served_serial(port: int) -> int:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting(SIGNER))
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        await writer.wait_closed()
    assert not await reader.read()
    return x509.load_der_x509_certificate(der).serial_number


def serial(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


async def test_certificate_is_swapped_under_load_without_a_failed_request() -> None:
    held = serving(SIGNER)
    engine = Engine({"mutate-pods": annotate})
    async with hosted(engine, tls=held) as server:
        stop = asyncio.Event()
        answered = 0

        async def load(reuse: bool) -> None:
            nonlocal answered
            connector = aiohttp.TCPConnector(ssl=trusting(SIGNER), force_close=not reuse)
            async with aiohttp.ClientSession(connector=connector) as session:
                url = f"https://localhost:{server.port}/mutate-pods"
                while not stop.is_set():
                    async with session.post(url, json=review()) as response:
                        assert response.status == 200
                        answered += 1

        async def enough(count: int) -> None:
            goal = answered + count
            await until(lambda: answered >= goal)

        async with asyncio.TaskGroup() as group:
            for reuse in (True, False):
                group.create_task(load(reuse))
            await enough(20)
            for _ in range(3):
                old, new = certificate(SIGNER), certificate(SIGNER)
                assert held.offer(new.certificate, new.key) is None
                assert await served_serial(server.port) == serial(new.certificate)
                torn = held.offer(old.certificate, new.key)
                assert torn is not None
                assert torn.reason is Reason.CERTIFICATE_KEY_MISMATCH
                assert await served_serial(server.port) == serial(new.certificate)
                await enough(20)
            stop.set()
        assert held.expires_at == expires_at(new.certificate)


class Discovery:
    """The little of an API server that Kopf asks when nothing is watched."""

    def __init__(self) -> None:
        self.app = web.Application()
        self.app.router.add_get("/api", self.versions)
        self.app.router.add_get("/apis", self.groups)
        self.app.router.add_get("/api/v1", self.core)
        self.asked: list[str] = []

    async def versions(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.json_response({"kind": "APIVersions", "versions": ["v1"]})

    async def groups(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.json_response({"kind": "APIGroupList", "groups": []})

    async def core(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        verbs = ["create", "get", "list", "watch"]
        return web.json_response(
            {
                "kind": "APIResourceList",
                "groupVersion": "v1",
                "resources": [
                    {
                        "name": name,
                        "kind": kind,
                        "singularName": "",
                        "namespaced": name == "pods",
                        "verbs": verbs,
                    }
                    for name, kind in (("pods", "Pod"), ("namespaces", "Namespace"))
                ],
            }
        )


@contextlib.asynccontextmanager
async def discovery() -> AsyncIterator[tuple[Discovery, str]]:
    stub = Discovery()
    runner = web.AppRunner(stub.app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield stub, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_kopf_hosts_the_server_and_drains_it_when_stopped() -> None:
    registry = kopf.OperatorRegistry()
    register(registry, PODS, annotate, mutates=True)
    gate = asyncio.Event()
    server = AdmissionServer(
        [PODS],
        tls=serving(SIGNER).context,
        ready=gate.wait,
        listening=Listening("127.0.0.1", 0, drain_seconds=0.2),
    )
    settings = kopf.OperatorSettings()
    admission_settings(settings, server)
    async with discovery() as (stub, url):

        @kopf.on.login(registry=registry)
        def login(**_: object) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=url)

        stop, started = asyncio.Event(), asyncio.Event()
        gate.set()
        operator = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=settings,
                clusterwide=True,
                stop_flag=stop,
                ready_flag=started,
            )
        )
        await until(lambda: server.listening)
        async with client_of(server, SIGNER) as client:
            status, answer = await client.post("mutate-pods", review())
            assert status == 200
            assert "patch" in answer
            stop.set()
            await until(lambda: server.draining)
            status, answer = await client.post("mutate-pods", review())
            assert status == 200
            assert "patch" in answer
        await asyncio.wait_for(operator, 20)
        assert not is_open(server.port)
        assert set(stub.asked) <= {"/api", "/apis", "/api/v1"}


def test_rule_is_written_as_a_resource() -> None:
    rule = HandlerRule("x", "cozystack.io", "v1alpha1", "schedulingclasses", frozenset({"CREATE"}))
    assert str(rule) == "schedulingclasses.cozystack.io (v1alpha1)"
