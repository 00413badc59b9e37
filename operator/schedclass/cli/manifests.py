"""Objects from files, folders and standard input, read as kubectl reads them."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from schedclass.cli import yamltext
from schedclass.cli.problems import InputError

SUFFIXES: Final = (".json", ".yaml", ".yml")
"""Files that are read of a folder, as by kubectl."""

_SEPARATOR: Final = "---"
_LISTS_DEEP: Final = 5

_BEFORE: Final = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*")
"""Lines before the first that says something."""
_TEMPLATE: Final = re.compile(r"^[^#\n]*?\{\{", re.MULTILINE)
"""An action of a Go template outside of comments. YAML may hold such text, in a quoted value or a
block, so this alone says nothing of a document that can be read."""
_ACTION: Final = re.compile(r"\{\{-?\s*(?:[.$]|include\b|template\b|tpl\b|printf\b)")
"""An action that gives text, as where an object is named."""
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""A surrogate in JSON; without its other half it is no character."""
_IS_TEMPLATE: Final = "looks like a Helm template; render it first with helm template"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object with its place.

    Attributes:
        origin: file and line, e.g. `nodes.yaml:12`.
        obj: the object; no list.
    """

    origin: str
    obj: Mapping[str, Any]


def read_all(paths: Sequence[str], *, recursive: bool, say: Say) -> Iterator[Manifest]:
    """Read manifests.

    Args:
        paths: files, folders, or `-` for standard input.
        recursive: also read the folders in folders.
        say: told of everything that kubectl would drop in silence.

    Raises:
        InputError: a path cannot be read or is no manifest; with file and line.
    """
    for path in paths:
        if path == "-":
            yield from _of_text(_decode(_standard_input(), "standard input"), "-", say)
            continue
        try:
            files = _files(path, recursive=recursive)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        for file in files:
            yield from _of_text(_read(file), str(file), say)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("standard input: is closed")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise InputError(f"standard input: {error.strerror or error}") from error


def _files(path: str, *, recursive: bool) -> list[Path]:
    if "://" in path:
        raise InputError(f"{path}: addresses are not read; fetch it and give the file, or `-`")
    top = Path(path)
    if not top.is_dir():
        return [top]
    inside = sorted(top.rglob("*") if recursive else top.glob("*"))
    found = [file for file in inside if file.suffix in SUFFIXES and file.is_file()]
    if not found:
        hint = "" if recursive else "; -R reads the folders in it too"
        raise InputError(f"{path}: holds no {', '.join(SUFFIXES)} file{hint}")
    return found


def _read(file: Path) -> str:
    try:
        return _decode(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: is not UTF-8 text") from error


def _of_text(text: str, name: str, say: Say) -> Iterator[Manifest]:
    for first, document in _documents(text):
        at = _Place(name, first, say)
        last, number = 0, 1
        for line, value in _values(document, at):
            number = number + 1 if line == last else 1
            last = line
            if value is not None:
                more = f" value {number}" if number > 1 else ""
                yield from _objects(value, f"{name}:{line}{more}", say, 0)


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    first: int
    say: Say

    def tell(self, line: int, message: str) -> None:
        self.say(f"{self.name}:{self.first + line - 1}: {message}")


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Split at lines that are `---`, perhaps with a comment, as kubectl's reader does.

    Yields:
        The number of its first line and the text of each document that is not blank.
    """
    if f"\n{_SEPARATOR}" not in text and not text.startswith(_SEPARATOR):
        yield 1, text
        return
    first = 1
    held: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        rest = line[len(_SEPARATOR) :].strip() if line.startswith(_SEPARATOR) else None
        if rest is not None and (not rest or rest.startswith("#")):
            yield first, "\n".join(held)
            first, held = number + 1, []
        else:
            held.append(line)
    yield first, "\n".join(held)


def _values(document: str, at: _Place) -> Iterator[tuple[int, Any]]:
    """The values of one document: one of YAML, or any number of JSON, each with its line."""
    start = document.lstrip()
    if start.startswith("{"):
        try:
            found = list(_json_values(document, at))
        except ValueError:
            pass  # YAML's flow style looks the same at first; its errors have lines
        else:
            for offset, value in found:
                yield at.first + document.count("\n", 0, offset), value
            return
    try:
        value = yamltext.parse(document, at.tell)
    except yamltext.YamlError as error:
        template = _TEMPLATE.search(document)
        if template is not None:
            line = at.first + document.count("\n", 0, template.end())
            raise InputError(f"{at.name}:{line}: {_IS_TEMPLATE}") from error
        line = at.first + error.line - 1
        raise InputError(f"{at.name}:{line}: {error.problem}") from error
    before = _BEFORE.match(document)
    begin = before.end() if before is not None else 0
    yield at.first + document.count("\n", 0, begin), value


def _json_values(document: str, at: _Place) -> Iterator[tuple[int, Any]]:
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            repeated.extend(key for key, times in Counter(k for k, _ in items).items() if times > 1)
        return found

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=_no_constant)
    position, end = 0, len(document)
    while True:
        while position < end and document[position].isspace():
            position += 1
        if position == end:
            return
        begin = position
        value, position = _decoded(decoder, document, begin, at)
        for key in repeated:
            at.tell(
                _line(document, begin),
                f'key "{key}" is repeated in this object; the last one counts',
            )
        repeated.clear()
        yield begin, value


def _decoded(decoder: json.JSONDecoder, document: str, begin: int, at: _Place) -> tuple[Any, int]:
    """The value that begins there, as Go reads it, and where it ends."""
    try:
        value, end = decoder.raw_decode(document, begin)
    except RecursionError as error:
        raise _too_deep(document, begin, at) from error
    if _lies_deeper(value, yamltext.DEPTH_MAX):
        raise _too_deep(document, begin, at)
    if _HALF.search(document, begin, end):
        value, halves = _without_halves(value)
        if halves:
            half = "half a character (\\uD800 to \\uDFFF) is read as \N{REPLACEMENT CHARACTER}"
            at.tell(_line(document, begin), half)
    return value, end


def _line(document: str, offset: int) -> int:
    return document.count("\n", 0, offset) + 1


def _too_deep(document: str, begin: int, at: _Place) -> InputError:
    line = at.first + _line(document, begin) - 1
    return InputError(f"{at.name}:{line}: collections lie more than {yamltext.DEPTH_MAX} deep")


def _lies_deeper(value: Any, deep: int) -> bool:  # noqa: ANN401
    """Whether collections lie deeper in each other, found without going down by calls."""
    level = [value]
    for _ in range(deep + 1):
        collections = [v.values() if isinstance(v, dict) else v for v in level if _is_collection(v)]
        if not collections:
            return False
        level = [member for members in collections for member in members]
    return True


def _is_collection(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, dict | list)


def _without_halves(value: Any) -> tuple[Any, bool]:  # noqa: ANN401
    """The value with U+FFFD for each half of a surrogate pair, as Go reads it; was there any?"""
    text = json.dumps(value, ensure_ascii=False)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return (json.loads(whole), True) if whole != text else (value, False)


def _no_constant(text: str) -> Any:  # noqa: ANN401 - signature of the decoder
    raise ValueError(f"{text} is no JSON")


def _objects(value: Any, origin: str, say: Say, depth: int) -> Iterator[Manifest]:  # noqa: ANN401
    """The object, or the items of a List or a typed list such as PodList."""
    if not isinstance(value, dict):
        raise InputError(f"{origin}: a manifest must be an object with apiVersion and kind")
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        raise InputError(f"{origin}: kind is missing")
    if not isinstance(value.get("apiVersion"), str):
        raise InputError(f"{origin}: apiVersion of this {kind} is missing")
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    called = (kind, named.get("name"), named.get("namespace"))
    if any(isinstance(text, str) and _ACTION.search(text) for text in called):
        raise InputError(f"{origin}: {_IS_TEMPLATE}")
    items = value.get("items")
    if not (kind.endswith("List") and (items is None or isinstance(items, list))):
        yield Manifest(origin, value)
        return
    if depth == _LISTS_DEEP:
        raise InputError(f"{origin}: lists lie more than {_LISTS_DEEP} deep")
    for number, item in enumerate(items or (), 1):
        at = f"{origin} item {number}"
        if item is None:
            say(f"{at}: is null and left out")
            continue
        # The API server leaves both out of the items of a typed list.
        given = {"apiVersion": value["apiVersion"], "kind": kind.removesuffix("List")}
        typed = isinstance(item, dict) and kind != "List"
        yield from _objects({**given, **item} if typed else item, at, say, depth + 1)
