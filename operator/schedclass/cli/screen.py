"""Text for people: columns, and colour where it can be seen.

What is shown comes from whoever may write manifests. Written as it is, it could steer the terminal
(CVE-2021-25743 of kubectl) or pass for a line of ours, so all of it goes through `visible`.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich.color import ColorSystem
from rich.style import Style

from schedclass.domain.text import visible

STYLES: Final = {
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "warn": Style(color="yellow"),
    "dim": Style(dim=True),
    "head": Style(bold=True),
    "name": Style(color="cyan"),
}

Cell = str | tuple[str, str]
"""Text, or text with the name of its style."""

_GAP: Final = "   "


def has_colour(stream: TextIO) -> bool:
    """Whether colour may be written: only to a terminal, and not against https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def tell(word: str, *sentences: str) -> None:
    """Write to standard error: a word such as `note`, then the sentences, a line each."""
    if sys.stderr is None:  # closed by whoever started this
        return
    lines = "\n".join(visible(sentence) for sentence in sentences)
    sys.stderr.write(f"{word}: {lines}\n")


class Screen:
    """Writes lines to standard output."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` is standard output by default."""
        self._stream = stream or sys.stdout
        self._colour = has_colour(self._stream)

    def line(self, *cells: Cell) -> None:
        """Write cells side by side as one line."""
        self._stream.write("".join(self._styled(cell) for cell in cells).rstrip() + "\n")

    def heading(self, text: str) -> None:
        """Write a heading after an empty line."""
        self.line()
        self.line((text, "head"))

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[Cell]], indent: str = "") -> None:
        """Write columns as kubectl does: as wide as their longest cell, never cut.

        Columns without any text are left out.
        """
        lines = [tuple(_visible_cell(cell) for cell in row) for row in rows]
        widths = [max((len(_text(row[i])) for row in lines), default=0) for i in range(len(heads))]
        used = [i for i, width in enumerate(widths) if width]
        for i in used:
            widths[i] = max(widths[i], len(heads[i]))
        self.line(indent, (_GAP.join(heads[i].ljust(widths[i]) for i in used), "dim"))
        for row in lines:
            parts: list[Cell] = [indent]
            for i in used:
                padding = " " * (widths[i] - len(_text(row[i])))
                parts += [row[i], padding + _GAP]
            self.line(*parts)

    def _styled(self, cell: Cell) -> str:
        if isinstance(cell, str):
            return visible(cell)
        text, style = visible(cell[0]), cell[1]
        if not (self._colour and text):
            return text
        return STYLES[style].render(text, color_system=ColorSystem.STANDARD)


def _visible_cell(cell: Cell) -> Cell:
    return visible(cell) if isinstance(cell, str) else (visible(cell[0]), cell[1])


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def count(number: int, what: str, plural: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what if number == 1 else plural or what + 's'}"
