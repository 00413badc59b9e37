"""The loop around each reconciliation: concurrency, errors, back-off, measurements."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from schedclass.controller.workqueue import WorkQueue
from schedclass.kube.delays import MAX_RETRY_AFTER, doubled, jittered
from schedclass.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unreachable
from schedclass.kube.events import ObjectRef
from schedclass.observability.metrics import Metrics

logger = logging.getLogger(__name__)

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
LONGEST_AFTER_CONFLICT = 2.0


class Reconciler:
    """Takes keys from a queue and brings each to its desired state.

    What happens on an error: a conflict or an object that is gone is no error, the next event tells
    more. `429` pauses all workers for as long as the API server asks. Anything else is counted,
    logged and tried again with growing delays; no key is ever dropped.
    """

    def __init__(  # noqa: PLR0913 - each a choice of its own
        self,
        name: str,
        queue: WorkQueue,
        reconcile: Callable[[str], Awaitable[None]],
        metrics: Metrics,
        *,
        about: Callable[[str], ObjectRef],
        concurrency: int,
    ) -> None:
        """Nothing is taken from the queue before `run`.

        Args:
            name: of the controller, in metrics and log lines.
            queue: the keys.
            reconcile: receives a key and raises to have it tried again.
            metrics: told how long each took, and of those that failed.
            about: the object of a key, for log lines.
            concurrency: how many keys are worked on at once.
        """
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._metrics = metrics
        self._about = about
        self._concurrency = concurrency
        self._failures: dict[str, int] = {}
        self._paused_until = 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await asyncio.sleep(max(0.0, self._paused_until - time.monotonic()))
                started = time.perf_counter()
                await self._reconcile_once(key)
                self._metrics.observe_reconcile(self.name, time.perf_counter() - started)
            finally:
                self.queue.done(key)

    async def _reconcile_once(self, key: str) -> None:
        try:
            await self._reconcile(key)
        except NotFound as error:
            if error.object_absent:
                self._failures.pop(key, None)
            else:
                logger.warning(
                    "reconciliation waits for its API: %s", error, extra=self._fields(key)
                )
                self._retry(key)
        except Conflict:
            # Our copy is older than the object: the watch is about to deliver the newer one. Who
            # writes all the time must not win by that.
            self._retry(key, longest=LONGEST_AFTER_CONFLICT)
        except TooManyRequests as error:
            pause = min(error.retry_after or 1.0, MAX_RETRY_AFTER)
            self._paused_until = max(self._paused_until, time.monotonic() + pause)
            self._retry(key)
        except (ApiError, Unreachable) as error:
            self._metrics.count_reconcile_error(self.name)
            logger.warning(
                "reconciliation failed, will try again: %s", error, extra=self._fields(key)
            )
            self._retry(key)
        except Exception:
            # A fault of ours with one object must not end the work on all others.
            self._metrics.count_reconcile_error(self.name)
            logger.exception(
                "reconciliation failed by a fault of ours, will try again", extra=self._fields(key)
            )
            self._retry(key)
        else:
            self._failures.pop(key, None)

    def _fields(self, key: str) -> dict[str, Any]:
        return {"controller": self.name, "k8s": self._about(key).fields()}

    def _retry(self, key: str, *, longest: float = LONGEST_DELAY) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.queue.add_after(key, jittered(doubled(FIRST_DELAY, failures, longest=longest)))
