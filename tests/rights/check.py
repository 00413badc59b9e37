"""Fails a run of the whole cluster suite in which a right of the chart was used by nobody.

A right that no test uses is one that no test could miss. What fails without each right is shown by
`make test-rights`.
"""

from pathlib import Path
from typing import Any

import pytest

from controlplane.rights import Right
from tests.rights.chart import chart_rights
from tests.rights.record import unused

SUITE = Path(__file__).parent.parent / "cluster"
FOLDER = "rights.folder"

_FOLDERS = pytest.StashKey[list[Path]]()
_UNUSED = pytest.StashKey[list[Right]]()
_SELECTING = ("keyword", "markexpr", "lf", "deselect", "maxfail", "collectonly")


@pytest.fixture(scope="session", autouse=True)
def folder_of_control_planes(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    """Tells where this process keeps its control planes; a worker tells its controller."""
    folder = tmp_path_factory.getbasetemp()
    output: dict[str, Any] | None = getattr(pytestconfig, "workeroutput", None)
    if output is None:
        pytestconfig.stash.setdefault(_FOLDERS, []).append(folder)
    else:
        output[FOLDER] = str(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended."""
    if FOLDER in getattr(node, "workeroutput", {}):
        node.config.stash.setdefault(_FOLDERS, []).append(Path(node.workeroutput[FOLDER]))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Looks at the audit logs, if all tests ran and passed."""
    config = session.config
    if hasattr(config, "workerinput") or exitstatus != pytest.ExitCode.OK:
        return
    arguments = {(config.invocation_params.dir / argument).resolve() for argument in config.args}
    selected = any(config.getoption(name, default=None) for name in _SELECTING)
    if selected or not arguments & {SUITE, *SUITE.parents}:
        return
    folders = config.stash.setdefault(_FOLDERS, [])
    found = unused(chart_rights(), folders)
    if found:
        config.stash[_UNUSED] = found
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Names the rights that nobody used."""
    if found := config.stash.get(_UNUSED, []):
        terminalreporter.section("rights that no test has used")
        for right in found:
            terminalreporter.write_line(str(right))
        terminalreporter.write_line("Remove them from the chart, or add tests that need them.")
