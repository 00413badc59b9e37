"""The one cache: the newest known truth about each object of one collection, in memory.

Fed by LISTs and events in any interleaving. What decides which of two truths is newer is the
resourceVersion, an integer that grows with every write (KEP-5504). So a LIST neither takes back an
event that is newer than itself nor brings back an object that was deleted after it, and an event
that a LIST already contains is not news.

Only what `project` makes of an object is kept. For one event loop; nothing here is thread-safe.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

Listener = Callable[[str, T | None, T | None], None]
"""Called with key, old and new projection; None stands for absent. They always differ."""

CHUNK: Final = 50
"""Objects handled before other tasks of the loop get their turn."""

MAX_TOMBSTONES: Final = 20_000
"""Deletions remembered until the next LIST is complete. Each keeps an answer or a page that was on
its way when the object went from bringing it back."""


def object_key(obj: Mapping[str, Any]) -> str:
    """`namespace/name`, or `name` of a cluster-scoped object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def version_number(version: object) -> int | None:
    """A resourceVersion as a number; None if it is none (some aggregated APIs have no order)."""
    text = str(version) if isinstance(version, str | int) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else None


class Store(Generic[T]):
    """Objects of one collection by key (see `object_key`).

    `synced` tells whether a complete LIST was ever taken in: before that a missing key means
    nothing. `fresh` tells whether the API server was heard of lately: without it an absent key may
    exist by now. A failing API never takes anything away.

    Attributes:
        synced: whether a LIST was ever complete.
        last_activity: clock seconds of the last sign of life of the API: an event, a bookmark, an
            accepted watch, a page of a LIST. None before the first.
        ordered: whether resourceVersions decide, see `__init__`.
        newest: highest resourceVersion seen, 0 before the first.
        swept: objects that a LIST no longer had although no event had said so.
        rejected: objects that `project` failed on; what was known of them is kept.
        listener_errors: failures of listeners.
    """

    def __init__(
        self,
        project: Callable[[Mapping[str, Any]], T],
        *,
        ordered: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty.

        Args:
            project: makes what is kept of a raw object; compared with `==` to find changes.
            ordered: whether resourceVersions of this API are comparable. False for aggregated APIs
                that give no such promise: then what arrives last counts.
            clock: monotonic seconds.
        """
        self.synced = False
        self.last_activity: float | None = None
        self.newest = 0
        self.swept = 0
        self.rejected = 0
        self.listener_errors = 0
        self.ordered = ordered
        self._project = project
        self._clock = clock
        self._objects: dict[str, tuple[T, int | None]] = {}
        self._tombstones: dict[str, int] = {}
        self._floor = 0
        self._current: Listing[T] | None = None
        self._listeners: list[Listener[T]] = []
        self._synced = asyncio.Event()

    def get(self, key: str) -> T | None:
        """The object of that key, None if it is not known; see `synced` and `fresh`."""
        found = self._objects.get(key)
        return found[0] if found is not None else None

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def values(self) -> Iterator[T]:
        """All objects, in no order; do not await while iterating."""
        return (obj for obj, _ in self._objects.values())

    def items(self) -> Iterator[tuple[str, T]]:
        """Keys and objects, in no order; do not await while iterating."""
        return ((key, obj) for key, (obj, _) in self._objects.items())

    def fresh(self, limit: float) -> bool:
        """Whether the API server gave a sign of life within the last `limit` seconds."""
        return self.last_activity is not None and self._clock() - self.last_activity <= limit

    async def wait_synced(self) -> None:
        """Return once a LIST was complete."""
        await self._synced.wait()

    def on_change(self, listener: Listener[T]) -> None:
        """Have a function called after each change.

        Args:
            listener: called from whatever fed the store, so it must be quick; its failure is
                logged and counted and keeps neither the store nor other listeners from their work.
        """
        self._listeners.append(listener)

    def touch(self, version: object = None) -> None:
        """A sign of life without an object: a bookmark, an accepted watch.

        Args:
            version: the bookmark's resourceVersion.
        """
        self.last_activity = self._clock()
        self.newest = max(self.newest, version_number(version) or 0)

    def apply(self, event_type: str, obj: Mapping[str, Any]) -> bool:
        """Take in an event, or the answer to a write of our own.

        Args:
            event_type: ADDED, MODIFIED or DELETED.
            obj: the raw object.

        Returns:
            Whether it was news: False if the store knew this or something newer.
        """
        self.touch()
        try:
            key = object_key(obj)
        except (KeyError, TypeError, AttributeError):
            self.reject("an event about an object without a name")
            return False
        number = version_number(obj["metadata"].get("resourceVersion"))
        self.newest = max(self.newest, number or 0)
        deleted = event_type == "DELETED"
        if not self._is_newer(key, number, deleted=deleted):
            return False
        if self._current is not None:
            self._current.overtaken.add(key)
        if deleted:
            self._bury(key, number)
            self.remove(key)
            return True
        projected = self.projection(key, obj, number)
        if projected is None:
            return False
        self.put(key, projected[0], number)
        return True

    def is_news(self, event_type: str, obj: Mapping[str, Any]) -> bool:
        """Whether `apply` may take an event in, without doing so; a sign of life as well."""
        self.touch()
        try:
            key, version = object_key(obj), obj["metadata"].get("resourceVersion")
        except (KeyError, TypeError, AttributeError):
            return True
        return self._is_newer(key, version_number(version), deleted=event_type == "DELETED")

    def _bury(self, key: str, number: int | None) -> None:
        if number is None:
            return
        self._tombstones[key] = number
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]

    def begin_list(self) -> "Listing[T]":
        """Start taking in a LIST, before its request is sent; only one at a time."""
        self._current = Listing(self)
        return self._current

    def replace_all(self, items: Iterable[Mapping[str, Any]], version: str) -> None:
        """Take in a complete LIST at once.

        Args:
            items: all raw objects of the collection.
            version: the list's resourceVersion.
        """
        listing = self.begin_list()
        for _ in listing.take(items):
            pass
        for _ in listing.merge(version):
            pass

    def _is_newer(self, key: str, number: int | None, *, deleted: bool) -> bool:
        if not self.ordered or number is None:
            return True
        known = self.known_version(key)
        return number > self._floor and (number > known or (deleted and number == known))

    # What a Listing needs; not for others.

    def known_version(self, key: str) -> int:
        """Version of the newest truth about a key, be it an object or its deletion; else -1."""
        known = self._objects.get(key)
        if known is None:
            return self._tombstones.get(key, -1)
        return -1 if known[1] is None else known[1]

    def projection(self, key: str, obj: Mapping[str, Any], number: int | None) -> tuple[T] | None:
        """What is kept of an object, in a tuple; None if `project` fails."""
        known = self._objects.get(key)
        if known is not None and number is not None and known[1] == number and self.ordered:
            return (known[0],)
        try:
            return (self._project(obj),)
        except Exception:
            # One malformed object must neither stop the feed nor look deleted.
            logger.exception("cannot read %s, keeping what was known of it", key)
            self.reject(key)
            return None

    def reject(self, what: str) -> None:
        """Count something that could not be taken in."""
        self.rejected += 1
        logger.warning("rejected %s", what)

    def put(self, key: str, new: T, number: int | None) -> None:
        """Set an object and tell the listeners if it differs."""
        known = self._objects.get(key)
        old = known[0] if known is not None else None
        self._tombstones.pop(key, None)
        self._objects[key] = (new, number)
        if old != new:
            self._notify(key, old, new)

    def remove(self, key: str) -> bool:
        """Drop an object and tell the listeners; False if there was none."""
        known = self._objects.pop(key, None)
        if known is None:
            return False
        self._notify(key, known[0], None)
        return True

    def raise_floor(self, number: int, *, reset: bool) -> None:
        """Up to this version everything is known from a LIST: older events are no news."""
        if reset:
            self._tombstones.clear()
            self._floor = self.newest = number
        else:
            self._floor = max(self._floor, number)

    def mark_synced(self, version: str) -> None:
        """A LIST was complete."""
        self._tombstones = {key: at for key, at in self._tombstones.items() if at > self._floor}
        self.touch(version)
        self._current = None
        self.synced = True
        self._synced.set()

    def _notify(self, key: str, old: T | None, new: T | None) -> None:
        for listener in self._listeners:
            try:
                listener(key, old, new)
            except Exception:
                # The other listeners must still hear of it: there is no second delivery.
                self.listener_errors += 1
                logger.exception("a listener failed on %s", key)


class Listing(Generic[T]):
    """One LIST on its way into a store. Dropped without `finish`, it leaves no trace.

    Attributes:
        history_reset: set by `finish` if the LIST is older than what was known before it was asked
            for. A LIST is a consistent read, so this happens only when resourceVersions were set
            back, as by a restore of etcd: then the LIST replaces everything, and a watch that goes
            on from the old history must be started anew.
    """

    def __init__(self, store: Store[T]) -> None:
        self.history_reset = False
        self.overtaken: set[str] = set()
        self._store = store
        self._before = store.newest
        self._items: dict[str, tuple[tuple[T] | None, int | None]] = {}

    async def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Take a page; other tasks get their turn every `CHUNK` objects."""
        for _ in self.take(items):
            await asyncio.sleep(0)

    async def finish(self, version: str) -> None:
        """The LIST is complete: take it in.

        Each object goes from one truth to a newer one, in chunks between which other tasks run;
        events that arrive meanwhile are judged as ever. Unseen objects go last.

        Args:
            version: the list's resourceVersion.
        """
        for _ in self.merge(version):
            await asyncio.sleep(0)

    def take(self, items: Iterable[Mapping[str, Any]]) -> Iterator[None]:
        """`add` as a generator that stops wherever another task may run."""
        store = self._store
        store.touch()
        for count, obj in enumerate(items, 1):
            try:
                key = object_key(obj)
            except (KeyError, TypeError, AttributeError):
                store.reject("a list item without a name")
                continue
            number = version_number(obj["metadata"].get("resourceVersion"))
            self._items[key] = (store.projection(key, obj, number), number)
            if count % CHUNK == 0:
                yield

    def merge(self, version: str) -> Iterator[None]:
        """`finish` as a generator that stops wherever another task may run."""
        store = self._store
        number = version_number(version)
        self.history_reset = store.ordered and number is not None and number < self._before
        store.raise_floor(number or 0, reset=self.history_reset)
        count = 0
        for key, (projected, item_number) in self._items.items():
            if projected is not None and self._wins(key, item_number, number):
                store.put(key, projected[0], item_number)
            count += 1
            if count % CHUNK == 0:
                yield
        horizon = self._before if number is None else number
        for key in [key for key in store if key not in self._items]:
            if self._supersedes(key, horizon):
                store.swept += store.remove(key)
            count += 1
            if count % CHUNK == 0:
                yield
        store.mark_synced(version)

    def _wins(self, key: str, number: int | None, horizon: int | None) -> bool:
        """Whether the LIST's truth about a key is newer than the store's.

        What it says is true up to the LIST's own version. So an object in it that is older than the
        one we know, which is no newer than the LIST, comes from another history: etcd was restored,
        and only the version of the whole was raised (`etcdutl snapshot restore --bump-revision`).
        """
        if not self._store.ordered:
            return key not in self.overtaken
        if self.history_reset or number is None:
            return True
        known = self._store.known_version(key)
        return number > known or (horizon is not None and number < known <= horizon)

    def _supersedes(self, key: str, horizon: int) -> bool:
        """Whether the LIST's silence about a key means that it is gone."""
        if not self._store.ordered:
            return key not in self.overtaken
        return self.history_reset or self._store.known_version(key) <= horizon
