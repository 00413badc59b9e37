"""What runs beside a role: a failure ends the process, unless the process is ending anyway."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from schedclass.processes import in_background, unless_stopped


async def fails_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise OSError("connection lost")


async def fails() -> None:
    raise OSError("connection lost")


async def test_a_part_that_fails_while_being_stopped_does_not_cut_short_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    drained = False
    async with in_background(fails_when_cancelled()) as (task,):
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        for _ in range(3):
            await asyncio.sleep(0)
        drained = True
    assert drained
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def runs_beside(work: Coroutine[Any, Any, object], *, seconds: float | None = None) -> None:
    async with asyncio.timeout(seconds), in_background(work):
        await asyncio.Event().wait()


async def test_a_part_that_fails_by_itself_ends_the_block() -> None:
    with pytest.raises(ExceptionGroup):
        await runs_beside(fails())


async def test_a_block_that_is_cancelled_ends_what_runs_beside_it() -> None:
    ended = asyncio.Event()

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await runs_beside(waits_for_ever(), seconds=0.01)
    assert ended.is_set()


async def test_what_runs_beside_a_block_ends_with_it() -> None:
    async with in_background(asyncio.Event().wait()) as (task,):
        await asyncio.sleep(0)
        assert not task.done()
    assert task.cancelled()


async def test_waiting_ends_when_stopped_and_what_was_awaited_is_cleaned_up() -> None:
    stop = asyncio.Event()
    cleaned = asyncio.Event()

    async def waits_for_ever() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    assert not await unless_stopped(stop, waits_for_ever())
    assert cleaned.is_set()


async def test_what_is_awaited_in_time_counts() -> None:
    assert await unless_stopped(asyncio.Event(), asyncio.sleep(0))
    with pytest.raises(OSError, match="lost"):
        await unless_stopped(asyncio.Event(), fails())
