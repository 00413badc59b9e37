"""Renders the chart with the real helm."""

from collections.abc import Sequence

import pytest

from controlplane.build import build
from controlplane.programs import program
from tests.chart.rendering import Chart


@pytest.fixture(scope="session")
def chart() -> Chart:
    helm = program("helm")
    if not helm.exists():
        build()
    return Chart(helm)


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Rendering needs no cluster, but a first run may have to build helm."""
    for item in items:
        if "tests/chart/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(1200))
