"""The CRD comes late, goes and comes back: unknown is not absent, and nothing needs a restart."""

from collections.abc import Iterator

import pytest

from controlplane import Cluster, Installation, eventually
from controlplane.components import ROOMY
from controlplane.paths import REPOSITORY
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CLASSES,
    class_path,
    conditions,
    labels,
    pinned_to,
    pod,
    pods_path,
)
from tests.cluster.replicas import Replica
from tests.cluster.tenants import Tenants, unique

CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
MANIFEST = REPOSITORY / "crds" / f"{names.PLURAL}.{names.GROUP}.yaml"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Installation]]:
    """A control plane of this module's own on which the operator starts without the CRD."""
    with Cluster(tmp_path_factory.mktemp("bare"), env=ROOMY) as cluster:
        cluster.create_nodes(1)
        installation = Installation(cluster, values={"crds": {"enabled": False, "keep": False}})
        installation.install_chart()
        installation.start_service()
        for name in installation.replicas:
            installation.start_replica(name, wait=False)
        yield cluster, installation


@pytest.fixture
def own(bare: tuple[Cluster, Installation]) -> Iterator[Tenants]:
    tenants = Tenants(bare[0])
    yield tenants
    tenants.clean_up()


def apply_crd(tenants: Tenants) -> None:
    tenants.cluster.kubectl("apply", "--server-side", "-f", str(MANIFEST))


def wait_working(tenants: Tenants, installation: Installation) -> None:
    """Waits until a new class is judged, inherited, and pins pods."""
    for name in installation.replicas:
        installation.wait_replica_ready(name, seconds=60)
    name = unique("class")
    tenants.create_class_when_served(name)
    parent = tenants.create(wants=name)
    below = tenants.create(below=parent, with_account=True)
    tenants.settle({parent: name, below: name})

    def is_ready() -> bool:
        return bool(conditions(tenants.api.get(class_path(name)))["Ready"]["status"] == "True")

    eventually("the class is Ready", is_ready)
    tried = f"{pods_path(below)}?dryRun=All"
    eventually(
        "pods are pinned", lambda: pinned_to(tenants.api.create(tried, pod())) == name, seconds=30
    )


def test_without_the_crd_it_waits_unready_and_starts_working_once_it_is_there(
    bare: tuple[Cluster, Installation], own: Tenants
) -> None:
    _, installation = bare
    pids = {name: installation.process(name).pid for name in installation.replicas}
    early, below = own.create(with_account=True), own.create()
    own.move(below, below=early)
    own.ask(early, "early")
    # Inheritance needs no class: the name travels.
    eventually("the name is inherited", lambda: own.class_of(below) == "early")
    assert labels(own.get(below)).get(names.ENFORCED) is None
    assert not any(map(installation.is_ready, installation.webhooks))
    # Nobody stands in the way meanwhile.
    assert pinned_to(own.api.create(pods_path(early), pod())) is None
    apply_crd(own)
    own.create_class_when_served("early")
    own.settle({early: "early", below: "early"})
    wait_working(own, installation)
    assert {name: installation.process(name).pid for name in installation.replicas} == pids


def test_a_deleted_crd_unpins_nobody_and_a_new_one_is_picked_up(
    bare: tuple[Cluster, Installation], own: Tenants
) -> None:
    _, installation = bare
    apply_crd(own)
    wait_working(own, installation)
    pids = {name: installation.process(name).pid for name in installation.replicas}
    used = own.create_class(unique("used"))
    namespace = own.create(wants=used, with_account=True)
    own.settle({namespace: used})
    eventually("it is protected", lambda: labels(own.api.get(class_path(used))))
    own.api.delete(CRD)
    # Its deletion waits for the class, and the class for its namespaces: it works on.
    own.wait_event("default", Reason.DELETING, about=used)
    assert pinned_to(own.api.create(pods_path(namespace), pod())) == used
    assert labels(own.get(namespace))[names.ENFORCED] == "true"
    own.ask(namespace, None)
    for item in own.api.get(CLASSES)["items"]:
        for bound in own.api.get(f"/api/v1/namespaces?labelSelector={names.CLASS_KEY}")["items"]:
            if labels(bound)[names.CLASS_KEY] == item["metadata"]["name"]:
                own.ask(bound["metadata"]["name"], None)
    eventually("the CRD is gone", lambda: own.api.find(CRD) is None, seconds=60)
    lost = own.create(wants="lost")
    # For a moment the API server goes on serving classes, and then none is there by its own word.
    eventually("classes are not served", lambda: own.api.find(CLASSES) is None)
    # Not served is not absent: neither "it does not exist" nor an unpinned pod by our word.
    for name in installation.webhooks:
        replica = Replica(installation, name)

        def is_unknown(replica: Replica = replica) -> bool:
            reply = replica.review_pod(pod(), lost)
            assert reply.status == 500, reply.text
            return '"lost"' in reply.text

        eventually(f"{name} does not know whether the class exists", is_unknown)
    apply_crd(own)
    wait_working(own, installation)
    assert {name: installation.process(name).pid for name in installation.replicas} == pids
