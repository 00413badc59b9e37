"""One control plane for all faults; a table of what each did at the end."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from controlplane import Cluster, build
from controlplane.components import ROOMY
from tests.cluster.tenants import Tenants
from tests.faults.proxy import Proxy
from tests.faults.report import Row, table
from tests.faults.scene import ProxiedInstallation, Scene

HERE = Path(__file__).parent
FAULT = "fault"
"""Under which the row of a fault is among the properties of its test's report."""

# Leases that are short, so that a killed leader is followed within seconds.
LONG = {
    "SCHEDCLASS_LEASE_DURATION_SECONDS": "15",
    "SCHEDCLASS_LEASE_DEADLINE_SECONDS": "12",
    "SCHEDCLASS_LEASE_RETRY_SECONDS": "1",
}
# All waits short, so that what takes minutes in real life takes seconds here.
SHORT = {
    "SCHEDCLASS_LEASE_DURATION_SECONDS": "10",
    "SCHEDCLASS_LEASE_DEADLINE_SECONDS": "8",
    "SCHEDCLASS_LEASE_RETRY_SECONDS": "0.5",
    "SCHEDCLASS_RESYNC_SECONDS": "4",
    "SCHEDCLASS_STALE_SECONDS": "20",
    "SCHEDCLASS_CERTIFICATE_CHECK_SECONDS": "1",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long-faults", action="store_true", help="more rounds, and real time limits")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(1800 if config.getoption("long_faults") else 600))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what is missing before the first test, so that no test's time limit includes it."""
    if session.config.getoption("collectonly") or not build.missing():
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        build.build()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> None:
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    rows = [
        Row(**value)
        for report in sorted(reports, key=lambda report: report.location[:2])
        for key, value in report.user_properties
        if key == FAULT and isinstance(value, dict)
    ]
    if rows:
        terminalreporter.section("faults")
        for line in table(rows):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def session_scene(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Scene]:
    long = bool(pytestconfig.getoption("long_faults"))
    with Cluster(tmp_path_factory.mktemp("faults"), env=ROOMY) as cluster:
        cluster.create_nodes(3)
        with Proxy(cluster.port("proxy"), cluster.port("kube-apiserver")) as proxy:
            operator = ProxiedInstallation(cluster, env=LONG if long else SHORT)
            operator.start()
            scene = Scene(cluster, operator, proxy, Tenants(cluster), long, report=print)
            scene.build()
            yield scene


@pytest.fixture
def scene(session_scene: Scene, request: pytest.FixtureRequest) -> Scene:
    """The scene, healed of the last fault."""
    session_scene.heal()
    properties = request.node.user_properties  # they reach the summary from workers as well
    session_scene.report = lambda row: properties.append((FAULT, asdict(row)))
    return session_scene
