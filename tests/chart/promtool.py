"""Prometheus' own test program for rules: found, or taken from Debian's package."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from controlplane.paths import cache

VARIABLE = "SCHEDCLASS_PROMTOOL"
PACKAGE = "prometheus"
_WAY_OUT = f"install promtool, or name one with {VARIABLE}=/path/to/it"


class NoPromtool(Exception):  # noqa: N818 - a sentence to the user
    """There is no promtool, and none can be fetched; one sentence with the way out."""


def ensure() -> Path:
    """Find promtool: named in the environment, on PATH, or fetched before; else fetch it.

    Debian's package is unpacked into the cache and not installed, so nothing starts to run.

    Returns:
        The program.

    Raises:
        NoPromtool: see there.
    """
    named = os.environ.get(VARIABLE)
    if named:
        program = shutil.which(named)
        if program is None:
            raise NoPromtool(f"${VARIABLE} is {named}, which is no program that can be run")
        return Path(program)
    kept = cache() / "debian" / "promtool"
    found = shutil.which("promtool") or shutil.which(kept)
    return Path(found) if found else _fetch(kept)


def _fetch(target: Path) -> Path:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NoPromtool(f"there is no promtool on PATH: {_WAY_OUT}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        said = _run(folder, "apt-get", "download", "-qq", PACKAGE)
        if said and os.geteuid() == 0:  # perhaps for want of the lists of packages
            said = _run(folder, "apt-get", "update", "-qq") or _run(
                folder, "apt-get", "download", "-qq", PACKAGE
            )
        if not said:
            (archive,) = folder.glob("*.deb")
            said = _run(folder, "dpkg-deb", "--extract", str(archive), "unpacked")
        if said:
            raise NoPromtool(f"Debian's package {PACKAGE} cannot be had ({said}): {_WAY_OUT}")
        # Another worker may have been as quick: both files are the same.
        (folder / "unpacked" / "usr" / "bin" / "promtool").replace(target)
    return target


def _run(folder: Path, *command: str) -> str:
    """Empty if the command succeeded, else the last line of what it said."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
