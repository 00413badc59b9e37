"""Objects as users write them, the paths they live at, and what the operator makes of them."""

from collections.abc import Mapping
from typing import Any

from schedclass.domain import names

Json = dict[str, Any]

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"

REGION = "topology.kubernetes.io/region"

CONTAINERS = [{"name": "main", "image": "web"}]


def namespace_path(name: str) -> str:
    return f"{NAMESPACES}/{name}"


def class_path(name: str) -> str:
    return f"{CLASSES}/{name}"


def pods_path(namespace: str) -> str:
    return f"{NAMESPACES}/{namespace}/pods"


def pod(name: str = "web", *, metadata: Json | None = None, **spec: Any) -> Json:
    """A pod; `spec` adds to one container, or replaces it."""
    meta = {"name": name, **(metadata or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": CONTAINERS, **spec},
    }


def workload(kind: str, name: str, **spec: Any) -> Json:
    """A Deployment, DaemonSet and so on, of pods with one container; `spec` adds to its spec."""
    match = {"app": name}
    template = {"metadata": {"labels": match}, "spec": {"containers": CONTAINERS}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": match}, "template": template, **spec},
    }


def scheduling_class(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def owner_reference(namespace: Mapping[str, Any]) -> Json:
    """The reference that makes a namespace the parent of the one that carries it."""
    meta = namespace["metadata"]
    return {"apiVersion": "v1", "kind": "Namespace", "name": meta["name"], "uid": meta["uid"]}


def labels(obj: Mapping[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations(obj: Mapping[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def pinned_to(pod_: Mapping[str, Any]) -> str | None:
    """The class a pod is pinned to; None for one that is as its author wrote it."""
    scheduler = pod_["spec"]["schedulerName"]
    class_name = annotations(pod_).get(names.CLASS_KEY)
    assert (scheduler == names.SCHEDULER_NAME) == (class_name is not None), (scheduler, class_name)
    return class_name


def conditions(cls: Mapping[str, Any]) -> dict[str, Json]:
    return {c["type"]: c for c in (cls.get("status") or {}).get("conditions") or ()}
