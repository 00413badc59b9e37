"""Every document that was approved has the published schema, and nothing besides."""

import json
from pathlib import Path

import pytest

from generate.cli_schema import documents
from tests.unit.cli.running import GOLDEN

REAL = Path(__file__).parents[2] / "cluster/cli/golden"
STORED = [
    *sorted(GOLDEN.glob("*.json")),
    *(path for path in sorted(REAL.glob("*json.txt")) if not path.name.startswith("check")),
]


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parts[-4]}/{path.name}")
def test_a_stored_document_is_as_the_schema_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    document = json.loads(text[text.index("{") :].partition("--- notes")[0])
    documents()[document["kind"]].model_validate(document)


def test_every_kind_has_a_stored_document() -> None:
    texts = [path.read_text(encoding="utf-8") for path in STORED]
    for kind in documents():
        assert any(f'"kind": "{kind}"' in text for text in texts), kind
