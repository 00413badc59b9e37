"""Reading JSON that anybody may have written, without failing on its shape."""

from collections.abc import Mapping
from typing import Any


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object; anything else, null included, reads as an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings_in(value: object) -> list[Mapping[str, Any]]:
    """The JSON objects of a list; what else stands there, or is no list at all, is left out."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
