"""Small clusters written in a few words, for tests that read like sentences."""

from typing import Any

from schedclass.domain.names import HOSTNAME_LABEL, LINEAGE_LABELS
from schedclass.domain.nodes import Node, Taint
from schedclass.domain.scheduling import (
    Cluster,
    Decisions,
    Pod,
    Scope,
    compile_class,
    parse_pod,
)
from schedclass.domain.schedulingclass import parse_class

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LINEAGE = dict(zip(LINEAGE_LABELS, ("apps.example.org", "Postgres", "db"), strict=True))

Json = Any


class World:
    """A cluster with the namespace `tenant` of class `dc`, as the extender sees it."""

    def __init__(self, scope: Scope = Scope.CLASS, **spec: Json) -> None:
        self.cluster = Cluster(default_label_keys=LINEAGE_LABELS, own_terms=scope is Scope.MERGED)
        self.decisions = Decisions(self.cluster, scope)
        self.versions = 0
        self.put_class(**spec)
        self.cluster.put_namespace("tenant", {}, "dc")

    def put_class(self, name: str = "dc", **spec: Json) -> None:
        self.versions += 1
        metadata = {"name": name, "resourceVersion": str(self.versions)}
        self.cluster.put_class(compile_class(parse_class({"metadata": metadata, "spec": spec})))

    def nodes(self, *zones: str | None) -> "World":
        """Nodes `n1`, `n2`, ... in these zones; None is a node without a zone."""
        for number, zone in enumerate(zones, start=1):
            labels: Json = {} if zone is None else {"zone": zone}
            self.node(f"n{number}", **labels)
        return self

    def node(self, name: str, *, taints: tuple[Taint, ...] = (), **labels: str) -> None:
        self.cluster.put_node(Node(name, labels={HOSTNAME_LABEL: name, **labels}, taints=taints))

    def run(self, name: str, node: str, **kwargs: Json) -> Pod:
        """Let a pod run on a node."""
        placed = pod(name, node=node, **kwargs)
        self.cluster.put_pod(placed)
        return placed

    def allowed(self, waiting: Pod) -> list[str]:
        """The nodes that a pod can go to."""
        return self.decisions.filter(waiting, sorted(self.cluster.topology.nodes))

    def why(self, waiting: Pod) -> dict[str, str]:
        """The messages about the nodes that it cannot go to."""
        reasons: Json = {}
        self.decisions.filter(waiting, sorted(self.cluster.topology.nodes), reasons)
        return {name: why.message for name, why in reasons.items()}

    def place(self, name: str, **kwargs: Json) -> str | None:
        """Run a pod on the first node that it can go to, as a scheduler would; None if nowhere."""
        waiting = pod(name, **kwargs)
        nodes = self.allowed(waiting)
        if not nodes:
            return None
        self.cluster.assume(waiting, nodes[0])
        return nodes[0]


def pod(
    name: str,
    *,
    node: str = "",
    namespace: str = "tenant",
    labels: dict[str, str] | None = None,
    terminating: bool = False,
    daemon: bool = False,
    **spec: Json,
) -> Pod:
    """A pod; by default of application `db` in namespace `tenant`, yet to be placed."""
    metadata: Json = {
        "name": name,
        "uid": name,
        "namespace": namespace,
        "labels": LINEAGE if labels is None else labels,
    }
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if daemon:
        metadata["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    return parse_pod({"metadata": metadata, "spec": {"nodeName": node, **spec}}, prospects=True)


def anti_affinity(topology: str = HOSTNAME_LABEL, **term: Json) -> Json:
    """Required anti-affinity; without a selector it is filled per application."""
    return {REQUIRED: [{"topologyKey": topology, **term}]}


def spread(topology: str = "zone", *, skew: int = 1, **constraint: Json) -> list[Json]:
    """One hard spread constraint."""
    return [
        {
            "maxSkew": skew,
            "topologyKey": topology,
            "whenUnsatisfiable": "DoNotSchedule",
            **constraint,
        }
    ]
