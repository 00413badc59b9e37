"""The real control plane of the cluster tests: one per session, in a temporary folder."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane import Api, Cluster, Installation, Kubectl, build, eventually
from controlplane.components import ROOMY
from controlplane.identities import ADMINS
from schedclass.domain import names
from schedclass.kube.client import KubeClient
from schedclass.kube.credentials import kubeconfig
from tests.cluster.objects import NAMESPACES, REGION
from tests.cluster.refusals import refused_requests
from tests.cluster.replicas import Replica
from tests.cluster.tenants import Tenants, unique

HERE = Path(__file__).parent

# A killed leader is followed within seconds, so that tests need not wait for it.
QUICK_LEASE = {
    "SCHEDCLASS_LEASE_DURATION_SECONDS": "10",
    "SCHEDCLASS_LEASE_DEADLINE_SECONDS": "8",
    "SCHEDCLASS_LEASE_RETRY_SECONDS": "0.5",
}
# Everything is placed with hints as well, though there are three nodes only.
HINTS = {
    "SCHEDCLASS_NOMINATION_LEAST_NODES": "1",
    "SCHEDCLASS_NOMINATION_LEAST_CANDIDATES": "2",
}
QUICK_SWEEP = {"SCHEDCLASS_SWEEP_SECONDS": "2"}
QUICK_CERTIFICATES = {"SCHEDCLASS_CERTIFICATE_CHECK_SECONDS": "2"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what is missing before the first test, so that no test's time limit includes it."""
    wanted = any(item.get_closest_marker("cluster") for item in session.items)
    if not wanted or session.config.getoption("collectonly") or not build.missing():
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        build.build()


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), env=ROOMY) as cluster:
        cluster.create_nodes(3)
        yield cluster


@pytest.fixture(scope="session")
def session_operator(session_cluster: Cluster) -> Iterator[Installation]:
    # Everybody's right to read classes would hide that a role of ours lacks it.
    values = {"rbac": {"readableByAuthenticated": False}}
    env = QUICK_LEASE | QUICK_SWEEP | QUICK_CERTIFICATES | HINTS
    installation = Installation(session_cluster, values=values, env=env)
    installation.start()
    tenants = Tenants(session_cluster)
    for region in ("west", "east"):
        tenants.create_class(f"dc-{region}", nodeSelector={REGION: region})
    yield installation
    assert refused_requests(installation) == [], "the operator lacked a right in some test"


@pytest.fixture
def cluster(session_cluster: Cluster) -> Cluster:
    """The control plane of the session with `node-1` to `node-3`, healed of the last test."""
    session_cluster.heal()
    return session_cluster


@pytest.fixture
def operator(cluster: Cluster, session_operator: Installation) -> Installation:
    """The operator on it: chart, two webhook replicas, two controllers; all ready.

    The class `dc-west` allows `node-1` and `node-2`, `dc-east` allows `node-3`.
    """
    session_operator.heal()
    return session_operator


@pytest.fixture
def known_scheduler(operator: Installation) -> None:
    """Every webhook replica knows that a scheduler runs; while it does not, it warns of that."""
    api = operator.cluster.admin
    body = {"metadata": {"name": unique("probe"), "labels": {names.CLASS_KEY: "dc-west"}}}

    def silent() -> bool:
        for _ in range(2 * len(operator.webhooks)):
            api.create(f"{NAMESPACES}?dryRun=All", body)
            if api.warnings:
                return False
        return True

    eventually("nobody warns of a missing scheduler", silent)


@pytest.fixture
def scheduler(operator: Installation) -> Api:
    """A client with the name of the release's own scheduler: nobody else may bind pinned pods."""
    return operator.cluster.identities.api(operator.user("scheduler"), ADMINS)


@pytest.fixture
def replicas(operator: Installation) -> list[Replica]:
    """Its webhook replicas, to be asked directly."""
    return [Replica(operator, name) for name in operator.webhooks]


@pytest.fixture
def tenants(operator: Installation) -> Iterator[Tenants]:
    """Namespaces of the test's own, removed afterwards."""
    made = Tenants(operator.cluster)
    yield made
    made.clean_up()


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """kubectl with the admin's rights."""
    return cluster.kubectl


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """A plain JSON client with the admin's rights."""
    return cluster.admin


@pytest_asyncio.fixture
async def kube(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """The operator's own client with the admin's rights."""
    source = kubeconfig(str(cluster.kubeconfig))
    async with await KubeClient.load(role="tests", source=source) as client:
        yield client


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own, without a class; removed afterwards."""
    name = cluster.create_namespace()
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")
