"""Volumes that exist in one zone only, and claims that wait for their first consumer."""

from typing import Final

from controlplane import Cluster
from tests.cluster.objects import Json
from tests.cluster.scheduling.workloads import ZONE, Workloads
from tests.cluster.tenants import unique

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""By which kube-scheduler tells a provisioner where the consumer will run."""

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


class Volumes:
    """A storage class of volumes that are bound when their first consumer is scheduled.

    Those that are there are chosen from, unless a provisioner is named: then each is made for its
    claim, and the test is the provisioner.
    """

    def __init__(self, cluster: Cluster, provisioner: str = "kubernetes.io/no-provisioner") -> None:
        self._api = cluster.admin
        self.name = unique("local")
        self._made: list[str] = []
        self._api.create(
            STORAGE,
            {
                "metadata": {"name": self.name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )

    def add(self, zone: str, claim: Json | None = None) -> None:
        """Makes a volume of a zone, for anyone or for one claim."""
        self._made.append(unique("pv"))
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        self._api.create(
            VOLUMES,
            {
                "metadata": {"name": self._made[-1]},
                "spec": {
                    **({"claimRef": reference(claim)} if claim else {}),
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

    def wanted(self, workloads: Workloads) -> dict[str, str]:
        """The claims for which a volume is asked for now, and the node it is to be reached from."""
        path = f"/api/v1/namespaces/{workloads.namespace}/persistentvolumeclaims"
        claims = {
            item["metadata"]["name"]: item["metadata"] for item in self._api.get(path)["items"]
        }
        return {
            name: metadata["annotations"][SELECTED_NODE]
            for name, metadata in claims.items()
            if SELECTED_NODE in metadata.get("annotations", {})
        }

    def provision(self, workloads: Workloads, name: str, zone: str) -> None:
        """Makes the volume that a claim asks for, as a provisioner does."""
        path = f"/api/v1/namespaces/{workloads.namespace}/persistentvolumeclaims"
        self.add(zone, self._api.get(f"{path}/{name}"))

    def remove(self) -> None:
        for name in self._made:
            self._api.merge_patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
            self._api.delete(f"{VOLUMES}/{name}")
        self._api.delete(f"{STORAGE}/{self.name}")


def reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        **{key: metadata[key] for key in ("namespace", "name", "uid")},
    }
