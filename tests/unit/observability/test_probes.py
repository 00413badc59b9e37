import contextlib
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from schedclass.kube.store import Store
from schedclass.observability.metrics import Metrics
from schedclass.observability.probes import Check, ProbeServer, caches, recent, unless


@contextlib.asynccontextmanager
async def probing(checks: Mapping[str, Check]) -> AsyncIterator[aiohttp.ClientSession]:
    server = ProbeServer(checks, render=Metrics(process=False).render, host="127.0.0.1", port=0)
    async with (
        server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        yield session


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_ready_when_every_check_passes() -> None:
    async with probing({"synced": lambda: None, "certificate": lambda: None}) as session:
        assert await get(session, "/readyz") == (200, "[+] synced\n[+] certificate\nready\n")


async def test_unready_names_each_check_that_fails_in_a_line() -> None:
    namespaces = Store(dict)
    checks: dict[str, Check] = {
        **caches({"namespaces": namespaces}, seconds=90),
        "certificate": lambda: "there is none yet",
    }
    async with probing(checks) as session:
        status, text = await get(session, "/readyz")
        assert status == 503
        assert text.splitlines() == [
            "[-] namespaces-synced: the first complete list of namespaces is not there yet",
            "[-] namespaces-recent: nothing was heard of namespaces yet",
            "[-] certificate: there is none yet",
            "not ready",
        ]
        namespaces.replace_all([], "1")
        status, text = await get(session, "/readyz")
        assert status == 503
        assert text.splitlines()[:2] == ["[+] namespaces-synced", "[+] namespaces-recent"]


async def test_alive_although_unready() -> None:
    async with probing({"never": lambda: "no"}) as session:
        assert await get(session, "/healthz") == (200, "ok\n")


async def test_broken_check_is_a_failing_one_and_hides_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> str | None:
        raise KeyError("secret detail")

    async with probing({"broken": broken, "other": lambda: None}) as session:
        status, text = await get(session, "/readyz")
    assert status == 503
    assert "secret" not in text
    assert "[+] other" in text
    assert "secret detail" in caplog.text


async def test_metrics_are_served_in_the_scrapers_format() -> None:
    async with probing({}) as session:
        status, text = await get(session, "/metrics")
        assert status == 200
        assert "schedclass_build_info" in text
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        async with session.get("/metrics", headers=accept) as response:
            assert response.content_type == "application/openmetrics-text"


async def test_no_connection_outlives_its_answer() -> None:
    async with probing({}) as session, session.get("/metrics") as response:
        assert response.headers["Connection"] == "close"


async def test_port_in_use_is_an_error_of_the_start() -> None:
    render = Metrics(process=False).render
    async with ProbeServer({}, render=render, host="127.0.0.1", port=0) as first:
        second = ProbeServer({}, render=render, host="127.0.0.1", port=first.port)
        with pytest.raises(OSError, match="address already in use"):
            await second.start()
        await second.stop()


def test_silence_beyond_the_limit_is_told() -> None:
    last: list[float | None] = [None]
    check = recent("nodes", lambda: last[-1], seconds=90, clock=lambda: 1000.0)
    assert check() == "nothing was heard of nodes yet"
    last.append(920.0)
    assert check() is None
    last.append(880.0)
    assert check() == "nothing was heard of nodes for 120 s, allowed are 90 s"


def test_draining_ends_readiness() -> None:
    state = {"draining": False}
    check = unless(lambda: state["draining"], "draining")
    assert check() is None
    state["draining"] = True
    assert check() == "draining"
