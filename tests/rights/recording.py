"""A plugin of pytest: what became of each test, and when it ran, as JSON lines."""

import json
import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reports", type=Path, help="file to append the reports to")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker's reports arrive at its controller
        config.pluginmanager.register(_Recording(config.getoption("reports")))


class _Recording:
    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        line = {
            "test": report.nodeid,
            "when": report.when,
            "outcome": report.outcome,
            "start": report.start,
            "stop": report.stop,
            "worker": getattr(report, "worker_id", ""),
            "text": report.longreprtext[-4000:] if report.failed else "",
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
