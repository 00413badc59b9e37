"""What a name was perhaps meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_LONGEST: Final = 256
"""Longer names are no slip of the pen, and comparing them takes time."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like another one; empty if none is like it."""
    if len(name) > _LONGEST:
        return ""
    others = sorted(set(known) - {name})
    letters = sorted(
        name.lower()
    )  # two letters changed places, or one its case: no other is nearer
    swapped = (other for other in others if sorted(other.lower()) == letters)
    near = get_close_matches(name, others, n=1)
    return next(swapped, near[0] if near else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: `; did you mean dc-west?`, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""
