"""Makes a failing case small: takes away whatever the failure does not need."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

Json = Any


def shrunk(case: Json, fails: Callable[[Json], bool]) -> Json:
    """The case with as many list items and object members removed as still fail.

    Args:
        case: a failing case; not changed.
        fails: whether a case still fails in the same way. A case that lost something that every
            case must have does not.
    """
    smaller = copy.deepcopy(case)
    shrinking = True
    while shrinking:
        shrinking = False
        for path in list(_paths(smaller)):
            attempt = _without(smaller, path)
            if attempt is not None and fails(attempt):
                smaller, shrinking = attempt, True
    return smaller


def _paths(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all parts: whole ones before their own parts, later list items first."""
    items: list[tuple[Any, Json]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[::-1]
    for key, part in items:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def _without(case: Json, path: tuple[Any, ...]) -> Json | None:
    """A copy without the part at the path; None if that is gone already."""
    attempt = copy.deepcopy(case)
    holder = attempt
    try:
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return attempt
