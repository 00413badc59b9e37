"""Reads the settings from the environment, and says in a sentence what is wrong with it."""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schedclass.settings.model import PREFIX, Settings

_SERVICE_LINK: Final = re.compile(
    r"(?:.*_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""What the kubelet adds to each container for the Services of its namespace. A release named
`schedclass` has Services whose variables begin with our prefix."""


class SettingsError(Exception):
    """The environment cannot be used.

    Attributes:
        problems: one sentence per malformed or unknown variable.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_settings() -> Settings:
    """Read the settings from the environment of this process.

    Raises:
        SettingsError: for every malformed, missing or unknown `SCHEDCLASS_` variable at once.
    """
    problems = _unknown_variables(os.environ)
    nothing: dict[str, Any] = {}
    try:
        settings = Settings(**nothing)
    except ValidationError as error:
        problems += tuple(_sentence(details) for details in error.errors())
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
    return f"{_printable(variable)} is not a setting: {way_out}"


def _sentence(details: ErrorDetails) -> str:
    if not details["loc"]:  # a rule about several settings names them itself
        return f"{details['msg'].removeprefix('Value error, ')}."
    variable = PREFIX + str(details["loc"][0]).upper()
    if details["type"] == "missing":
        return f"{variable} is not set: give it a value."
    shown = _printable(os.environ.get(variable, str(details["input"])))
    if re.match(r"(tcp|udp|sctp)://", shown):
        return (
            f'{variable}="{shown}" was set by Kubernetes for a Service of that name: set it in '
            "the pod's env or set enableServiceLinks to false."
        )
    way_out = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if way_out != details["msg"] and not details["msg"].startswith("Value error"):
        way_out = f"it should be {way_out}"
    return f'{variable}="{shown}" cannot be used: {_printable(way_out)}.'


def _printable(value: str) -> str:
    """One line of at most 200 characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in value[:200])
