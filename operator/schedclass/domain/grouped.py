"""Sets by key, none of them empty: a key that nothing has any more is gone."""

from collections.abc import Hashable
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT", bound=Hashable)


def discard(sets: dict[KeyT, set[ItemT]], key: KeyT, item: ItemT) -> None:
    """Take an item out of the set of its key, and the set with the last one.

    Raises:
        KeyError: there is no such set.
    """
    sets[key].discard(item)
    if not sets[key]:
        del sets[key]
