"""Ends the processes of a run when the program that owns the run is gone.

It blocks on a pipe whose only writer is the owner: when that ends in whatever way, also by
SIGKILL, the kernel closes the pipe. (PR_SET_PDEATHSIG would fire already when the *thread* that
started a program ends.)
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from controlplane.processes import ManagedProcess, recorded, stop_all


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the watchdog of a run folder; close its stdin to have it end everything and exit."""
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import main; main()", str(folder)],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    """Waits for the end of the owner, then ends the processes of the folder in argv[1]."""
    sys.stdin.buffer.read()
    run = Path(sys.argv[1])
    stop_all([ManagedProcess(run, name) for name in recorded(run)], grace=0)
