"""The vocabulary of findings is whole: every reason is explained, and used."""

import re
from pathlib import Path

from schedclass.domain.findings import Reason

REPOSITORY = Path(__file__).resolve().parents[3]


def test_every_reason_is_explained_exactly_once() -> None:
    rows = (REPOSITORY / "docs" / "reasons.md").read_text().splitlines()
    explained = [
        reason
        for row in rows
        if row.startswith("| `")
        for reason in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert sorted(explained) == sorted(reason.value for reason in Reason)


def test_every_reason_is_given_somewhere() -> None:
    code = _text("operator", "*.py")
    policies = _text("helm/templates", "*")
    unused = [r for r in Reason if f"Reason.{r.name}" not in code and f"{r}: " not in policies]
    assert unused == []


def _text(folder: str, pattern: str) -> str:
    paths = (REPOSITORY / folder).rglob(pattern)
    return "\n".join(path.read_text() for path in paths if path.is_file())
