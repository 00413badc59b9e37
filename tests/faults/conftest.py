"""One control plane for all faults; a table of what each did at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import Cluster, build
from tests.cluster.tenants import Tenants
from tests.faults.proxy import Proxy
from tests.faults.report import Row, table
from tests.faults.scene import ProxiedInstallation, Scene

HERE = Path(__file__).parent
ROWS = pytest.StashKey[list[Row]]()

# Short waits, so that what takes minutes in real life takes seconds here.
QUICK = {
    "SCHEDCLASS_LEASE_DURATION_SECONDS": "15",
    "SCHEDCLASS_LEASE_DEADLINE_SECONDS": "12",
    "SCHEDCLASS_LEASE_RETRY_SECONDS": "1",
}
SHORT = {
    **QUICK,
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
            item.add_marker(pytest.mark.timeout(1800 if config.getoption("long_faults") else 300))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what is missing before the first test, so that no test's time limit includes it."""
    if session.config.getoption("collectonly") or not build.missing():
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        build.build()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if rows := config.stash.get(ROWS, []):
        terminalreporter.section("faults")
        for line in table(rows):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def session_scene(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Scene]:
    long = bool(pytestconfig.getoption("long_faults"))
    with Cluster(tmp_path_factory.mktemp("faults")) as cluster:
        cluster.create_nodes(3)
        with Proxy(cluster.port("proxy"), cluster.port("kube-apiserver")) as proxy:
            operator = ProxiedInstallation(cluster, env=QUICK if long else SHORT)
            operator.start()
            rows = pytestconfig.stash.setdefault(ROWS, [])
            scene = Scene(cluster, operator, proxy, Tenants(cluster), long, rows)
            scene.build()
            yield scene


@pytest.fixture
def scene(session_scene: Scene) -> Scene:
    """The scene, healed of the last fault."""
    session_scene.heal()
    return session_scene
