"""Volumes that exist in one zone only, and pods that belong on one certain node."""

from collections.abc import Iterator

import pytest

from controlplane import Cluster
from tests.cluster.objects import REGION, Json
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.workloads import ZONE, Workloads
from tests.cluster.tenants import unique

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


class Volumes:
    """A storage class of volumes that are bound when their first consumer is scheduled."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = cluster.admin
        self.name = unique("local")
        self._made: list[str] = []
        self._api.create(
            STORAGE,
            {
                "metadata": {"name": self.name},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )

    def add(self, zone: str) -> None:
        self._made.append(unique("pv"))
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        self._api.create(
            VOLUMES,
            {
                "metadata": {"name": self._made[-1]},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": self.name,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": "/data"},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
                    },
                },
            },
        )

    def claim(self, workloads: Workloads, name: str) -> list[Json]:
        """Creates a claim and returns the `volumes` of its pod."""
        self._api.create(
            f"/api/v1/namespaces/{workloads.namespace}/persistentvolumeclaims",
            {
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": self.name,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )
        return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    def remove(self) -> None:
        for name in self._made:
            self._api.merge_patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
            self._api.delete(f"{VOLUMES}/{name}")
        self._api.delete(f"{STORAGE}/{self.name}")


@pytest.fixture
def volumes(cluster: Cluster) -> Iterator[Volumes]:
    made = Volumes(cluster)
    yield made
    made.remove()


def test_a_pod_goes_where_both_its_volume_and_its_class_are(
    tenant: Tenant, volumes: Volumes
) -> None:
    volumes.add("b")
    volumes.add("c")
    west = tenant("dc-west")
    west.create("db", volumes=volumes.claim(west, "data"))
    assert west.wait_node("db") == "node-2"


def test_a_volume_outside_the_class_leaves_the_pod_pending_for_both_reasons(
    tenant: Tenant, volumes: Volumes
) -> None:
    volumes.add("c")
    west = tenant("dc-west")
    west.create("db", volumes=volumes.claim(west, "data"))
    west.wait_pending(
        "db",
        "didn't find available persistent volumes to bind",
        '1 node(s) didn\'t match SchedulingClass "dc-west" node selector',
    )
    volumes.add("a")
    assert west.wait_node("db", seconds=5) == "node-1"


def test_daemons_run_on_allowed_nodes_and_say_elsewhere_why_not(tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.daemon()
    west.wait_placed(2)
    assert set(west.placement()) == {"node-1", "node-2"}
    text = west.wait_one_pending("agent", 'SchedulingClass "dc-west" node selector')
    assert text.startswith("0/3 nodes are available")


def test_daemons_heed_every_rule_of_a_class_as_their_owner_proves_nothing(tenant: Tenant) -> None:
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": REGION, "labelSelector": {}}
        ]
    }
    web = tenant(podAntiAffinity=apart)
    web.daemon()
    web.wait_placed(2)
    assert len(web.placement()) == 2
    web.wait_one_pending("agent", "anti-affinity")
