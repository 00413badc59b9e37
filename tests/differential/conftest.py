"""The oracle of the differential tests, one process per session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import build
from controlplane.programs import ORACLE
from tests.differential.oracle import PATH_VARIABLE, Oracle, oracle_program

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.oracle)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the oracle before the first test, so that no test's time limit includes it."""
    wanted = any(item.get_closest_marker("oracle") for item in session.items)
    if not wanted or session.config.getoption("collectonly") or os.environ.get(PATH_VARIABLE):
        return
    if build.missing((ORACLE,)):
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            build.build(programs=(ORACLE,))


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle(oracle_program()) as running:
        yield running
