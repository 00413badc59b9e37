"""When a reconciliation that failed is tried again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

from schedclass.controller.reconciler import LONGEST_AFTER_CONFLICT, LONGEST_DELAY, Reconciler
from schedclass.controller.workqueue import WorkQueue
from schedclass.kube.errors import ApiError, Conflict, KubeError, TooManyRequests, Unreachable
from schedclass.kube.events import ObjectRef
from tests.stubapi import eventually

SPREAD = 1.2


class Delays(WorkQueue):
    """Notes each delay and hands the key out at once."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def add_after(self, key: str, seconds: float) -> None:
        self.delays.append(seconds)
        self.add(key)


def failing(error: KubeError, times: int) -> Callable[[str], Awaitable[None]]:
    left = [times]

    async def reconcile(_: str) -> None:
        if left[0]:
            left[0] -= 1
            raise error

    return reconcile


def thing(key: str) -> ObjectRef:
    return ObjectRef("v1", "Thing", key)


async def delays_of(error: KubeError, *, times: int = 12) -> list[float]:
    queue = Delays()
    metrics: Any = mock.Mock()
    reconciler = Reconciler(
        "test", queue, failing(error, times), metrics, about=thing, concurrency=1
    )
    queue.add("key")
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: len(queue.delays) == times)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return queue.delays


async def test_who_writes_all_the_time_does_not_hold_us_off_for_long() -> None:
    delays = await delays_of(Conflict(409, "Conflict", "modified", path="/x"))
    assert max(delays) <= LONGEST_AFTER_CONFLICT * SPREAD


@pytest.mark.parametrize(
    "error", [ApiError(422, "Invalid", "no", path="/x"), Unreachable("/x", "timed out")]
)
async def test_other_failures_are_tried_again_with_growing_delays(error: KubeError) -> None:
    delays = await delays_of(error)
    assert delays[3] > delays[0]
    assert LONGEST_DELAY / SPREAD <= max(delays) <= LONGEST_DELAY * SPREAD


async def test_nobody_can_ask_us_to_wait_for_ever() -> None:
    queue, metrics = Delays(), mock.Mock()
    busy = TooManyRequests(429, "", "busy", path="/x", retry_after=1e9)
    reconciler = Reconciler("test", queue, failing(busy, 1), metrics, about=thing, concurrency=1)
    queue.add("key")
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: len(queue.delays) == 1)
    assert reconciler._paused_until <= time.monotonic() + LONGEST_DELAY
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_failure_is_logged_with_controller_and_object(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await delays_of(Unreachable("/x", "timed out"), times=1)
    (record,) = caplog.records
    assert record.getMessage() == "reconciliation failed, will try again: /x: timed out"
    about = {"apiVersion": "v1", "kind": "Thing", "name": "key"}
    assert (record.__dict__["controller"], record.__dict__["k8s"]) == ("test", about)
