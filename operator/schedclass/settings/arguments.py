"""Settings as options of a command line: `--probe-port=9000` or `--probe-port 9000`.

A value is read exactly as that of the setting's variable, so it stays a string here. Libraries for
command lines have rules of their own for lists, JSON and `null`, and the two ways would differ.
"""

import difflib
from collections.abc import Sequence

from schedclass.domain.text import as_typed
from schedclass.settings.model import Settings


def option(name: str) -> str:
    """The option of a setting."""
    return "--" + name.replace("_", "-")


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Tell options apart from what is none.

    Returns:
        The values by the name of the setting, the last one where an option is repeated; and one
        sentence per argument that cannot be used.
    """
    settings = {option(name): name for name in Settings.model_fields}
    values: dict[str, str] = {}
    problems: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        given, separator, value = argument.partition("=")
        # A value that begins like an option was left out rather than meant.
        has_next = bool(rest) and not rest[0].startswith("--")
        name = settings.get(given)
        if name is None:
            problems.append(_unknown(argument, given, list(settings)))
            if given.startswith("--") and not separator and has_next:
                rest.pop(0)  # its value is no mistake of its own
        elif separator:
            values[name] = value
        elif has_next:
            values[name] = rest.pop(0)
        else:
            problems.append(f"{given} has no value: write {given}=VALUE.")
    return values, tuple(problems)


def _unknown(argument: str, given: str, known: list[str]) -> str:
    if not given.startswith("-"):
        return f'"{as_typed(argument)}" is no option: write settings as --NAME=VALUE.'
    # As people write it who know the variable, or another command line.
    near = difflib.get_close_matches(
        "--" + given.lstrip("-").lower().replace("_", "-").removeprefix("schedclass-"),
        known,
        n=3,
        cutoff=0.75,
    )
    way_out = f"did you mean {' or '.join(near)}?" if near else "remove it."
    return f"{as_typed(given)} is not a setting: {way_out}"
