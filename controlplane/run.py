"""The long-lived control plane of `make up`: one per checkout, in `.run`."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from controlplane import build
from controlplane.cluster import Cluster
from controlplane.installation import Installation
from controlplane.paths import RUN
from controlplane.processes import recorded

_KEPT = ("logs", "lock")
"""What `down` leaves in the run folder."""


def console() -> Console:
    """Returns where the commands of the harness write to."""
    return Console(soft_wrap=True, highlight=False)


def up(nodes: int, *, bare: bool = False, folder: Path = RUN) -> Cluster:
    """Starts all that does not run: control plane, nodes, chart, operator; tells each step.

    Args:
        nodes: How many fake nodes there must be at least.
        bare: Without chart and operator.
        folder: The run folder.

    Returns:
        The control plane; its processes survive the caller.
    """
    out = console()
    build.build(out)
    with _locked(folder):
        cluster = Cluster(folder, watched=False)
        with _step(out, "Control plane ready"):
            cluster.start()
        with _step(out, f"Nodes Ready in three zones: {nodes}"):
            cluster.create_nodes(nodes)
        if not bare:
            installation = Installation(cluster)
            with _step(out, "Chart installed"):
                installation.install_chart()
            with _step(
                out, "Operator ready: webhook, controller, scheduler with extender, two of each"
            ):
                installation.start()
        return cluster


def down(folder: Path = RUN) -> None:
    """Ends every process of the run folder and removes its data; the logs stay."""
    out = console()
    names = recorded(folder)
    if not names:
        out.print("Nothing runs.")
        return
    with _locked(folder):
        Cluster(folder, watched=False).stop()
        for path in folder.iterdir():
            if path.name not in _KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    out.print(f"Ended {len(names)} processes; their logs stay in {_short(folder / 'logs')}.")


def status(folder: Path = RUN) -> bool:
    """Prints every process of the run folder with its pid; tells whether all of them run."""
    out = console()
    cluster = Cluster(folder, watched=False)
    processes = [cluster.process(name) for name in recorded(folder)]
    for process in processes:
        out.print(f"{process.name:26}{process.pid if process.is_alive() else 'has ended'}")
    return bool(processes) and all(process.is_alive() for process in processes)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps two commands from working on the run folder at the same time."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _step(out: Console, what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    out.print(f"{what} ({time.monotonic() - start:.1f} s)")


def _short(path: Path) -> Path:
    with contextlib.suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path
