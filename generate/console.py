"""Console blocks of documents: what stands below each `$ command` is its output, never written.

The text between the blocks is written by hand, in the document itself.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from schedclass.cli.main import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
_BLOCK = re.compile(r"(?P<head>```console\n\$ (?P<command>[^\n]+)\n)(?P<body>.*?)```", re.DOTALL)


def renewed(text: str, output: Callable[[str, str], str]) -> str:
    """A document with the output of now.

    Args:
        text: the document.
        output: from a command and what stands below it to what it prints.
    """

    def block(found: re.Match[str]) -> str:
        return found["head"] + output(found["command"], found["body"]) + "```"

    return _BLOCK.sub(block, text)


def schedclass(arguments: list[str]) -> str:
    """What `schedclass` prints in the folder of the examples, notes and exit code last."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        contextlib.chdir(EXAMPLES),
        mock.patch.object(sys, "argv", ["schedclass", *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return told(out.getvalue(), err.getvalue(), code)


def told(out: str, err: str, code: int) -> str:
    """Output, notes and exit code as they stand in a block."""
    return f"{out}{err}" + (f"[exit code {code}]\n" if code else "")


def program_and_arguments(command: str) -> tuple[str, list[str]]:
    """Take a command line apart; `kubectl schedclass` is the same as `schedclass`."""
    program, *arguments = shlex.split(command)
    if program == "kubectl" and arguments[:1] == ["schedclass"]:
        return "schedclass", arguments[1:]
    return program, arguments
