"""How long to wait: for the next attempt, or for something to happen."""

import asyncio
import random
from typing import Final

MAX_RETRY_AFTER: Final = 60.0
"""The most seconds that we wait because an API server asks for it."""

_MOST_DOUBLINGS: Final = 64
"""Beyond any pause that somebody wants; without a bound a float would overflow one day."""


def doubled(first: float, times: int, *, longest: float) -> float:
    """The pause after so many others, each twice as long as the one before, up to the longest."""
    return min(first * 2.0 ** min(times, _MOST_DOUBLINGS), longest)


def jittered(seconds: float) -> float:
    """Within 20 % of the given seconds, so that replicas do not move in step."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - nothing secret about it


class Delays:
    """Growing pauses between attempts."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def next(self) -> float:
        """The seconds to wait now; the next answer is twice as long."""
        delay = doubled(self._first, self._failures, longest=self._longest)
        self._failures += 1
        return jittered(delay)

    def reset(self) -> None:
        """Start over, as things went well."""
        self._failures = 0


async def happens_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event; returns False if it is not set within `seconds` (None for no limit)."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
