"""The entry point of the role processes: `python -m schedclass ROLE`."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable

import typer
import uvloop

from schedclass.controller.cleanup import release_classes
from schedclass.controller.role import ControllerRole
from schedclass.kube.client import KubeClient
from schedclass.kube.errors import KubeError
from schedclass.kube.lease import LeadershipLost
from schedclass.observability.logs import configure_logging
from schedclass.scheduler.role import ExtenderRole
from schedclass.settings import PREFIX, Settings, SettingsError, load_settings, option
from schedclass.webhook.role import WebhookRole

EXPECTED = (KubeError, LeadershipLost, OSError)
"""Ends of a process that need no traceback: what happened is in the message."""

OPTIONS = (
    f"Each setting is read from its variable, such as {PREFIX}LOG_LEVEL, or from an option, such "
    f"as --log-level=debug, which counts more: {', '.join(map(option, Settings.model_fields))}."
)

app = typer.Typer(
    help="Placement policy for multi-tenant Kubernetes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _role(start: Callable[..., None]) -> Callable[..., None]:
    """A command whose options are settings, which are judged where variables are."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    return app.command(context_settings=anything, epilog=OPTIONS)(start)


@_role
def webhook(context: typer.Context) -> None:
    """Answer admission reviews; any number of replicas."""
    _run(context, lambda settings, client: WebhookRole(settings, client, _instance()).run())


@_role
def controller(context: typer.Context) -> None:
    """Keep namespaces, classes and certificates right; one replica leads."""
    _run(context, lambda settings, client: ControllerRole(settings, client, _instance()).run())


@_role
def extender(context: typer.Context) -> None:
    """Add the class of a pod to what the kube-scheduler beside it decides."""
    _run(context, lambda settings, client: ExtenderRole(settings, client).run())


@_role
def release(context: typer.Context) -> None:
    """Take label and finalizer off every class, so that nothing holds them once we are gone."""
    _run(context, lambda _, client: release_classes(client))


def _run(context: typer.Context, start: Callable[[Settings, KubeClient], Awaitable[None]]) -> None:
    role = str(context.info_name)
    try:
        settings = load_settings(context.args)
    except SettingsError as error:
        _exit(str(error), 2)
    configure_logging(settings.log_level, settings.log_format, engine_reports=role == "controller")

    async def main() -> None:
        async with await KubeClient.load(role=role) as client:
            await start(settings, client)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    except (KubeError, LeadershipLost, OSError, ExceptionGroup) as error:
        expected = [leaf for leaf in _leaves(error) if isinstance(leaf, EXPECTED)]
        if len(expected) < len(_leaves(error)):
            raise
        _exit("; ".join(str(leaf) for leaf in expected), 1)


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group of groups, or the one that is no group."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _instance() -> str:
    """A name for this start of the process: two starts in one Pod are two candidates."""
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(3).hex()}"


def _exit(message: str, code: int) -> None:
    """One sentence for a person, then out."""
    sys.stderr.write(f"{message}\n")
    raise SystemExit(code)
