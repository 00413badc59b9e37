"""What the commands have in common on the command line."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from schedclass.cli.problems import CliError


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _option(*names: str, metavar: str | None = None, say: str, env: str | None = None) -> Any:  # noqa: ANN401
    return typer.Option(*names, metavar=metavar, help=say, envvar=env)


@dataclass(frozen=True, slots=True)
class Common:
    """The common options, declared once: the fields are the parameters of each command."""

    output: Annotated[
        Output, _option("--output", "-o", say="Print a table, or a document for programs.")
    ] = Output.TABLE
    namespace: Annotated[
        str,
        _option("--namespace", "-n", metavar="NAME", say="Only this namespace; default: all."),
    ] = ""
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces, whatever -n says.")
    ] = False
    kubeconfig: Annotated[
        str,
        _option(metavar="FILE", say="Default: $KUBECONFIG, the pod's own account, ~/.kube/config."),
    ] = ""
    context: Annotated[str, _option(metavar="NAME", say="Context of the kubeconfig.")] = ""
    filename: Annotated[
        list[str] | None,
        _option(
            "--filename",
            "-f",
            metavar="PATH",
            say="Read manifests instead of a cluster: file, folder, or - for standard input.",
        ),
    ] = None
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Read the folders in a folder too.")
    ] = False
    live: Annotated[
        bool, typer.Option("--live", help="Lay the manifests of -f over what the cluster holds.")
    ] = False
    excluded_namespaces: Annotated[
        str,
        _option(
            metavar="PATTERNS",
            say="Namespaces the operator never pins; default: kube-*,cozy-*,default.",
            env="SCHEDCLASS_EXCLUDED_NAMESPACES",
        ),
    ] = ""
    operator_namespace: Annotated[
        str,
        _option(
            metavar="NAME",
            say="The operator's own, never pinned either; default: as the cluster has it, or "
            "cozy-schedclass.",
            env="SCHEDCLASS_NAMESPACE",
        ),
    ] = ""
    label_keys: Annotated[
        str | None,
        _option(
            metavar="KEYS",
            say="The operator's defaultLabelSelectorKeys; empty: none; default: Cozystack's.",
        ),
    ] = None
    exempt_daemon_sets: Annotated[
        bool,
        typer.Option(
            "--exempt-daemon-sets",
            help="The operator lets pods of DaemonSets pass unpinned.",
            envvar="SCHEDCLASS_EXEMPT_DAEMON_SETS",
        ),
    ] = False

    @property
    def offline(self) -> bool:
        """Whether no cluster is asked."""
        return bool(self.filename) and not self.live

    def refuse_meaningless(self, *, reads_besides: bool = False) -> None:
        """Refuse options that would be ignored.

        Args:
            reads_besides: whether manifests are read that `-f` does not name.

        Raises:
            CliError: an option says nothing without another one that is missing; one sentence.
        """
        if self.recursive and not (self.filename or reads_besides):
            raise CliError("-R means nothing without -f: name the folder with -f")
        if self.live and not self.filename:
            raise CliError("--live means nothing without -f: it lays manifests over a cluster")
        for option, value in (("--kubeconfig", self.kubeconfig), ("--context", self.context)):
            if value and self.offline:
                raise CliError(
                    f"{option} means nothing with -f, which asks no cluster; add --live to ask it"
                )

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of `-f`."""
        return tuple(self.filename or ())


def namespaced(said: str) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """`command` with another help text of `-n`, for a command that takes it otherwise."""
    option = Annotated[str, _option("--namespace", "-n", metavar="NAME", say=said)]
    return lambda function: command(function, namespace=option)


def command(function: Callable[..., int], **instead: Any) -> Callable[..., None]:
    """Make a command of a function that takes `common` and its own parameters.

    The common options follow the command's own, which replace those of the same name; what the
    function returns is the exit code.

    Args:
        function: the command.
        instead: annotations of common options that differ for this command, by name.
    """
    own = [p for p in inspect.signature(function).parameters.values() if p.name != "common"]
    taken = {parameter.name for parameter in own}
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=instead.get(field.name, field.type),
        )
        for field in fields(Common)
        if field.name not in taken
    ]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        common = Common(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        common.refuse_meaningless(reads_besides=bool(given.get("change")))
        raise typer.Exit(function(common=common, **given))

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return run
