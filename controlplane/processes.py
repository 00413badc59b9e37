"""Long-running programs of a run: started detached, known by pid file, ended by pid.

A process is identified by its pid *and* its start time (field 22 of `/proc/PID/stat`, with the
boot id), so that a pid which the kernel has given to somebody else is never signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

GRACE_SECONDS = 2.0
"""How long a process may take to end on SIGTERM; kube-apiserver would take tens of seconds."""

_POLL_SECONDS = 0.02
_PAUSE_SECONDS = 10.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ProcessError(RuntimeError):
    """A program could not be started or did not become ready; the message names its log."""


@dataclass(frozen=True)
class Identity:
    """Which process it was: a pid alone may be re-used, the three together are not."""

    pid: int
    start_ticks: int
    boot_id: str

    @staticmethod
    def of(pid: int, *, dead: bool = False) -> Identity | None:
        """Returns the identity of a process that runs now, or None if none does.

        Args:
            pid: Whose.
            dead: Whether a process that has ended and was not waited for (a zombie) counts.
        """
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            threads = len(os.listdir(f"/proc/{pid}/task"))
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name in parentheses may hold spaces and parentheses of its own.
        fields = stat.rpartition(")")[2].split()
        state, start_ticks = fields[0], int(fields[19])
        # The leader of a dying process is a zombie already while other threads still end.
        if state in "ZX" and threads <= 1 and not dead:
            return None
        return Identity(pid, start_ticks, _BOOT_ID.read_text(encoding="ascii").strip())

    def is_alive(self) -> bool:
        """Tells whether this very process (not another one with its pid) still runs."""
        return Identity.of(self.pid) == self

    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the process group that the process leads; gone is no error."""
        if self.is_alive():
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return


_CHILDREN: dict[Identity, subprocess.Popen[bytes]] = {}
"""Processes that this Python process started and must wait for, whoever ends them."""


@dataclass(frozen=True)
class Command:
    """What to run: arguments, additions to the environment, and how to see that it is ready."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Variables of the environment that the program must not see."""

    def fingerprint(self) -> dict[str, Any]:
        """Returns the JSON form that tells whether a running process was started the same way."""
        return {"argv": list(self.argv), "env": dict(self.env)}


class ManagedProcess:
    """One named process of a run folder.

    Files: `pids/NAME` (the pid in decimal, present while the process is meant to run),
    `processes/NAME.json` (its identity and command), `logs/NAME.log` (appended at each start).
    Another Python process may pick it up later by the same name and folder.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.log = folder / "logs" / f"{name}.log"
        self.pid_file = folder / "pids" / name
        self._record = folder / "processes" / f"{name}.json"
        self._command: Command | None = None
        self._found_running = False

    @property
    def identity(self) -> Identity | None:
        """The process started last under this name, running or not; None if there was none."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            return Identity(record["pid"], record["startTicks"], record["bootId"])
        except FileNotFoundError:
            return None

    @property
    def pid(self) -> int:
        """The pid of the running process.

        Raises:
            ProcessError: It does not run.
        """
        identity = self.identity
        if identity is None or not identity.is_alive():
            raise ProcessError(f"{self.name} does not run; its log is {self.log}")
        return identity.pid

    def is_alive(self) -> bool:
        """Tells whether the process runs (a stopped one, SIGSTOP, counts as running)."""
        identity = self.identity
        if identity is None:
            return False
        child = _CHILDREN.get(identity)
        if child is None:
            return identity.is_alive()
        if child.poll() is None:
            return True
        _CHILDREN.pop(identity, None)  # another thread may have seen the end as well
        return False

    def runs(self, command: Command) -> bool:
        """Tells whether the process runs and was started with exactly this command."""
        if not self.is_alive():
            return False
        record = json.loads(self._record.read_text(encoding="utf-8"))
        return bool(record["command"] == command.fingerprint())

    def start(self, command: Command | None = None) -> None:
        """Starts the process in a session of its own; a running one is left alone.

        Args:
            command: What to run; None repeats the command of the last start of this object.

        Raises:
            ProcessError: There is no such program, or no command was ever given.
        """
        self._command = command or self._command
        self._found_running = self.is_alive()
        if self._found_running:
            return
        command = self._command
        if command is None:
            raise ProcessError(f"{self.name} was never started here, so there is nothing to repeat")
        for path in (self.log, self.pid_file, self._record):
            path.parent.mkdir(parents=True, exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in command.unset}
        with self.log.open("ab") as log:
            child = self._spawn(command, {**environment, **command.env}, log)
        # A child keeps its pid, if only as a zombie, until it is polled.
        identity = Identity.of(child.pid, dead=True)
        if identity is None:
            raise ProcessError(self.failure("ended at once"))
        _CHILDREN[identity] = child
        write_atomically(
            self._record,
            json.dumps(
                {
                    "pid": identity.pid,
                    "startTicks": identity.start_ticks,
                    "bootId": identity.boot_id,
                    "command": command.fingerprint(),
                },
                indent=1,
            ),
        )
        write_atomically(self.pid_file, f"{identity.pid}\n")

    def _spawn(
        self, command: Command, env: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        log.write(f"--- {time.strftime('%H:%M:%S')} {' '.join(command.argv)}\n".encode())
        log.flush()
        try:
            return subprocess.Popen(
                command.argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessError(
                f"{self.name} cannot be started: {command.argv[0]}: {error.strerror}"
            ) from error

    def wait_ready(self, is_ready: Callable[[], bool], *, seconds: float) -> None:
        """Polls until the process is ready.

        One that `start` found running and that ends before it answers was dying already then; it
        is started anew.

        Args:
            is_ready: The probe; must not raise when the answer is "not yet".
            seconds: How long to wait.

        Raises:
            ProcessError: The process ended, or time is up; with the last lines of its log.
        """
        deadline = time.monotonic() + seconds
        while not is_ready():
            if not self.is_alive():
                if not self._found_running or self._command is None:
                    raise ProcessError(self.failure("ended before it was ready"))
                self.start()
            if time.monotonic() > deadline:
                raise ProcessError(self.failure(f"was not ready within {seconds:.0f} s"))
            time.sleep(_POLL_SECONDS)

    def failure(self, what: str) -> str:
        """Returns a message: what happened, the log's path and its last lines."""
        return f"{self.name} {what}; its log is {self.log}, which ends:\n{self.tail()}"

    def tail(self, lines: int = 12) -> str:
        """Returns the last lines of the log, each cut to a readable width."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "    (no log)"
        return "\n".join(f"    {line[:300]}" for line in text.splitlines()[-lines:])

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Ends the process: SIGTERM, `grace` seconds, SIGKILL. One that is gone is no error."""
        stop_all([self], grace)

    def kill(self) -> None:
        """Ends the process by SIGKILL, as a crash would."""
        self.signal(signal.SIGKILL)
        self.wait_gone(5)
        self._forget()

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): it keeps its connections and answers nothing.

        Returns when every thread has really stopped.

        Raises:
            ProcessError: It does not run, ends meanwhile, or goes on running.
        """
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + _PAUSE_SECONDS
        while not _all_threads_stopped(self.pid):
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} goes on {_PAUSE_SECONDS:.0f} s after SIGSTOP")
            time.sleep(_POLL_SECONDS)

    def resume(self) -> None:
        """Lets a paused process go on (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def restart(self, grace: float = GRACE_SECONDS) -> None:
        """Ends the process and starts the same command again."""
        self.stop(grace)
        self.start()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process group; a process that is gone is no error."""
        identity = self.identity
        if identity is not None:
            identity.signal_group(number)

    def wait_gone(self, seconds: float) -> bool:
        """Waits for the end; tells whether it came within the time."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _forget(self) -> None:
        if not self.is_alive():
            self.pid_file.unlink(missing_ok=True)
            self._record.unlink(missing_ok=True)


def _all_threads_stopped(pid: int) -> bool:
    stats = [path / "stat" for path in Path(f"/proc/{pid}/task").iterdir()]
    try:
        states = {stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] for stat in stats}
    except (FileNotFoundError, ProcessLookupError):  # a thread ended while we looked
        return False
    return states == {"T"}


def stop_all(processes: Iterable[ManagedProcess], grace: float = GRACE_SECONDS) -> None:
    """Ends several processes at once: SIGTERM to all, one common grace time, SIGKILL.

    Raises:
        ProcessError: A process survived SIGKILL (it hangs in the kernel).
    """
    processes = list(processes)
    for process in processes:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
    deadline = time.monotonic() + grace
    for process in processes:
        if not process.wait_gone(max(0.0, deadline - time.monotonic())):
            process.signal(signal.SIGKILL)
    for process in processes:
        if not process.wait_gone(5):
            raise ProcessError(f"{process.name} survived SIGKILL; its pid is {process.pid}")
        process._forget()


def recorded(folder: Path) -> list[str]:
    """Returns the name of every process that was started in a run folder and not ended since."""
    return sorted(record.stem for record in (folder / "processes").glob("*.json"))


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file so that a reader sees the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.touch(mode)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
