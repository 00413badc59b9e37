"""YAML text to JSON values as kubectl reads it, with what it would drop in silence said aloud."""

import math
from collections.abc import Callable
from typing import Any, Final

import yaml

from schedclass.cli.scalars import PREFIX, ScalarError, key_text, plain, tagged

# libyaml's parser, of which kubectl's is a translation; PyYAML without it reads the same, slowly.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

DEPTH_MAX: Final = 200
"""How deep collections may lie in each other; objects of Kubernetes stay far below."""

ALIASED_MAX: Final = 1_000_000
"""How many values aliases may add to a document, so that a few lines cannot fill the memory."""

Say = Callable[[int, str], None]
"""Takes a line (from 1) and a sentence."""


class YamlError(ValueError):
    """Text that is no YAML, or that kubectl refuses.

    Attributes:
        line: the line within the text, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


def parse(text: str, say: Say) -> Any:  # noqa: ANN401 - any JSON value
    """The value of one document; None for an empty one.

    Args:
        text: the document, without `---` lines.
        say: told of each key that is repeated and of text that kubectl does not read.

    Raises:
        YamlError: the text cannot be read.
    """
    try:
        return _Reader(text, say).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(mark.line + 1 if mark else 1, problem) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"the character {error.character!r} is not allowed") from error


class _Reader:
    def __init__(self, text: str, say: Say) -> None:
        self._events = _Parser(text)
        self._say = say
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._read = 0

    def read(self) -> Any:  # noqa: ANN401
        self._next()  # the stream starts
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(self._next(), 0)
        self._next()  # the document ends
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            message = "what follows `...` is not read; begin a new document with `---`"
            self._say(_line(event), message)
        return value

    def _next(self) -> Any:  # noqa: ANN401 - PyYAML's events
        return self._events.get_event()

    def _value(self, event: Any, depth: int) -> Any:  # noqa: ANN401
        if depth > DEPTH_MAX:
            raise YamlError(_line(event), f"collections lie more than {DEPTH_MAX} deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._read
        self._read += 1
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(event, depth)
        else:
            value = self._sequence(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._read - before)
        return value

    def _member(self, event: Any, depth: int) -> Any:  # noqa: ANN401
        value = self._value(event, depth + 1)
        if isinstance(value, float) and not math.isfinite(value):
            raise YamlError(_line(event), f"{value} is no number that JSON can hold")
        return value

    def _alias(self, event: Any) -> Any:  # noqa: ANN401
        if event.anchor not in self._anchors:
            raise YamlError(_line(event), f"unknown anchor {event.anchor!r} referenced")
        value, size = self._anchors[event.anchor]
        self._read += size
        self._aliased += size
        if self._aliased > ALIASED_MAX:
            raise YamlError(_line(event), "aliases blow the document up beyond all bounds")
        return value

    def _sequence(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            values.append(self._member(event, depth))
        return values

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:  # noqa: ANN401
        result: dict[str, Any] = {}
        written: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if _is_merge(event):
                self._merge(result, self._next(), depth)
                continue
            key = self._key(event, depth)
            if key in written:
                self._say(_line(event), f'key "{key}" is repeated; the last one counts')
            written.add(key)
            result[key] = self._member(self._next(), depth)
        return result

    def _key(self, event: Any, depth: int) -> str:  # noqa: ANN401
        try:
            return key_text(self._value(event, depth + 1))
        except ScalarError as error:
            raise YamlError(_line(event), str(error)) from error

    def _merge(self, result: dict[str, Any], event: Any, depth: int) -> None:  # noqa: ANN401
        """`<<`: over the keys before it, under the keys after it, as kubectl's reader does it."""
        value = self._value(event, depth + 1)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise YamlError(_line(event), "map merge requires map or sequence of maps as the value")
        for part in reversed(parts):
            result.update(part)


def _scalar(event: Any) -> Any:  # noqa: ANN401
    if event.tag is not None and event.tag != "!":
        try:
            return tagged(event.tag, event.value)
        except ScalarError as error:
            raise YamlError(_line(event), str(error)) from error
    return plain(event.value) if event.implicit[0] and event.tag is None else event.value


def _is_merge(event: Any) -> bool:  # noqa: ANN401
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.tag == f"{PREFIX}merge" or (event.tag is None and event.implicit[0])


def _line(event: Any) -> int:  # noqa: ANN401
    return int(event.start_mark.line) + 1
