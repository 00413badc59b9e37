"""A line that shows that something happens; only on a terminal, on standard error."""

import sys
from types import TracebackType
from typing import Any, Self


class Progress:
    """Counts what arrives. Nobody knows the total beforehand, so it shows numbers, not a share."""

    def __init__(self, title: str) -> None:
        """Show nothing yet."""
        self._title = title
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar
            from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TextColumn("{task.completed:,.0f}"),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str) -> None:
        """Go on with another kind."""
        if self._bar is not None:
            self._task = self._bar.add_task(f"{self._title}: {what}", total=None)

    def advance(self, number: int) -> None:
        """So many more have arrived."""
        if self._bar is not None:
            self._bar.advance(self._task, number)
