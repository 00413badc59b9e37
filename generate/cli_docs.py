"""The output in docs/cli.md: each `$ schedclass ...` of a console block is run, never written.

The text between the blocks is written by hand, in the document itself.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from unittest import mock

from generate.output import settle
from schedclass.cli.main import main

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/cli.md"
EXAMPLES = ROOT / "docs/examples"
_BLOCK = re.compile(r"(?P<head>```console\n\$ (?P<command>[^\n]+)\n).*?(?P<tail>```)", re.DOTALL)


def output(command: str) -> str:
    """What a command prints in the folder of the examples, notes and exit code last."""
    program, *arguments = shlex.split(command)
    if program not in ("schedclass", "kubectl"):
        raise SystemExit(f"{TARGET}: cannot run {program}")
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        contextlib.chdir(EXAMPLES),
        mock.patch.object(sys, "argv", [program, *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return f"{out.getvalue()}{err.getvalue()}" + (f"[exit code {code}]\n" if code else "")


def renewed(text: str) -> str:
    """The document with the output of now."""
    return _BLOCK.sub(lambda found: found["head"] + output(found["command"]) + found["tail"], text)


if __name__ == "__main__":
    written = TARGET.read_text(encoding="utf-8")
    raise SystemExit(settle({TARGET: renewed(written)}, "python -m generate.cli_docs"))
