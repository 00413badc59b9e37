"""Runs the command line in this process, as the console script does, and keeps what it wrote."""

import contextlib
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from schedclass.cli.main import main
from schedclass.cli.problems import CliError

GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = Path(__file__).parents[3] / "docs/examples/scenarios"
NODES = str(SCENARIOS / "nodes.yaml")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def schedclass(*arguments: str | Path, stdin: str = "") -> Done:
    """Runs `schedclass` with these arguments; an unexpected exception fails the test."""
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        mock.patch.object(sys, "argv", ["schedclass", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            if isinstance(end.__cause__, Exception) and not isinstance(end.__cause__, CliError):
                raise end.__cause__ from None
            return Done(int(end.code or 0), out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def manifests(*objects: dict[str, Any]) -> str:
    """YAML text of objects."""
    return str(yaml.safe_dump_all(objects))


def expect_golden(name: str, text: str) -> None:
    """Compares with the stored output; `WRITE_GOLDEN=1 pytest` stores it, to be read."""
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
