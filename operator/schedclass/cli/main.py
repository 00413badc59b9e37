"""The command line. Here stand options and help only; what works is imported when it is used."""

import sys
from typing import Annotated

import typer

from schedclass import __version__
from schedclass.cli.options import Common, command
from schedclass.cli.problems import FAILED, CliError

app = typer.Typer(
    name="schedclass",
    help="Where the pods of a tenant may run, why they are where they are, and what if.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all well, 1 found something to act on, 2 wrong use or no answer.",
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"schedclass {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None: ...


@app.command()
@command
def tree(
    common: Common,
    root: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Only this one and what is below it.")
    ] = "",
    class_name: Annotated[
        str, typer.Option("--class", metavar="NAME", help="Only tenants of this class.")
    ] = "",
    troubled: Annotated[
        bool, typer.Option("--troubled", help="Only tenants that somebody should look at.")
    ] = False,
    depth: Annotated[int | None, typer.Option(min=1, help="How many levels.")] = None,
    fold: Annotated[
        int, typer.Option(min=0, help="Fold siblings that look alike beyond this number.")
    ] = 10,
    everything: Annotated[
        bool, typer.Option("--all", help="Fold nothing, leave nothing out.")
    ] = False,
) -> int:
    """Show the tenants as a tree: own, inherited and overridden classes, pods, violations.

    kubectl schedclass tree tenant-a
    """
    from schedclass.cli import commands

    return commands.tree(
        common,
        root=root,
        class_name=class_name,
        troubled=troubled,
        depth=depth,
        fold=None if everything else fold,
        everything=everything,
    )


@app.command()
@command
def check(common: Common) -> int:
    """List everything that is not as its class wants it; exit code 1 if there is anything.

    kubectl schedclass check -A
    """
    from schedclass.cli import commands

    return commands.check(common)


def run() -> None:
    """Entry point of the console scripts: every expected end is one sentence and a code."""
    try:
        app()
    except CliError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(FAILED) from error
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        raise SystemExit(0) from None
