"""Waiting for something to become true, with a bound and a message that says what was awaited."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""How long something may take that has no limit of its own: on a busy machine, everything."""

HASTY_SECONDS = 2.0
UNHURRIED_INTERVAL = 0.2


class NotInTimeError(AssertionError):
    """What was awaited did not happen in time."""


def eventually(
    what: str, probe: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, interval: float = 0.05
) -> T:
    """Polls until the probe returns something true, and returns that.

    Args:
        what: What is awaited, for the message ("node-1 is Ready").
        probe: The question; an AssertionError counts as "not yet", and so does a KeyError: the
            API server leaves out what nobody has written so far.
        seconds: How long to wait.
        interval: Seconds between two questions, at first.

    Raises:
        NotInTimeError: Time is up; with the last answer or the last such error.
    """
    began = time.monotonic()
    while True:
        try:
            answer: T | AssertionError | KeyError = probe()
        except (AssertionError, KeyError) as error:
            answer = error
        if answer and not isinstance(answer, AssertionError | KeyError):
            return answer
        waited = time.monotonic() - began
        if waited > seconds:
            raise NotInTimeError(f"not within {seconds:.0f} s: {what}; last answer: {answer!r}")
        # What takes long is not hastened by questions, which cost a slow API server its time.
        time.sleep(interval if waited < HASTY_SECONDS else max(interval, UNHURRIED_INTERVAL))
