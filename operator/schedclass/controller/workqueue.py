"""A queue of keys to reconcile: each at most once, fair between tenants, with delays.

The shape is client-go's workqueue: a key that is added while it is being worked on is handed out
again afterwards, so no change is lost and no two workers hold the same key.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable


class WorkQueue:
    """Keys waiting for a worker.

    Groups take turns: a tenant with ten thousand waiting namespaces delays another tenant's one by
    a single key per round.
    """

    def __init__(self, group_of: Callable[[str], str] = lambda _: "") -> None:
        """`group_of` maps a key to the group it takes its turn with."""
        self._group_of = group_of
        self._groups: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._group_of_waiting: dict[str, str] = {}
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._not_empty = asyncio.Event()

    def __len__(self) -> int:
        """Keys waiting, without those being worked on and those delayed."""
        return len(self._group_of_waiting)

    def add(self, key: str) -> None:
        """Ask for `key` to be worked on; a pending delay of it is cut short."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
            return
        if key in self._group_of_waiting:
            return
        group = self._group_of(key)
        self._group_of_waiting[key] = group
        self._groups.setdefault(group, OrderedDict())[key] = None
        self._not_empty.set()

    def add_all(self, keys: Iterable[str]) -> None:
        """Add each of `keys`."""
        for key in keys:
            self.add(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Add `key` after a delay; of two delays for a key the later call counts."""
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def get(self) -> str:
        """Wait for a key and take it; `done` must follow."""
        while not self._group_of_waiting:
            self._not_empty.clear()
            await self._not_empty.wait()
        group, keys = self._groups.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._groups[group] = keys
        del self._group_of_waiting[key]
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        """Give `key` back; it is handed out again if it was added meanwhile."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _cancel_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
