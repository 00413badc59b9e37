"""Fields of manifests that no API server knows."""

from collections.abc import Iterator, Mapping
from typing import Any


def unknown_fields(obj: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about the fields of an object that its kind does not have."""
    yield from ()
