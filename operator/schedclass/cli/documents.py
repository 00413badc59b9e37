"""Results as documents for programs: versioned, camelCase, in a fixed order."""

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic.alias_generators import to_camel

from schedclass.cli.options import Output
from schedclass.domain import names
from schedclass.domain.insight.snapshot import Snapshot

Json = dict[str, Any]


def document(kind: str, snapshot: Snapshot, body: Mapping[str, Any]) -> Json:
    """A whole document.

    Args:
        kind: e.g. `TenantTree`.
        snapshot: what it was made from.
        body: the fields of this kind; dataclasses and enums in it become plain values.
    """
    return {
        "apiVersion": names.CLI_API_VERSION,
        "kind": kind,
        "source": snapshot.origin,
        "unknown": [
            {"part": part.value, "why": why} for part, why in sorted(snapshot.unknown.items())
        ],
        **{key: plain(value) for key, value in body.items()},
    }


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of a result
    """JSON of a result: None and empty texts of dataclasses are left out, zeros are not."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Not asdict(): it copies everything, and a tree may be deep.
        members = ((_camel(f.name), getattr(value, f.name)) for f in dataclasses.fields(value))
        return {key: plain(member) for key, member in members if member not in (None, "")}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


@lru_cache(maxsize=512)
def _camel(name: str) -> str:
    return to_camel(name)


def text_of(found: Json, output: Output) -> str:
    """The document as text that ends with a newline."""
    if output is Output.YAML:
        import yaml

        return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=100))
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
