"""`schedclass report`: gather, put together, render, and put the page where it was asked for."""

import io
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from schedclass.cli.commands import CLUSTER_PARTS, only_namespace, tell_unknown
from schedclass.cli.options import Common
from schedclass.cli.problems import CliError
from schedclass.cli.source import load_world

STDOUT: Final = "-"
NO_DATE: Final = "none"


def report(common: Common, output: str, as_of: str) -> int:
    """`schedclass report`.

    Args:
        common: the options.
        output: path of the page, or - for standard output.
        as_of: see `date_of`.

    Raises:
        CliError: nothing can be gathered, or the page cannot be written; one sentence.
    """
    check_target(output)  # before a minute goes into reading a cluster
    date = date_of(as_of, live=not common.offline)
    world = load_world(common, CLUSTER_PARTS)
    only_namespace(common, world)  # a name that is not there is a slip, whatever it is for
    from schedclass.cli.show_report import page
    from schedclass.domain.insight.report import report as report_of

    tell_unknown(world)
    text = page(report_of(world), date)
    if output == STDOUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as the page says of itself
        sys.stdout.write(text)
    else:
        write(Path(output), text)
    return 0


def date_of(as_of: str, *, live: bool) -> datetime | None:
    """The date on the page; None for none.

    Args:
        as_of: an ISO 8601 date and time (UTC where it names no zone), `none`, or empty for the
            time of now if a cluster is asked: manifests have no time of their own.
        live: whether a cluster is asked.

    Raises:
        CliError: it is neither.
    """
    if as_of == NO_DATE or not (as_of or live):
        return None
    if not as_of:
        return datetime.now(UTC)
    try:
        date = datetime.fromisoformat(as_of)
    except ValueError as error:
        raise CliError(
            f"--as-of: {as_of!r} is no date; write 2026-05-01T12:00Z or {NO_DATE}"
        ) from error
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def check_target(output: str) -> None:
    """Say at once if a page cannot be written there.

    Raises:
        CliError: the path is a folder, or lies in none.
    """
    if output == STDOUT:
        return
    path = Path(output)
    try:
        if not output or path.is_dir():
            raise CliError(f"--output: {output!r} is no file; name one, or - for standard output")
        if not path.parent.is_dir():
            raise CliError(f"--output: there is no folder {path.parent}")
    except OSError as error:
        raise CliError(f"--output: {path}: {error.strerror}") from error


def write(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old one or the new one, never half of it.

    A link stays and the file behind it is replaced. What is no plain file, such as /dev/stdout or
    a pipe, is written to.

    Raises:
        CliError: it cannot be written; an existing file is as it was.
    """
    try:
        target = path.resolve()
        content = text.encode("utf-8")
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            target.write_bytes(content)
        else:
            _replace(target, content)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from error


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if target.exists():
            shutil.copymode(target, name)
        else:
            Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
