"""Keeps a store in step with one collection: a complete LIST, then a watch, then LISTs at times.

The watch may die in every way it likes: whatever it misses, going on from the last version or the
next LIST brings in. A failing API changes nothing in the store; see `Store.synced` and `fresh`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

from schedclass.kube import errors
from schedclass.kube.client import (
    PAGE_SECONDS,
    PAGE_SIZE,
    WATCH_READ_SECONDS,
    WATCH_SERVER_SECONDS,
    KubeClient,
)
from schedclass.kube.delays import MAX_RETRY_AFTER, Delays, jittered
from schedclass.kube.store import CHUNK, Store

logger = logging.getLogger(__name__)

T = TypeVar("T")

FRUITLESS_WATCHES: Final = 3
"""Watches in a row that were refused or stayed silent until the read timeout, after which the
version they go on from is no longer trusted: after a restore of etcd it may lie in the future."""

NOT_ABOUT_VERSION: Final = frozenset({401, 403, 429, 502, 503})
"""Refusals that say nothing about the version asked for: a new LIST would only add load."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of a reflector; tests shorten them.

    Attributes:
        watch_read: silence after which a watch counts as dead.
        page: limit of each page of a LIST.
        first_delay: before the first new attempt; doubled each time up to `longest_delay`.
        longest_delay: the most between two attempts.
        healthy: length of a watch after which the delay starts over.
    """

    watch_read: float = WATCH_READ_SECONDS
    page: float = PAGE_SECONDS
    first_delay: float = 0.2
    longest_delay: float = 10.0
    healthy: float = 30.0


class _HistoryReset(Exception):  # noqa: N818 - an order to start over, not a fault
    """The watch must be started anew from a fresh LIST."""


class Reflector(Generic[T]):
    """Feeds one store. `run()` never returns and survives every fault but its cancellation.

    Attributes:
        path: the collection.
        store: what is fed.
        lists: completed LISTs.
        errors: failed LISTs and watches; an expired version counts as well.
        last_error: the last failure in words, empty before the first.
    """

    def __init__(  # noqa: PLR0913 - each a choice of its own, all by keyword
        self,
        client: KubeClient,
        path: str,
        store: Store[T],
        *,
        resync_seconds: float,
        metadata_only: bool = False,
        params: Mapping[str, Any] | None = None,
        watch: bool = True,
        page_size: int = PAGE_SIZE,
        timings: Timings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who asks.
            path: of the collection, of all namespaces or of one (`resource_path`).
            store: what to feed.
            resync_seconds: between two LISTs; each heals what a watch may have lost.
            metadata_only: ask for PartialObjectMetadata.
            params: `labelSelector`, `fieldSelector`.
            watch: False if somebody else feeds events to the store; then only LISTs are made.
            page_size: objects per page.
            timings: see `Timings`.
            clock: monotonic seconds.
        """
        self.path = path
        self.store = store
        self.lists = 0
        self.errors = 0
        self.last_error = ""
        self._client = client
        self._metadata_only = metadata_only
        self._params = dict(params or {})
        self._with_watch = watch
        self._page_size = page_size
        self._timings = timings or Timings()
        self._resync = resync_seconds
        self._clock = clock
        self._version: str | None = None
        self._listing = asyncio.Lock()
        self._attempted = asyncio.Event()
        self._reset = asyncio.Event()
        self._fruitless = 0
        self._logged = ""

    async def run(self) -> NoReturn:
        """Feed the store until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resync_forever(), name=f"resync {self.path}")
            if self._with_watch:
                group.create_task(self._watch_forever(), name=f"watch {self.path}")
        raise AssertionError("the loops of a reflector never end")

    async def wait_attempted(self) -> None:
        """Return once a LIST was complete or has failed: the API may not be served at all."""
        await self._attempted.wait()

    async def _watch_forever(self) -> NoReturn:
        delays = Delays(self._timings.first_delay, self._timings.longest_delay)
        while True:
            began = self._clock()
            wait = 0.0
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._watch()
            except (errors.Gone, _HistoryReset) as error:
                self._version = None
                self._note(error)
            except Exception as error:  # noqa: BLE001 - counted and logged; a feed must not end
                wait = self._note(error)
            if not self.store.ordered:
                # Such an API may come back with versions that begin anew, and nothing would show.
                self._version = None
            if self._clock() - began >= self._timings.healthy:
                delays.reset()
            await asyncio.sleep(max(delays.next(), wait))

    async def _resync_forever(self) -> NoReturn:
        delays = Delays(self._timings.first_delay, self._timings.longest_delay)
        if self._with_watch:
            await self.store.wait_synced()
            await asyncio.sleep(jittered(self._resync))
        while True:
            try:
                await self._list()
            except Exception as error:  # noqa: BLE001 - as above
                wait = self._note(error)
                await asyncio.sleep(max(delays.next(), wait))
            else:
                delays.reset()
                await asyncio.sleep(jittered(self._resync))

    async def _list(self) -> str:
        """Take in a complete LIST; after a failed page nothing of it shows."""
        async with self._listing:
            listing = self.store.begin_list()
            version = ""
            pages = self._client.list_pages(
                self.path,
                params=self._params,
                metadata_only=self._metadata_only,
                page_size=self._page_size,
                timeout=self._timings.page,
            )
            async with aclosing(pages):
                async for items, version in pages:  # noqa: B007 - the last page's is used below
                    await listing.add(items)
            await listing.finish(version)
            self.lists += 1
            self._attempted.set()
            self._logged = ""
            if listing.history_reset:
                self._version = None
                self._reset.set()
            return version

    async def _watch(self) -> None:
        """One watch, to its normal end."""
        self._reset.clear()
        watching = asyncio.create_task(self._follow(), name=f"follow {self.path}")
        reset = asyncio.create_task(self._reset.wait())
        try:
            await asyncio.wait({watching, reset}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                raise _HistoryReset(f"{self.path}: resourceVersions were set back")
            await watching
        finally:
            for task in (watching, reset):
                task.cancel()
            await asyncio.gather(watching, reset, return_exceptions=True)

    async def _follow(self) -> None:
        version = self._version
        opened = False
        count = 0

        def on_open() -> None:
            nonlocal opened
            opened = True
            self.store.touch()

        events = self._client.watch(
            self.path,
            resource_version=version or "",
            params=self._params,
            metadata_only=self._metadata_only,
            server_seconds=max(1, round(jittered(WATCH_SERVER_SECONDS))),
            read_seconds=self._timings.watch_read,
            on_open=on_open,
        )
        try:
            async with aclosing(events):
                async for kind, obj in events:
                    self._take(kind, obj)
                    count += 1
                    if count % CHUNK == 0:
                        await asyncio.sleep(0)
        except (errors.ApiError, errors.Unreachable) as error:
            refused = isinstance(error, errors.ApiError) and error.status not in NOT_ABOUT_VERSION
            self._fruitless = self._fruitless + 1 if not count and (opened or refused) else 0
            if self._fruitless >= FRUITLESS_WATCHES:
                self._fruitless = 0
                self._version = None
            raise
        self._fruitless = 0

    def _take(self, kind: str, obj: Mapping[str, Any]) -> None:
        metadata = obj.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if kind == "BOOKMARK":
            self.store.touch(version)
        else:
            self.store.apply(kind, obj)
        if isinstance(version, str) and version:
            self._version = version

    def _note(self, error: Exception) -> float:
        """Count and log a failure; returns the seconds the server asks to wait."""
        self.errors += 1
        self._attempted.set()
        self.last_error = str(error)
        if isinstance(error, errors.KubeError | _HistoryReset):
            # The same failure again and again, as while a CRD is absent, is said once.
            level = logging.DEBUG if self.last_error == self._logged else logging.WARNING
            logger.log(level, "%s", self.last_error)
            self._logged = self.last_error
        else:
            logger.error("%s: a fault of our own", self.path, exc_info=error)
        retry_after = error.retry_after if isinstance(error, errors.ApiError) else None
        return min(retry_after or 0.0, MAX_RETRY_AFTER)
