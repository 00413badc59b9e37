"""A report as one page of HTML: everything in it, nothing asked of any server.

Names, labels and messages come from whoever may write manifests. Jinja escapes each value that is
put into the page, and should one still get through, the policy of the page
(https://www.w3.org/TR/CSP3/) lets only the style and the script run that are hashed there.
"""

import base64
import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from schedclass.cli.screen import count
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.insight.report import ClassPods, Report
from schedclass.domain.nodes import Node

FILES: Final = Path(__file__).parent / "report_page"

COLOURS: Final = 9
SHAPES: Final = 7
"""Classes differ in both as long as there are no more than 63; the name is always there."""

LONGEST: Final = 600
"""Characters of one value: a message may quote a manifest of any size."""

OPEN_LINES: Final = 60
"""A tree with more lines than this starts with its first level only."""

OPEN_GROUP: Final = 20
"""A kind with more violations than this starts folded."""

TITLES: Final = {
    ViolationKind.NODE: "On a node that the class does not allow",
    ViolationKind.AFFINITY: "Against the pod affinity or anti-affinity of the class",
    ViolationKind.SPREAD: "Spread more unevenly than the class allows",
    ViolationKind.BYPASS: "Pods that escape their class",
    ViolationKind.CLASS: "Classes that do not work",
    ViolationKind.INHERITANCE: "Tenants whose wish or ancestor does not count",
    ViolationKind.DRIFT: "Namespaces that do not carry what was decided",
    ViolationKind.MANIFEST: "Objects that do not count as they were given",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar, in hundredths of it."""

    colour: str
    start: str
    width: str


def page(report: Report, date: datetime | None) -> str:
    """The whole page; the same report and date give the same page.

    Args:
        report: what is shown.
        date: of the snapshot, None for none.
    """
    look = _Look(report)
    environment = _environment()
    environment.filters |= {
        "colour": look.colour,
        "shape": look.shape,
        "pieces": look.pieces,
        "percent": _percent,
        "thousands": _thousands,
        "seen": _seen,
        "troubled": _troubled,
    }
    style, script = _asset("page.css"), _asset("page.js")
    return environment.get_template("page.html").render(
        report=report,
        date=None if date is None else _date(date),
        gaps=list(_gaps(report)),
        titles=TITLES,
        open_groups=OPEN_GROUP,
        open_levels=report.tree.shown if len(report.tree.lines) <= OPEN_LINES else 1,
        # Not escaped: they are files of this package.
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
    )


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(FILES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _policy(style: str, script: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache
def _asset(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:  # noqa: ANN401 - any value of the template
    """A value as it is put into the page; what is markup already is the template's own."""
    if isinstance(value, Markup):
        return value
    text = value if isinstance(value, str) else str(value)
    if not text.isprintable():
        text = "".join(c if _visible(c) else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(text) > LONGEST:
        return f"{text[:LONGEST]}… ({_thousands(len(text) - LONGEST)} more characters)"
    return text


def _visible(character: str) -> bool:
    # Cc: HTML forbids most; Cf: turns the direction of what follows, or hides; Cs: no text at all.
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


class _Look:
    """How classes look: colour and shape by their place in the order of names."""

    def __init__(self, report: Report) -> None:
        self._place = {name: i for i, name in enumerate(_class_names(report))}

    def colour(self, name: str | None) -> str:
        return "none" if name is None else f"c{self._place.get(name, 0) % COLOURS}"

    def shape(self, name: str) -> str:
        return f"s{self._place.get(name, 0) % SHAPES}"

    def pieces(self, held: Sequence[ClassPods], total: int) -> Iterator[Piece]:
        start = 0
        for part in held:
            yield Piece(
                self.colour(part.class_name), _percent(start, total), _percent(part.pods, total)
            )
            start += part.pods


def _class_names(report: Report) -> Iterable[str]:
    found = {cls.name for cls in report.classes}
    found |= {line.row.class_name for line in report.tree.lines if line.row and line.row.class_name}
    found |= {held.class_name for zone in report.zones for held in zone.by_class if held.class_name}
    found |= {v.class_name for group in report.violations for v in group.violations if v.class_name}
    return sorted(found)


def _percent(part: int, whole: int | None) -> str:
    return f"{100 * part / whole:.4g}" if whole else "0"


def _seen(number: int | None) -> str:
    return "?" if number is None else _thousands(number)


def _thousands(number: int) -> str:
    return f"{number:,}"


def _troubled(node: Node) -> bool:
    return not node.takes_pods


def _date(date: datetime) -> dict[str, str]:
    return {
        "machine": date.isoformat(timespec="seconds"),
        "text": date.strftime("%Y-%m-%d %H:%M %Z").strip(),
    }


def _gaps(report: Report) -> Iterator[str]:
    """What the page says of all that is not on it."""
    for part, why in sorted(report.unknown.items()):
        yield f"{part.value.capitalize()} are not all known: {why}"
    yield from (f"Not judged: {sentence}" for sentence in report.unjudged)
    tree = report.tree
    nodes = sum(zone.total - len(zone.nodes) for zone in report.zones)
    violations = sum(group.total - len(group.violations) for group in report.violations)
    small = "left out to keep this page small"
    for number, what, rest in (
        (tree.left_out, "namespace", f"of the tree {small}"),
        (tree.outside, "namespace", "not in the tree: excluded, or without a class and alone"),
        (report.more_classes, "class", small),
        (nodes, "node", f"{small}; those with violations are shown first"),
        (violations, "violation", f"{small}; `schedclass check` lists all"),
    ):
        if number:
            yield f"{count(number, what, 'classes' if what == 'class' else '')} {rest}"
