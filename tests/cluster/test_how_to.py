"""The how-to pages are true: each command prints what stands below it, in the order of the page."""

from pathlib import Path

import pytest

from controlplane import Installation
from generate.cluster_docs import PAGES, Terminal, page
from tests.cluster.leftovers import remove_workloads


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_prints_what_the_page_says(operator: Installation, path: Path) -> None:
    remove_workloads(operator.cluster)
    terminal = Terminal(operator.cluster)
    now = page(path, terminal, terminal.until_as)
    assert now == path.read_text(encoding="utf-8"), "renew it with: make docs"
