"""What each fault did to pods, as one row of a table that is printed at the end of the run."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Row:
    """One fault.

    Attributes:
        fault: what failed.
        created: pods of pinned namespaces that are stored.
        pinned: of those, the ones that carry our scheduler and a class.
        escaped: of those, the ones that do not although the class exists.
        refused: attempts to create such a pod that admission refused.
        unanswered: attempts that the API server did not answer, or answered with its own failure.
        free: pods of a namespace without a class that are stored.
        blocked: attempts to create such a pod that admission refused.
        restarts: how often a replica ended and was started again, as a kubelet does it.
        converged: seconds from the end of the fault until everything is right again.
    """

    fault: str
    created: int = 0
    pinned: int = 0
    escaped: int = 0
    refused: int = 0
    unanswered: int = 0
    free: int = 0
    blocked: int = 0
    restarts: int = 0
    converged: float = 0.0

    def cells(self) -> tuple[str, ...]:
        numbers = (self.created, self.pinned, self.refused, self.escaped, self.unanswered)
        others = (self.free, self.blocked, self.restarts)
        return (self.fault, *map(str, (*numbers, *others)), f"{self.converged:.1f} s")


HEADER = (
    "fault",
    *("created", "pinned", "refused", "escaped", "unanswered"),
    *("free", "blocked", "restarts", "converged"),
)


def table(rows: Iterable[Row]) -> list[str]:
    """The lines of the table."""
    cells = [HEADER, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if first else text.rjust(width)
            for first, text, width in zip(
                [True] + [False] * (len(line) - 1), line, widths, strict=True
            )
        ).rstrip()
        for line in cells
    ]
