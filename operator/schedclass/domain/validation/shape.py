"""Decoding of untyped JSON into the models, as the API server decodes a pod.

The rules are those of its JSON decoder: names are case-sensitive, null is the same as absent (and
the zero value inside a list or a map), a number is never read from a string nor a whole number
from a fraction, `int32` is bounded, and an unknown field is dropped with a warning.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from schedclass.domain.findings import Reason
from schedclass.domain.near import nearest
from schedclass.domain.podfields import PodField
from schedclass.domain.validation.report import Report, entry, item, quoted

_INT32 = range(-(2**31), 2**31)
_SURROGATE = re.compile("[\ud800-\udfff]")

ModelT = TypeVar("ModelT", bound=PodField)


def decode_model(model: type[ModelT], raw: object, path: str, report: Report) -> ModelT:
    """Read one object.

    Args:
        model: what to read it as.
        raw: JSON-like value; None gives the model with all fields absent.
        path: where the value stands, for the findings.
        report: receives an error for each value of the wrong type, whose field then has its zero
            value, and a warning for each unknown field.

    Returns:
        The model, complete as far as its parts could be read.
    """
    if raw is None:
        return model()
    if not isinstance(raw, Mapping):
        report.mistyped(path, f"must be an object with fields, not {_kind(raw)}")
        return model()
    fields = _names_by_alias(model)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        name = fields.get(key) if isinstance(key, str) else None
        if name is None:
            _warn_unknown(key, tuple(fields), path, report)
        elif value is not None:
            annotation = model.model_fields[name].annotation
            values[name] = _decode(annotation, value, f"{path}.{key}", report)
    return model(**values)


@cache
def _names_by_alias(model: type[PodField]) -> dict[str, str]:
    """Attribute names of a model by the API's field names."""
    return {str(info.validation_alias): name for name, info in model.model_fields.items()}


def _warn_unknown(key: object, known: tuple[str, ...], path: str, report: Report) -> None:
    near = nearest(key, known) if isinstance(key, str) else ""
    advice = f"did you mean {near}?" if near else f"known fields: {', '.join(known)}"
    report.warn(
        Reason.UNSUPPORTED_FIELD, entry(path, key), f"is no known field and has no effect; {advice}"
    )


def _decode(annotation: Any, raw: object, path: str, report: Report) -> Any:  # noqa: ANN401
    """Read a value that a model's field of this annotation accepts."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in get_args(annotation) if arg is not NoneType)
        value = _decode(inner, raw, path, report)
        return None if report.is_mistyped(path) else value
    if origin is tuple:
        return _decode_list(get_args(annotation)[0], raw, path, report)
    if origin is not None:  # the only other generic of the models is Mapping[str, str]
        return _decode_map(raw, path, report)
    if annotation is str:
        return _decode_string(raw, path, report)
    if annotation is int:
        return _decode_int32(raw, path, report)
    return decode_model(annotation, raw, path, report)


def _decode_list(inner: Any, raw: object, path: str, report: Report) -> tuple[Any, ...]:  # noqa: ANN401
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        report.mistyped(path, f"must be a list, not {_kind(raw)}")
        return ()
    return tuple(_decode(inner, value, item(path, i), report) for i, value in enumerate(raw))


def _decode_map(raw: object, path: str, report: Report) -> dict[str, str]:
    if not isinstance(raw, Mapping):
        report.mistyped(path, f"must be a map of strings, not {_kind(raw)}")
        return {}
    decoded: dict[str, str] = {}
    for key, value in raw.items():
        if isinstance(key, str):
            decoded[_well_formed(key)] = _decode_string(value, entry(path, key), report)
        else:
            report.mistyped(entry(path, key), "has a key that is not a string; put it in quotes")
    return decoded


def _decode_string(raw: object, path: str, report: Report) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str):
        report.mistyped(path, f"must be a string, not {_kind(raw)}; put it in quotes")
        return ""
    return _well_formed(raw)


def _well_formed(text: str) -> str:
    """The text with lone surrogates, which no UTF-8 can hold, replaced as Go's decoder does."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _decode_int32(raw: object, path: str, report: Report) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        report.mistyped(path, f"must be a whole number without quotes, not {_kind(raw)}")
        return 0
    if raw not in _INT32:
        report.mistyped(path, "must fit into 32 bits: at most 2147483647")
        return 0
    return raw


def _kind(raw: object) -> str:
    """What a value of the wrong type is, in the words of JSON."""
    if isinstance(raw, str):
        return f"the string {quoted(raw)}"
    if isinstance(raw, bool):
        return f"the boolean {quoted(raw)}"
    if isinstance(raw, int | float):
        return f"the number {quoted(raw)}"
    if isinstance(raw, list | tuple):
        return "a list"
    return "an object" if isinstance(raw, Mapping) else quoted(raw)
