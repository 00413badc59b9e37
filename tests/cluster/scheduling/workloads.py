"""What runs in one tenant, and where: made through the API, looked at through the API."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane import Cluster, eventually, nodes
from controlplane.waiting import PATIENCE_SECONDS
from schedclass.domain import names
from tests.cluster.objects import CONTAINERS, NODES, Json, pods_path

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def anti_affinity(labels: Mapping[str, str], topology_key: str = HOSTNAME) -> Json:
    """A class' `podAntiAffinity`: no two pods with these labels in one domain."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term(labels, topology_key)]}


def term(labels: Mapping[str, str], topology_key: str) -> Json:
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": dict(labels)}}


def spread(labels: Mapping[str, str], topology_key: str = ZONE) -> list[Json]:
    """A class' `topologySpreadConstraints`: hard, at most one more than in the emptiest domain."""
    return [
        {
            "topologyKey": topology_key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": dict(labels)},
        }
    ]


def container(**requests: str) -> list[Json]:
    return [{**CONTAINERS[0], "resources": {"requests": requests}}]


class Workloads:
    """The workloads of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.api = cluster.admin
        self.namespace = namespace
        self._zones = {
            n["metadata"]["name"]: n["metadata"]["labels"].get(ZONE) for n in self.all_nodes()
        }

    # --- making -------------------------------------------------------------------------------

    def deploy(
        self,
        app: str = "web",
        *,
        replicas: int,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Creates a Deployment whose pods carry `app: APP`."""
        self._controlled("deployments", app, labels, spec, {"replicas": replicas})

    def daemon(self, app: str = "agent", **spec: Any) -> None:
        """Creates a DaemonSet."""
        self._controlled("daemonsets", app, {}, spec, {})

    def _controlled(
        self, plural: str, app: str, labels: Mapping[str, str] | None, spec: Json, more: Json
    ) -> None:
        kind = {"deployments": "Deployment", "daemonsets": "DaemonSet"}[plural]
        template = {
            "metadata": {"labels": {"app": app, **(labels or {})}},
            "spec": {"containers": CONTAINERS, **spec},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}, "template": template, **more},
        }
        self.api.create(f"/apis/apps/v1/namespaces/{self.namespace}/{plural}", body)

    def scale(self, app: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{app}"
        self.api.merge_patch(path, {"spec": {"replicas": replicas}})

    def create(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        class_name: str | None = None,
        **spec: Any,
    ) -> Json:
        """Creates a bare pod; `class_name` pins it by annotation where no class applies."""
        metadata: Json = {"name": name, "labels": {"app": name, **(labels or {})}}
        if class_name is not None:
            metadata["annotations"] = {names.CLASS_KEY: class_name}
            spec["schedulerName"] = names.SCHEDULER_NAME
        body = {"metadata": metadata, "spec": {"containers": CONTAINERS, **spec}}
        return self.api.create(pods_path(self.namespace), body)

    def delete(self, name: str) -> None:
        self.api.request("DELETE", f"{pods_path(self.namespace)}/{name}", {"gracePeriodSeconds": 0})

    def remove_all(self) -> None:
        """Ends everything that runs, so that it takes no place in the next test."""
        for plural in ("deployments", "daemonsets"):
            path = f"/apis/apps/v1/namespaces/{self.namespace}/{plural}"
            self.api.request("DELETE", path, {"propagationPolicy": "Background"})
        self.api.request("DELETE", pods_path(self.namespace), {"gracePeriodSeconds": 0})

    # --- looking ------------------------------------------------------------------------------

    def all_nodes(self) -> list[Json]:
        return list(self.api.get(NODES)["items"])

    def pods(self, app: str | None = None) -> list[Json]:
        selector = f"?labelSelector=app%3D{app}" if app else ""
        return list(self.api.get(f"{pods_path(self.namespace)}{selector}")["items"])

    def pod(self, name: str) -> Json:
        return self.api.get(f"{pods_path(self.namespace)}/{name}")

    def placement(self, app: str | None = None) -> Counter[str]:
        """How many pods each node has."""
        found = (pod["spec"].get("nodeName") for pod in self.pods(app))
        return Counter(node for node in found if node)

    def zones(self, app: str | None = None) -> Counter[str | None]:
        """How many pods each zone has."""
        result: Counter[str | None] = Counter()
        for node, count in self.placement(app).items():
            result[self._zones[node]] += count
        return result

    def pending(self, app: str | None = None) -> list[Json]:
        return [pod for pod in self.pods(app) if not pod["spec"].get("nodeName")]

    def node_of(self, name: str) -> str | None:
        node = self.pod(name)["spec"].get("nodeName")
        return str(node) if node else None

    def why_pending(self, name: str) -> str:
        """What the scheduler says of a pod, empty if nothing yet."""
        return message(self.pod(name))

    # --- waiting ------------------------------------------------------------------------------

    def wait_placed(
        self, count: int, app: str | None = None, *, seconds: float = PATIENCE_SECONDS
    ) -> None:
        eventually(
            f"{count} pods of {self.namespace} have a node",
            lambda: sum(self.placement(app).values()) == count,
            seconds=seconds,
        )

    def wait_node(self, name: str, *, seconds: float = PATIENCE_SECONDS) -> str:
        """Waits until a pod has a node, and returns that."""
        return (
            eventually(
                f"{name} has a node", lambda: self.node_of(name), seconds=seconds, interval=0.02
            )
            or ""
        )

    def wait_pending(self, name: str, *parts: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Waits until a pod is said to be unschedulable for these reasons; returns the message."""

        def told() -> str:
            pod = self.pod(name)
            assert not pod["spec"].get("nodeName"), f"{name} runs on {pod['spec']['nodeName']}"
            text = message(pod)
            return text if text and all(part in text for part in parts) else ""

        return eventually(f"{name} waits: {parts}", told, seconds=seconds)

    def wait_one_pending(self, app: str, *parts: str) -> str:
        """Waits until exactly one pod is left without a node for these reasons."""

        def told() -> str:
            (pod,) = self.pending(app)
            text = message(pod)
            assert all(part in text for part in parts), text
            return text

        def told_or_not_yet() -> str:
            try:
                return told()
            except ValueError:
                return ""

        return eventually(f"one pod of {app} waits: {parts}", told_or_not_yet)


def message(pod: Json) -> str:
    """The message of `PodScheduled=False` for a pod that cannot be scheduled."""
    found: Sequence[Json] = pod.get("status", {}).get("conditions") or ()
    for condition in found:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition["message"])
    return ""


class Nodes:
    """Changes nodes for a test and undoes it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._undo: list[tuple[str, Json]] = []
        self._added: list[str] = []

    def label(self, name: str, key: str, value: str | None) -> None:
        node = self._cluster.admin.get(f"{NODES}/{name}")
        before = node["metadata"]["labels"].get(key)
        self._undo.append((name, {"metadata": {"labels": {key: before}}}))
        self._cluster.admin.merge_patch(f"{NODES}/{name}", {"metadata": {"labels": {key: value}}})

    def cordon(self, name: str) -> None:
        self._undo.append((name, {"spec": {"unschedulable": None}}))
        self._cluster.admin.merge_patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}})

    def uncordon(self, name: str) -> None:
        self._cluster.admin.merge_patch(f"{NODES}/{name}", {"spec": {"unschedulable": None}})

    def taint(self, name: str, *taints: Json) -> None:
        self._undo.append((name, {"spec": {"taints": None}}))
        self._cluster.admin.merge_patch(f"{NODES}/{name}", {"spec": {"taints": list(taints)}})

    def add(self, name: str, zone: str = "a", **more: Any) -> str:
        self._added.append(name)
        self._cluster.add_nodes([nodes.node(name, zone, **more)])
        return name

    def wait_ready(self, *names_: str) -> None:
        self._cluster.wait_nodes_ready(list(names_) or self._added)

    def remove(self, name: str) -> None:
        self._added.remove(name)
        self._cluster.admin.delete(f"{NODES}/{name}")

    def restore(self) -> None:
        for name, body in reversed(self._undo):
            if self._cluster.admin.find(f"{NODES}/{name}") is not None:
                self._cluster.admin.merge_patch(f"{NODES}/{name}", body)
        for name in list(self._added):
            self.remove(name)
