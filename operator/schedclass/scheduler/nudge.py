"""How kube-scheduler is told to try refused pods again, without touching any pod.

Any change of a CSIStorageCapacity moves the pods that an extender refused back into its queue
(the events it registers for extenders, the same from 1.30 to 1.37), and nothing else takes notice
of one whose storage class does not exist. So one such object, in our own namespace, is written.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from schedclass.domain import names
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import Delays, happens_within
from schedclass.kube.errors import ApiError, Unreachable
from schedclass.scheduler.waiting import LONGEST_PAUSE, RefusedPods

logger = logging.getLogger(__name__)

API_VERSION: Final = "storage.k8s.io/v1"
WOKEN_AT: Final = f"{names.PREFIX}/woken-at"

SETTLE_SECONDS: Final = 0.2
"""After a change: kube-scheduler often tries again by itself, and changes seldom come alone."""

SLICE_SECONDS: Final = 0.005
"""Work done before requests get their turn."""

SHARE: Final = 4
"""Of the time, at most one part in so many goes into asking again."""

INTERVAL_SECONDS: Final = 1.0
"""The least time between two nudges."""

WRITE_SECONDS: Final = 5.0


class Nudger:
    """Watches over refused pods and nudges kube-scheduler when one of them can be helped."""

    def __init__(
        self,
        client: KubeClient,
        refused: RefusedPods,
        *,
        namespace: str,
        name: str,
        on_nudge: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who writes.
            refused: the pods.
            namespace: of the object that is written.
            name: its name.
            on_nudge: called with whether a nudge was written.
        """
        self._client = client
        self._refused = refused
        self._path = resource_path(
            API_VERSION, "csistoragecapacities", namespace=namespace, name=name
        )
        self._object = {
            "apiVersion": API_VERSION,
            "kind": "CSIStorageCapacity",
            "storageClassName": names.SCHEDULER_NAME,
        }
        self._metadata = {"name": name, "namespace": namespace}
        self._on_nudge = on_nudge
        self._news = asyncio.Event()
        self._last = -INTERVAL_SECONDS
        self._begun = False
        self._pauses = Delays(INTERVAL_SECONDS, LONGEST_PAUSE)
        self._not_before = -INTERVAL_SECONDS

    def news(self) -> None:
        """The state has changed."""
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled, beginning with a nudge: who was refused before is not known."""
        wanted: float | None = 0.0
        while True:
            if wanted is not None:
                await self._nudge_after(wanted)
            await self._news_or_due()
            await self._look()
            wanted = self._due()

    def _due(self) -> float | None:
        due = self._refused.due() if self._begun else 0.0
        return None if due is None else max(due, self._not_before - time.monotonic())

    async def _news_or_due(self) -> None:
        if await happens_within(self._news, self._due()):
            await asyncio.sleep(SETTLE_SECONDS)
            self._news.clear()

    async def _look(self) -> None:
        began = time.perf_counter()
        slice_began = began
        for _ in self._refused.look():
            if time.perf_counter() - slice_began >= SLICE_SECONDS:
                await asyncio.sleep(SLICE_SECONDS * (SHARE - 1))
                slice_began = time.perf_counter()

    async def _nudge_after(self, seconds: float) -> None:
        now = time.monotonic()
        at = max(now + seconds, self._last + INTERVAL_SECONDS)
        if at - now > INTERVAL_SECONDS:
            return  # not due for long; look at the news first
        await asyncio.sleep(at - now)
        self._last = time.monotonic()
        written = await self._nudge()
        if written:
            self._begun = True
            self._pauses.reset()
            self._refused.nudged()
        else:
            self._not_before = time.monotonic() + self._pauses.next()
        self._on_nudge(written)

    async def _nudge(self) -> bool:
        metadata: dict[str, Any] = {
            **self._metadata,
            "annotations": {WOKEN_AT: f"{time.time():.3f}"},
        }
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._client.apply(
                    self._path, {**self._object, "metadata": metadata}, force=True
                )
        except (ApiError, Unreachable, TimeoutError) as error:
            why = str(error) or "timed out"
            logger.warning("kube-scheduler could not be nudged, will try again: %s", why)
            return False
        return True
