"""`schedclass tree` for people."""

from collections.abc import Iterator, Sequence

from schedclass.cli.screen import Cell, Screen, count
from schedclass.domain.insight.tenant_tree import Origin, TreeRow
from schedclass.domain.insight.world import Health

_MARKS = {Origin.OWN: "*", Origin.INHERITED: "^", Origin.NONE: "", Origin.EXCLUDED: ""}
LEGEND = "* set here   ^ inherited   ! own wish, overridden by an ancestor"
HEADS = ("NAMESPACE", "CLASS", "HEALTH", "PODS", "PENDING", "VIOLATIONS", "NOTE")


def show_tree(screen: Screen, rows: Sequence[TreeRow]) -> None:
    """Draw the tree."""
    screen.table(HEADS, _lines(rows))
    screen.line()
    screen.line((LEGEND, "dim"))


def _lines(rows: Sequence[TreeRow]) -> Iterator[Sequence[Cell]]:
    # Whether a row is the last of its siblings shows only later, so the last ones come first.
    last: list[bool] = [True] * len(rows)
    seen: dict[str, bool] = {}
    for i in range(len(rows) - 1, -1, -1):
        row = rows[i]
        if row.parent and row.depth:
            last[i] = row.parent not in seen
            seen[row.parent] = True
    has_more = {row.name: row.folded for row in rows}
    stack: list[str] = []
    pending: list[tuple[int, TreeRow]] = []
    for row, is_last in zip(rows, last, strict=True):
        while pending and row.depth <= pending[-1][0]:
            yield _folded(*pending.pop(), stack)
        final = is_last and not (row.parent and has_more.get(row.parent))
        branch = "" if not row.depth else ("└── " if final else "├── ")
        stack[row.depth :] = ["" if not row.depth else ("    " if final else "│   ")]
        yield _line("".join(stack[: row.depth]) + branch, row)
        if row.folded:
            pending.append((row.depth, row))
    while pending:
        yield _folded(*pending.pop(), stack)


def _line(prefix: str, row: TreeRow) -> Sequence[Cell]:
    mark = _MARKS[row.origin]
    healthy = row.health in (None, Health.READY)
    return (
        prefix + row.name,
        f"{mark} {row.class_name}" if row.class_name else "",
        ("" if row.health is None else row.health.value, "good" if healthy else "bad"),
        _number(row.pods),
        (_number(row.pending) if row.pending else "", "warn"),
        (_number(row.violations) if row.violations != 0 else "", "bad"),
        (_note(row), "warn" if row.ignored or row.stray else "dim"),
    )


def _note(row: TreeRow) -> str:
    if row.origin is Origin.EXCLUDED:
        return "excluded"
    if row.ignored:
        return f"! {row.ignored}"
    if row.stray:
        return row.stray
    return "not given, follows from what is" if row.implied else ""


def _folded(depth: int, row: TreeRow, stack: list[str]) -> Sequence[Cell]:
    prefix = "".join(stack[: depth + 1])
    text = f"{prefix}└── … {count(row.folded, 'more namespace')}"
    return (text, *("" for _ in HEADS[1:]))


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
