"""docs/cli.schema.json: the JSON Schema of what the command line prints under `-o json` and `yaml`.

It is made of the dataclasses that are printed. Texts that are empty and members that are None are
left out of documents, so neither is required.
"""

import dataclasses
import json
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from generate.console import ROOT
from generate.output import settle
from schedclass.domain import names
from schedclass.domain.insight.checks import Violation
from schedclass.domain.insight.explain_class import ClassExplanation, ClassUsage
from schedclass.domain.insight.explain_pod import PodExplanation
from schedclass.domain.insight.explain_workload import MissingPods
from schedclass.domain.insight.explanation import Explanation
from schedclass.domain.insight.impact import Impact
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.tenant_tree import TreeRow
from schedclass.domain.insight.trial import Group

TARGET: Final = ROOT / "docs/cli.schema.json"

_CONFIG: Final = ConfigDict(alias_generator=to_camel, extra="forbid", strict=False)
_models: dict[type, type[BaseModel]] = {}


def model_of(cls: Any) -> type[BaseModel]:  # noqa: ANN401 - a dataclass
    """The model of a dataclass as documents show it."""
    if cls not in _models:
        hints = get_type_hints(cls)
        fields: dict[str, Any] = {
            field.name: _field(hints[field.name]) for field in dataclasses.fields(cls)
        }
        said = (cls.__doc__ or "").partition("\n")[0]
        _models[cls] = create_model(cls.__name__, __config__=_CONFIG, __doc__=said, **fields)
    return _models[cls]


def _field(hint: Any) -> tuple[Any, Any]:  # noqa: ANN401 - any type and any default
    shown = _shown(hint)
    optional = type(None) in get_args(hint)
    may_be_empty = hint is str or optional
    return (shown, None) if may_be_empty and not _is_enum(hint) else (shown, ...)


def _is_enum(hint: Any) -> bool:  # noqa: ANN401 - any type
    return isinstance(hint, type) and issubclass(hint, Enum)


def _shown(hint: Any) -> Any:  # noqa: ANN401 - from a type to what JSON shows of it
    if dataclasses.is_dataclass(hint):
        return model_of(hint)
    arguments = get_args(hint)
    if not arguments:
        return hint
    if type(None) in arguments:
        return _shown(Union[tuple(a for a in arguments if a is not type(None))])  # noqa: UP007
    if get_origin(hint) is tuple:
        return list[_shown(arguments[0])]  # type: ignore[misc]
    if len(arguments) == 2:
        return dict[str, _shown(arguments[1])]  # type: ignore[misc]
    return hint


class Unknown(BaseModel):
    """A part of the cluster that could not be seen, or not all of it."""

    model_config = _CONFIG
    part: Part
    why: str


def _document(kind: str, **fields: Any) -> type[BaseModel]:
    head: dict[str, Any] = {
        "apiVersion": (Literal[names.CLI_API_VERSION], ...),
        "kind": (Literal[kind], ...),
        "source": (str, ...),
        "unknown": (list[Unknown], ...),
    }
    return create_model(kind, __config__=_CONFIG, **head, **fields)


def documents() -> dict[str, type[BaseModel]]:
    """The models of all documents by kind."""
    violations: Any = list[model_of(Violation)]  # type: ignore[misc]
    numbers = dict[str, int]
    pod = create_model(
        "PodExplained", __base__=model_of(PodExplanation), events=(list[str], Field(...))
    )
    summary = create_model(
        "CheckSummary",
        __config__=_CONFIG,
        violations=(int, ...),
        notes=(int, ...),
        examined=(numbers, ...),
    )
    made = [
        _document("TenantTree", namespaces=(list[model_of(TreeRow)], ...)),  # type: ignore[misc]
        _document("NamespaceExplanation", explanation=(model_of(Explanation), ...)),
        _document("ClassExplanation", explanation=(model_of(ClassExplanation), ...)),
        _document("PodExplanation", explanation=(pod, ...)),
        _document(
            "WorkloadExplanation",
            workload=(str, ...),
            existing=(int, ...),
            wanted=(int, None),
            controller_says=(list[str], ...),
            pods=(list[pod], ...),  # type: ignore[valid-type]
            missing=(list[model_of(MissingPods)], ...),  # type: ignore[misc]
        ),
        _document("ClassUsage", usage=(model_of(ClassUsage), ...)),
        _document(
            "CheckReport",
            summary=(summary, ...),
            violations=(violations, ...),
            notes=(violations, ...),
            notJudged=(list[str], ...),
        ),
        _document(
            "Simulation",
            changes=(list[str], ...),
            findings=(violations, ...),
            impact=(model_of(Impact) | None, ...),
            groups=(list[model_of(Group)], ...),  # type: ignore[misc]
            summary=(numbers, ...),
            notModelled=(list[str], ...),
        ),
    ]
    return {model.__name__: model for model in made}


def build() -> str:
    """The whole file."""
    found: dict[str, Any] = {}
    for kind, model in documents().items():
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        found |= schema.pop("$defs", {})
        found[f"{kind}Document"] = schema
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Documents of schedclass, {names.CLI_API_VERSION}",
        "oneOf": [{"$ref": f"#/$defs/{kind}Document"} for kind in documents()],
        "$defs": _open(dict(sorted(found.items()))),
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _open(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Further members may come in later releases, so that readers should not refuse them.

    Titles only repeat the names.
    """
    if isinstance(value, dict):
        kept = {key: _open(member) for key, member in value.items()}
        if kept.get("additionalProperties") is False:
            del kept["additionalProperties"]
        if kept.get("default", "") is None:
            del kept["default"]
        if isinstance(kept.get("title"), str):
            del kept["title"]
        return kept
    return [_open(member) for member in value] if isinstance(value, list) else value


if __name__ == "__main__":
    raise SystemExit(settle({TARGET: build()}, "python -m generate.cli_schema"))
