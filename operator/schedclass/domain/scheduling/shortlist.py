"""Nodes that suit a kind of pod by themselves, with the least loaded ones at hand.

Sorted into cells: within a cell, nodes are equal for every rule and preference about zones and the
like, so a few nodes of each cell stand for all of them. A choice costs by the number of cells, not
by the number of nodes.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from zlib import crc32

from schedclass.domain.nodes import Node
from schedclass.domain.resources import Demand
from schedclass.domain.scheduling.room import Room

MAX_CELLS: Final = 48
MAX_DOMAINS: Final = 16
"""A topology with more domains than this, such as host names, makes no cells."""

MAX_LOOKS: Final = 64
"""Nodes without room that are passed over in a cell before it counts as full."""

_Entry = tuple[float, int, str]


class Shortlist:
    """The suitable nodes of one moment; loads are looked up anew whenever they matter."""

    def __init__(self, room: Room, cells: Iterable[Iterable[str]]) -> None:
        """Sort the nodes of each cell by load.

        Args:
            room: what nodes have left.
            cells: names of nodes.
        """
        self._room = room
        self._heaps: list[list[_Entry]] = []
        for cell in cells:
            # Equal nodes come in an order that has nothing to do with their names.
            heap = [(room.load(name), crc32(name.encode()), name) for name in cell]
            heapq.heapify(heap)
            self._heaps.append(heap)

    def __len__(self) -> int:
        """How many nodes there are."""
        return sum(map(len, self._heaps))

    def nearest(self, demand: Demand, per_cell: int) -> list[str]:
        """Of each cell the least loaded nodes that have room.

        A node that was filled since goes to its place in the order when it is met; one that was
        emptied since is met where it was, until the list is made anew.
        """
        found: list[str] = []
        for heap in self._heaps:
            met: list[_Entry] = []
            wanted, looks = per_cell, MAX_LOOKS
            while heap and wanted and looks:
                entry = heap[0]
                load = self._room.load(entry[2])
                if load > entry[0]:
                    heapq.heapreplace(heap, (load, entry[1], entry[2]))
                    continue
                met.append(heapq.heappop(heap))
                if self._room.fits(entry[2], demand):
                    found.append(entry[2])
                    wanted -= 1
                else:
                    looks -= 1
            for entry in met:
                heapq.heappush(heap, entry)
        return found


def coarse_keys(keys: Iterable[str], nodes: Iterable[Node]) -> tuple[str, ...]:
    """Of some topology keys those with few domains, sorted."""
    domains: dict[str, set[str | None]] = {key: set() for key in keys}
    for node in nodes:
        for key, values in domains.items():
            if len(values) <= MAX_DOMAINS:
                values.add(node.labels.get(key))
    return tuple(sorted(key for key, values in domains.items() if len(values) <= MAX_DOMAINS))


def cells_of(
    nodes: Iterable[Node], traits: Callable[[Node], tuple[object, ...]]
) -> list[list[str]] | None:
    """Names of nodes by what they have in common; None if that makes too many cells."""
    cells: dict[tuple[object, ...], list[str]] = {}
    for node in nodes:
        cells.setdefault(traits(node), []).append(node.name)
        if len(cells) > MAX_CELLS:
            return None
    return list(cells.values())


def traits_by(
    keys: tuple[str, ...], *tests: Callable[[Node], object]
) -> Callable[..., tuple[object, ...]]:
    """What `cells_of` goes by: values of labels, and answers of tests."""

    def traits(node: Node) -> tuple[object, ...]:
        labels: Mapping[str, str] = node.labels
        return (*[labels.get(key) for key in keys], *[test(node) for test in tests])

    return traits
