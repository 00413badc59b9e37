"""An extender's state filled from objects as the API server has them, and pods to ask about."""

from typing import Any

import orjson

from schedclass.domain import names
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.domain.scheduling import Decisions, Pod, Scope
from schedclass.scheduler.state import SchedulerState

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}
APART: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": WEB}
        ]
    }
}
TOGETHER: Json = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": WEB}
        ]
    }
}
SPREAD: Json = {
    "topologySpreadConstraints": [
        {
            "topologyKey": ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": WEB,
        }
    ]
}


def metadata(name: str, version: int = 1, **more: Any) -> Json:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **more}


def raw_node(name: str, zone: str = "a", **labels: str) -> Json:
    return {"metadata": metadata(name, labels={HOSTNAME: name, ZONE: zone, **labels})}


def raw_pod(name: str, node: str = "", *, version: int = 1, **labels: str) -> Json:
    return {
        "metadata": metadata(name, version, namespace="team", labels={"app": "web", **labels}),
        "spec": {"nodeName": node} if node else {},
    }


def raw_class(version: int = 1, **spec: Any) -> Json:
    return {"metadata": metadata("dc", version, generation=version), "spec": spec}


def raw_namespace(class_name: str | None = "dc", version: int = 1, **labels: str) -> Json:
    own = {names.CLASS_KEY: class_name} if class_name else {}
    return {"metadata": metadata("team", version, labels={**own, **labels})}


class World:
    """Namespace `team`, of class `dc`."""

    def __init__(self, *nodes: Json, **spec: Any) -> None:
        self.state = SchedulerState(
            ExcludedNamespaces(("kube-*",)), default_label_keys=(), stale_after=60
        )
        self.decisions = Decisions(self.state.cluster, Scope.CLASS)
        known = self.state.known
        known.namespaces.replace_all([raw_namespace()], "1")
        known.classes.replace_all([raw_class(**spec)] if spec else [], "1")
        known.nodes.replace_all(nodes, "1")
        self.state.pods.replace_all([], "0")

    def watch(self, raw: Json, kind: str = "MODIFIED") -> None:
        """An event about a pod."""
        self.state.pods.apply(kind, raw)

    def pod(self, name: str) -> Pod:
        found = self.state.pods.get(f"team/{name}")
        assert found is not None
        return found

    def allowed(self, name: str) -> list[str]:
        return self.decisions.filter(self.pod(name), list(self.state.cluster.topology.nodes))


def ask(raw: Json, *nodes: str) -> bytes:
    """The body of filter and prioritize as kube-scheduler sends it."""
    return orjson.dumps({"Pod": raw, "Nodes": None, "NodeNames": list(nodes)})
