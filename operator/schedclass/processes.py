"""The life of a role's process: what runs beside its work, until when, and what stays in memory."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

logger = logging.getLogger(__name__)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, until Kopf takes the signals over."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


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


@asynccontextmanager
async def in_background(
    *works: Coroutine[Any, Any, object],
) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Run what belongs beside the block, and cancel it when the block ends.

    A failure ends the block, unless the work is being stopped anyway. Then it is logged only: it
    must not cut short what the others still do, such as draining.

    Yields:
        The tasks, in the order of the works.

    Raises:
        ExceptionGroup: of what failed, be it a work or the block.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_until_cancelled(work)) for work in works]
        yield tasks
        for task in tasks:
            task.cancel()


async def _until_cancelled(work: Coroutine[Any, Any, object]) -> object:
    try:
        return await work
    except Exception:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise
        logger.exception("a part ended badly while it was being stopped")
        return None


def spare_collector() -> None:
    """Have the garbage collector look once more at what is in memory now, and then never again.

    To be called once the caches are complete: they stay, and each full collection would hold up
    everything for tens of milliseconds to look at them again.
    """
    gc.collect()
    gc.freeze()
