"""Starts again what has ended, as a kubelet does with containers."""

import threading
import time
from types import TracebackType
from typing import Self

from controlplane import Installation

BACK_OFF_SECONDS = 1.0


class Supervisor:
    """Looks after the replicas of an installation while it is entered.

    Attributes:
        restarts: how often a replica was started again.
        held: replicas that are to stay as they are.
    """

    def __init__(self, operator: Installation) -> None:
        self.restarts = 0
        self.held: set[str] = set()
        self._operator = operator
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        died: dict[str, float] = {}
        while not self._stop.wait(0.1):
            for name in set(self._operator.replicas) - self.held:
                process = self._operator.process(name)
                if process.is_alive():
                    died.pop(name, None)
                elif time.monotonic() - died.setdefault(name, time.monotonic()) > BACK_OFF_SECONDS:
                    process.start()
                    self.restarts += 1
