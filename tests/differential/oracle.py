"""The stock plugins of kube-scheduler as a judge: a Go program that is asked over a pipe."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from controlplane.programs import ORACLE

PATH_VARIABLE = "SCHEDCLASS_ORACLE"
"""Names another build of the program to be asked."""


def oracle_program() -> Path:
    """Returns the program to be asked."""
    named = os.environ.get(PATH_VARIABLE)
    return Path(named) if named else ORACLE.location()


class Oracle:
    """One process; requests and answers are described in the program's source."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=10)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Ask one question; a question that the program cannot answer fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the oracle ended with {self._process.wait(timeout=10)}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer
