"""The command line. Here stand options and help only; what works is imported when it is used."""

import gc
import io
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from schedclass import __version__
from schedclass.cli.options import Common, namespaced
from schedclass.cli.problems import FAILED, CliError


class _Commands(TyperGroup):
    """The commands; what is wrong with an option is told without the words of the checker."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as the class above has it
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="schedclass",
    cls=_Commands,
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
@namespaced("Only this one and what is below it, as NAMESPACE; default: all.")
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
@namespaced("Only this one, its pods and its class; default: all.")
def check(
    common: Common,
    strict: Annotated[
        bool, typer.Option("--strict", help="Let notes, such as overridden wishes, fail as well.")
    ] = False,
) -> int:
    """List everything that is not as its class wants it; exit code 1 if there is anything.

    What may be meant as it is, such as a wish that an ancestor overrides, is noted apart.

    kubectl schedclass check -A
    """
    from schedclass.cli import commands

    return commands.check(common, strict=strict)


@app.command()
@namespaced("Of what is explained; default: the context's, or `default`.")
def explain(
    common: Common,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]",
            help="pod, namespace, class, deployment, statefulset, job, app..., or pod/web-0",
            autocompletion=lambda: [
                "pod",
                "namespace",
                "class",
                "deployment",
                "statefulset",
                "job",
            ],
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Its name, or several; of an app KIND/NAME too."),
    ] = None,
) -> int:
    """Tell step by step why something is as it is: rules, objects they rest on, nodes, scores.

    kubectl schedclass explain pod web-0 -n tenant-a
    """
    from schedclass.cli import explaining

    return explaining.explain(common, kind, name or ())


@app.command()
@namespaced("Show only what concerns this one; all pods are placed. Default: all.")
def simulate(
    common: Common,
    set_class: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT=CLASS", help="What if a tenant named this class; TENANT= for none."
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="What if these manifests were applied."),
    ] = None,
    remove_node: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="What if a node were gone.")
    ] = None,
    relabel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE:KEY=VALUE", help="What if a node had a label; NODE:KEY- for not."
        ),
    ] = None,
) -> int:
    """Place pods without touching the cluster; say what a change would do.

    Exit code 1 if a pod finds no node, a running pod would break its class, or a class that new
    pods would have is not there, not valid or matches no node.

    kubectl schedclass simulate -f nodes.yaml -f class.yaml -f deployment.yaml
    """
    from schedclass.cli import simulating

    what_if = simulating.WhatIf(
        set_class=set_class or (),
        change=change or (),
        remove_node=remove_node or (),
        relabel=relabel or (),
    )
    return simulating.simulate(common, what_if)


@app.command()
@namespaced("Only the use by this one; default: all.")
def usage(
    common: Common,
    class_name: Annotated[str, typer.Argument(metavar="CLASS", help="Its name.")],
) -> int:
    """Show who uses a class, and through which ancestor.

    kubectl schedclass usage dc-west
    """
    from schedclass.cli import commands

    return commands.usage(common, class_name)


@app.command()
@namespaced("Read this one where rights do not reach further; the page shows all that can be seen.")
def report(
    common: Common,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page to write; - for standard output."
        ),
    ],
    as_of: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The date on the page, e.g. 2026-05-01T12:00Z, or none; default: now for a "
            "cluster, none for manifests.",
        ),
    ] = "",
) -> int:
    """Write one page to look at: tenants, classes and their reach, nodes by zone, violations.

    kubectl schedclass report -o report.html
    """
    from schedclass.cli import reporting

    return reporting.report(common, output, as_of)


def main() -> None:
    """Run one command: every end is one sentence and a code (as SystemExit).

    No end but that of a command that worked has the code 1, which means something to act on.
    """
    try:
        _command()
    except BrokenPipeError:  # `| head` has seen enough
        _give_up_output()
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        from schedclass.cli.screen import tell

        _give_up_output()
        said = error.args if isinstance(error, CliError) else (_sentence(error),)
        with suppress(OSError):  # the code tells even where nothing can be written
            tell("error", *said)
        raise SystemExit(FAILED) from error


def _command() -> None:
    try:
        app()
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()  # later it would fail without a word of ours
        raise


def _sentence(error: Exception) -> str:
    """What nobody has dealt with before."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'cannot read or write'}: {error.strerror}"
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(at.filename).name}:{at.lineno}"
    return f"this should not happen, please report it: {type(error).__name__} at {place}: {error}"


def _give_up_output() -> None:
    """Let what standard output could not take go nowhere: Python tries once more at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> None:
    """Entry point of the console scripts."""
    # Ctrl-C ends it as it ends kubectl: by the signal, with no code that could mean a finding.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # lines of a tree where there is no UTF-8
    # Nearly everything that is read lives until the end; looking for garbage in it takes seconds.
    gc.set_threshold(100_000, 50, 100)
    main()
