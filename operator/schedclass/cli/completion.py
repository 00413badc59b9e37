"""Completion below kubectl: the program `kubectl_complete-schedclass`, which kubectl runs.

It gets the words typed so far and prints candidates, one a line, and last a directive of cobra's
for the shell: `:4` offers nothing else, `:0` lets the shell offer files.
"""

import contextlib
import io
import os
import shlex
import sys
from typing import Final

from schedclass.cli.main import app

_NO_FILES: Final = ":4"
_FILES: Final = ":0"


def run() -> None:
    """Print candidates for the last word of the command line."""
    words = sys.argv[1:] or [""]
    # Typer's own protocol for bash, as its completion script speaks it.
    os.environ.update(
        _SCHEDCLASS_COMPLETE="complete_bash",
        COMP_WORDS=shlex.join(["schedclass", *words]) if words[-1] else _open(words[:-1]),
        COMP_CWORD=str(len(words)),
    )
    found = io.StringIO()
    with contextlib.redirect_stdout(found), contextlib.suppress(SystemExit):
        app(prog_name="schedclass", args=[])
    candidates = found.getvalue().split()
    sys.stdout.writelines(f"{candidate}\n" for candidate in candidates)
    sys.stdout.write(f"{_NO_FILES if candidates else _FILES}\n")


def _open(words: list[str]) -> str:
    """The words with a new one begun after them."""
    return f"{shlex.join(['schedclass', *words])} "
