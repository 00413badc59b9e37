"""Command line of the harness: `python -m controlplane build|up|down|status`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from controlplane import build, run
from controlplane.api import ApiError
from controlplane.helm import HelmError
from controlplane.paths import RUN
from controlplane.processes import ProcessError
from controlplane.toolchain import ToolchainError
from controlplane.waiting import NotInTimeError

P = ParamSpec("P")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_EXPECTED = (
    *(ApiError, HelmError, NotInTimeError, ProcessError),
    *(build.BuildError, ToolchainError, OSError),
)


def _plainly(command: Callable[P, None]) -> Callable[P, None]:
    """Turns the failures that a user can meet into one message and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except _EXPECTED as error:
            sys.stderr.write(f"Error: {error}\n")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            sys.stderr.write("Interrupted; `make down` ends what was started.\n")
            raise typer.Exit(130) from None

    return wrapped


@app.command("build")
@_plainly
def build_command() -> None:
    """Build the programs of the control plane unless they are in the cache."""
    build.build(run.console())


@app.command()
@_plainly
def up(
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="How many fake nodes.")] = 3,
    bare: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Start the control plane and the operator, or what of them has died."""
    cluster = run.up(nodes, bare=bare)
    sys.stdout.write(f"{cluster.kubeconfig}\n")


@app.command()
@_plainly
def down() -> None:
    """End every process that `up` started and remove their data."""
    run.down()


@app.command()
@_plainly
def status() -> None:
    """Show every process and its pid; exit 1 unless all of them run."""
    if not run.status():
        sys.stderr.write(f"Not everything runs (state in {RUN}); `make up` starts it.\n")
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m controlplane")
