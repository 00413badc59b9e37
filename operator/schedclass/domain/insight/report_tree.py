"""The tree of tenants as a page shows it: siblings that are alike lie in one fold, size bounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from schedclass.domain.insight.tenant_tree import Origin, TreeFilter, TreeRow, tenant_tree
from schedclass.domain.insight.world import Health, World

FOLDS: Final = (None, 100, 10, 0)
"""How many plain siblings are kept, tried in this order until the tree is small enough."""


@dataclass(frozen=True, slots=True)
class Alike:
    """What siblings of one fold have in common; the fields are those of `TreeRow`."""

    class_name: str | None
    origin: Origin
    from_namespace: str
    health: Health | None


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One line; lines come parents first, and folds of siblings after their other siblings.

    Attributes:
        depth: how many lines are above it.
        row: the namespace; None for the head of a fold.
        alike: what the namespaces of a fold have in common; None for a namespace.
        below: namespaces below this line, also those that are left out.
        troubled: those of them that somebody should look at.
        opens: whether the next line lies below this one.
        ends: how many levels end after this line.
    """

    depth: int
    row: TreeRow | None = None
    alike: Alike | None = None
    below: int = 0
    troubled: int = 0
    opens: bool = False
    ends: int = 0


@dataclass(frozen=True, slots=True)
class ReportTree:
    """The lines and what is not among them.

    Attributes:
        lines: see there.
        shown: namespaces among them.
        left_out: namespaces of the tree that are not.
        outside: namespaces that no tree holds: excluded, or without a class and alone.
    """

    lines: tuple[TreeLine, ...]
    shown: int
    left_out: int
    outside: int


def report_tree(world: World, *, limit: int, depth: int, alike: int) -> ReportTree:
    """The tree of all tenants.

    Args:
        world: what is shown.
        limit: how many namespaces are shown at most; what is plain is left out first.
        depth: how many levels are shown at most.
        alike: more leaves than this below one parent that differ in name only become a fold.
    """
    rows: tuple[TreeRow, ...] = ()
    for fold in FOLDS:
        rows = tenant_tree(world, TreeFilter(depth=depth, fold=fold))
        if len(rows) <= limit:
            break
    drawn = sum(1 + row.folded for row in rows)
    rows = rows[:limit]  # parents come first, so what is left is still a tree
    return ReportTree(
        lines=tuple(_linked(_Layout(rows, alike).lines())),
        shown=len(rows),
        left_out=drawn - len(rows),
        outside=len(world.namespaces) - drawn,
    )


class _Layout:
    """Lines of rows, without `opens` and `ends`."""

    def __init__(self, rows: Sequence[TreeRow], alike: int) -> None:
        self._alike = alike
        self._roots = [row for row in rows if not row.depth]
        self._children: dict[str, list[TreeRow]] = {row.name: [] for row in rows}
        self._below = {row.name: row.folded for row in rows}
        self._troubled = dict.fromkeys(self._children, 0)
        for row in reversed(rows):  # children before their parents
            if row.depth:
                self._children[row.parent].append(row)
                self._below[row.parent] += 1 + self._below[row.name]
                self._troubled[row.parent] += row.troubled + self._troubled[row.name]
        for children in self._children.values():
            children.reverse()

    def lines(self) -> Iterator[TreeLine]:
        waiting = list(reversed(list(self._arranged(self._roots, 0))))
        while waiting:  # not by recursion: owners can be chained deeper than Python's stack
            line = waiting.pop()
            yield line
            if line.row is not None:
                below = list(self._arranged(self._children[line.row.name], line.depth + 1))
                waiting.extend(reversed(below))

    def _arranged(self, siblings: Sequence[TreeRow], depth: int) -> Iterator[TreeLine]:
        folds: dict[Alike, list[TreeRow]] = {}
        for row in siblings:
            if self._plain(row):
                folds.setdefault(_alike(row), []).append(row)
        folds = {shared: rows for shared, rows in folds.items() if len(rows) > self._alike}
        for row in siblings:
            if not (self._plain(row) and _alike(row) in folds):
                yield self._line(row, depth)
        for shared, rows in folds.items():
            yield TreeLine(depth, alike=shared, below=len(rows))
            for row in rows:
                yield self._line(row, depth + 1)

    def _plain(self, row: TreeRow) -> bool:
        return not (row.troubled or row.folded or row.implied or self._children[row.name])

    def _line(self, row: TreeRow, depth: int) -> TreeLine:
        return TreeLine(depth, row, below=self._below[row.name], troubled=self._troubled[row.name])


def _alike(row: TreeRow) -> Alike:
    return Alike(row.class_name, row.origin, row.from_namespace, row.health)


def _linked(lines: Iterator[TreeLine]) -> Iterator[TreeLine]:
    held = next(lines, None)
    while held is not None:
        after = next(lines, None)
        next_depth = 0 if after is None else after.depth
        yield replace(held, opens=next_depth > held.depth, ends=max(0, held.depth - next_depth))
        held = after
