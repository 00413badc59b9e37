"""What the API server tells of pods, in the order in which it happened, noted beside a test."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from controlplane import Cluster
from controlplane.identities import ADMIN, ADMINS
from tests.cluster.objects import Json, pod, pods_path

THE_END = "the-end"


class History:
    """Watches the pods of a namespace while entered; `events` are in the order of their writes."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.events: list[tuple[str, Json]] = []
        self._cluster = cluster
        self._path = pods_path(namespace)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        version = self._cluster.admin.get(self._path)["metadata"]["resourceVersion"]
        self._from = version
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        # Its event comes after all others; it is never scheduled.
        gates = [{"name": "example.org/never"}]
        self._cluster.admin.create(self._path, pod(THE_END, schedulingGates=gates))
        self._thread.join(20)
        assert not self._thread.is_alive(), "the watch did not end"

    def _watch(self) -> None:
        layout = self._cluster.layout
        identities = self._cluster.identities
        identities.api(ADMIN, ADMINS)  # writes the client's certificate
        context = identities.tls()
        context.load_cert_chain(layout.pki / "clients" / f"{ADMIN}.pem")
        connection = http.client.HTTPSConnection(
            "127.0.0.1", layout.ports["kube-apiserver"], context=context, timeout=300
        )
        connection.request("GET", f"{self._path}?watch=true&resourceVersion={self._from}")
        answer = connection.getresponse()
        while line := answer.readline():
            event = json.loads(line)
            self.events.append((event["type"], event["object"]))
            if self._stop.is_set() and event["object"]["metadata"]["name"] == THE_END:
                break
        connection.close()

    def placements(self) -> Iterator[tuple[str, Counter[str]]]:
        """For each binding its node, and how many live pods each node had the moment after."""
        where: dict[str, str] = {}
        for kind, seen in self.events:
            uid, node = seen["metadata"]["uid"], seen["spec"].get("nodeName")
            leaving = kind == "DELETED" or seen["metadata"].get("deletionTimestamp")
            if leaving:
                where.pop(uid, None)
            elif node and uid not in where:
                where[uid] = node
                yield node, Counter(where.values())

    def bound_twice(self) -> list[str]:
        """Pods that were seen on more than one node; there must be none."""
        nodes: dict[str, set[str]] = {}
        for _, seen in self.events:
            if seen["spec"].get("nodeName"):
                nodes.setdefault(seen["metadata"]["uid"], set()).add(seen["spec"]["nodeName"])
        return [uid for uid, found in nodes.items() if len(found) > 1]


def broken_spread(history: History, zones: Mapping[str, str], *, max_skew: int = 1) -> list[str]:
    """Every binding after which a zone held too many more than the emptiest one."""
    everywhere = set(zones.values())
    broken = []
    for number, (node, counts) in enumerate(history.placements()):
        per_zone = Counter({zone: 0 for zone in everywhere})
        for name, count in counts.items():
            per_zone[zones[name]] += count
        if per_zone[zones[node]] - min(per_zone.values()) > max_skew:
            broken.append(f"binding {number} to {node}: {dict(per_zone)}")
    return broken


def shared_nodes(history: History) -> list[str]:
    """Every binding to a node that already had a live pod."""
    return [f"{node}: {counts[node]}" for node, counts in history.placements() if counts[node] > 1]
