"""The browser of these tests: `python -m tests.browser.chromium`, also `make browser`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

VARIABLE = "SCHEDCLASS_BROWSER"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
PACKAGE = "chromium"
WAIT = "-oDPkg::Lock::Timeout=300"  # for whoever else installs something at this moment

Run = Callable[[Sequence[str]], int]


class NoBrowser(Exception):  # noqa: N818 - a sentence to the user
    """There is no browser, and none can be installed; one sentence with the way out."""


def find() -> str | None:
    """The browser's program: the one that is named in the environment, else on PATH.

    Raises:
        NoBrowser: what is named is no program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        program = shutil.which(named)
        if program is None:
            raise NoBrowser(f"${VARIABLE} is {named}, which is no program that can be run")
        return program
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def ensure(root: bool, run: Run, say: Callable[[str], None]) -> str:
    """Find a browser; install Debian's where that is allowed and none is there.

    Args:
        root: whether packages may be installed.
        run: runs a command and returns its exit code.
        say: tells what is done.

    Returns:
        The browser's program.

    Raises:
        NoBrowser: see there.
    """
    found = find()
    if found is not None:
        say(f"The browser tests use {found}.")
        return found
    way_out = f"install chromium, or name a Chromium or Chrome with {VARIABLE}=/path/to/it"
    if shutil.which("apt-get") is None:
        raise NoBrowser(f"there is no Chromium or Chrome on PATH: {way_out}")
    if not root:
        raise NoBrowser(
            f"there is no Chromium or Chrome on PATH, and only root may install one: {way_out}"
        )
    say(f"Installing Debian's package {PACKAGE} for the browser tests (once, about 100 MB) ...")
    for command in (
        ("apt-get", "update", "-qq"),
        ("apt-get", "install", "-qq", "--yes", "--no-install-recommends", WAIT, PACKAGE),
    ):
        code = run(command)
        if code:
            raise NoBrowser(f"`{' '.join(command)}` ended with {code}: {way_out}")
    found = find()
    if found is None:
        raise NoBrowser(f"the package {PACKAGE} brought no program of that name: {way_out}")
    return found


def _run(command: Sequence[str]) -> int:
    """Quietly: what it wrote is shown only if it failed."""
    quiet: Mapping[str, str] = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode


def _say(message: str) -> None:
    print(message, flush=True)  # what follows takes a while


if __name__ == "__main__":
    try:
        ensure(os.geteuid() == 0, _run, _say)
    except NoBrowser as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from error
