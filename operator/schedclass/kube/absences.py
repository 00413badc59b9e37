"""What the API server itself has said to be absent."""

import time
from collections.abc import Callable
from typing import Final

ABSENCE_SECONDS: Final = 1.0
"""How long a confirmed absence of a class is believed. A class that is created meanwhile shows up
through the watch; this only bounds the requests of a storm of those who name no existing class."""

MOST: Final = 1024


class ConfirmedAbsences:
    """Names that were absent when somebody asked for them, each believed for a moment."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}

    def believed(self, name: str) -> bool:
        """Whether it was absent just now."""
        return self._clock() - self._at.get(name, -ABSENCE_SECONDS) < ABSENCE_SECONDS

    def note(self, name: str) -> None:
        """The API server has just said so."""
        if len(self._at) > MOST:
            self._at.clear()
        self._at[name] = self._clock()
