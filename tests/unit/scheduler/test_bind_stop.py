"""SIGTERM: no bind decides on a state that nothing keeps up to date any more."""

import asyncio
import os
import signal

import pytest

from schedclass.scheduler.binding import Binder
from schedclass.scheduler.role import ExtenderRole
from schedclass.settings import PREFIX, load_settings
from tests.stubapi import eventually, stub_api, stub_client


@pytest.mark.parametrize("end", ["signal", "failure"])
async def test_binding_stops_before_the_watches_do(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    for name, value in (("NAMESPACE", "own"), ("EXTENDER_PORT", "0"), ("PROBE_PORT", "0")):
        monkeypatch.setenv(PREFIX + name, value)
    events: list[str] = []
    broken = asyncio.Event()

    async def feed(_: ExtenderRole) -> None:
        events.append("fed")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    async def nudge(_: ExtenderRole) -> None:
        await broken.wait()
        raise OSError("a part failed")

    stop = Binder.stop

    def stopped(binder: Binder) -> None:
        events.append("stopped")
        stop(binder)

    monkeypatch.setattr(ExtenderRole, "_feed", feed)
    monkeypatch.setattr(ExtenderRole, "_nudge", nudge)
    monkeypatch.setattr(Binder, "stop", stopped)
    async with stub_api() as api, stub_client(api) as client:
        running = asyncio.create_task(ExtenderRole(load_settings(), client).run())
        await eventually(lambda: events == ["fed"])
        if end == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            await running
            assert events == ["fed", "stopped", "cancelled"]
        else:
            broken.set()
            with pytest.raises(ExceptionGroup):
                await running
            assert sorted(events) == ["cancelled", "fed", "stopped"]
