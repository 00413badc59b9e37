"""What a plain YAML scalar means to kubectl.

kubectl reads YAML with sigs.k8s.io/yaml, whose resolver (`goyaml.v2/resolve.go`) is neither YAML
1.1 nor 1.2: `y` and `on` are true, `010` is eight, `12:30` and dates stay text. The rules here are
that file's, and a test compares them with kubectl itself.
"""

import base64
import binascii
import math
import re
from typing import Any, Final

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_WORD_STARTS: Final = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS: Final = frozenset("+-0123456789.")
_INT: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)"
    r"|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_INT_MIN: Final = -(2**63)
_UINT_MAX: Final = 2**64 - 1
_INT_DIGITS_MAX: Final = 80  # no number of 64 bits is longer in any base

PREFIX: Final = "tag:yaml.org,2002:"


class ScalarError(ValueError):
    """A scalar that kubectl refuses; the message says why."""


def plain(text: str) -> Any:  # noqa: ANN401 - any scalar
    """The value of an unquoted scalar without a tag."""
    if not text:
        return None
    first = text[0]
    if first in _NUMBER_STARTS:
        return _number(text)
    if first in _WORD_STARTS:
        return _WORDS.get(text, text)
    return text


def tagged(tag: str, text: str) -> Any:  # noqa: ANN401 - any scalar
    """The value of a scalar with an explicit tag.

    Args:
        tag: the tag in full; one that is not of YAML's own is ignored, as kubectl ignores it.
        text: the scalar's text.

    Raises:
        ScalarError: the text is not of that type.
    """
    kind = tag.removeprefix(PREFIX)
    if kind == tag or kind in ("str", "timestamp"):
        return text
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=False).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise ScalarError(f"!!binary needs base64: {error}") from error
    value = plain(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if not fits.get(kind, True):
        raise ScalarError(f"cannot read {text[:40]!r} as !!{kind}")
    return value


def _number(text: str) -> Any:  # noqa: ANN401 - any scalar
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "") if text[0] != "." else text
    match = _INT.fullmatch(digits) if len(digits) <= _INT_DIGITS_MAX else None
    if match is not None and match.lastgroup is not None:
        value = int(match.group(match.lastgroup), _BASES[match.lastgroup])
        signed = bool(match.group("sign"))
        value = -value if match.group("sign") == "-" else value
        if _INT_MIN <= value <= (2**63 - 1 if signed else _UINT_MAX):
            return value
    if _FLOAT.fullmatch(digits):
        return _float(digits, text)
    return text


def _float(digits: str, text: str) -> Any:  # noqa: ANN401 - any scalar
    value = float(digits)
    if math.isinf(value):  # Go's ParseFloat reports a range error, so the text stays text
        return text
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def key_text(value: Any) -> str:  # noqa: ANN401 - any scalar
    """A mapping's key as JSON has it: kubectl turns numbers and booleans into text.

    Raises:
        ScalarError: null and collections cannot be keys.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_key(value)
    raise ScalarError(f"a key must be text, not {'null' if value is None else 'a collection'}")


def _float_key(value: float) -> str:
    """As Go formats a 32-bit-safe float: shortest digits, exponent from 1e+21 on."""
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
    return text.removesuffix(".0")
