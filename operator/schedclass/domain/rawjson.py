"""Reading JSON that anybody may have written: without failing on its shape, or with a sentence."""

from collections.abc import Mapping
from typing import Any


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object; anything else, null included, reads as an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """The JSON objects of a list; what else stands there, or is no list at all, is left out."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def mapping(value: object, path: str) -> Mapping[str, Any]:
    """The value if it is a JSON object; null reads as an empty one.

    Raises:
        ValueError: it is something else; the message names the path.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{path}: must be an object with fields")  # noqa: TRY004 - input, not code
    return value


def mappings(value: object, path: str) -> list[Mapping[str, Any]]:
    """The JSON objects of a list; null reads as an empty one.

    Raises:
        ValueError: it is no list, or something else stands there; the message names the path.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{path}: must be a list")  # noqa: TRY004 - input, not code
    return [mapping(item, path) for item in value]
