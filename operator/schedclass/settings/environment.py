"""Reads the settings from options and variables; says in a sentence what is wrong with them."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schedclass.domain.text import as_typed
from schedclass.settings.arguments import option, parse
from schedclass.settings.model import PREFIX, Settings

_SERVICE_LINK: Final = re.compile(
    r"(?:.*_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""What the kubelet adds to each container for the Services of its namespace. A release named
`schedclass` has Services whose variables begin with our prefix."""


class SettingsError(Exception):
    """Options or environment cannot be used.

    Attributes:
        problems: one sentence per malformed or unknown option or variable.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_settings(arguments: Sequence[str] = ()) -> Settings:
    """Read the settings from the environment of this process.

    Args:
        arguments: options of the command line, `--NAME=VALUE`, which go before the environment.

    Raises:
        SettingsError: for every malformed, missing or unknown option or `SCHEDCLASS_` variable at
            once.
    """
    options, problems = parse(arguments)
    problems += _unknown_variables(os.environ)
    given: dict[str, Any] = dict(options)
    try:
        settings = Settings(**given)
    except ValidationError as error:
        problems += tuple(_sentence(details, options) for details in error.errors())
        raise SettingsError(problems) from None
    if problems:
        raise SettingsError(problems)
    return settings


def _unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    return tuple(
        _unknown(variable, known)
        for variable in sorted(environ)
        if variable.upper().startswith(PREFIX)
        and variable.upper() not in known
        and not _is_service_link(variable, environ[variable])
    )


def _is_service_link(variable: str, value: str) -> bool:
    name = variable.removeprefix(PREFIX)
    is_url = name.endswith("PORT") and re.match(r"(tcp|udp|sctp)://", value) is not None
    return is_url or _SERVICE_LINK.fullmatch(name) is not None


def _unknown(variable: str, known: list[str]) -> str:
    near = difflib.get_close_matches(variable.upper(), known, n=1, cutoff=0.75)
    way_out = f"did you mean {near[0]}?" if near else "remove it."
    return f"{as_typed(variable)} is not a setting: {way_out}"


def _sentence(details: ErrorDetails, options: Mapping[str, str]) -> str:
    if not details["loc"]:  # a rule about several settings names them itself
        return f"{details['msg'].removeprefix('Value error, ')}."
    name = str(details["loc"][0])
    variable = PREFIX + name.upper()
    if details["type"] == "missing":
        return f"{variable} is not set: give it a value."
    value = options.get(name, os.environ.get(variable, str(details["input"])))
    shown = as_typed(value)
    if name not in options and re.match(r"(tcp|udp|sctp)://", shown):
        return (
            f'{variable}="{shown}" was set by Kubernetes for a Service of that name: set it in '
            "the pod's env or set enableServiceLinks to false."
        )
    way_out = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if way_out != details["msg"] and not details["msg"].startswith("Value error"):
        way_out = f"it should be {way_out}"
    place = option(name) if name in options else variable
    return f'{place}="{shown}" cannot be used: {as_typed(way_out)}.'
