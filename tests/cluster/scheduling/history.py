"""What the API server tells of pods, in the order in which it happened, noted beside a test."""

import http.client
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from controlplane import Cluster
from controlplane.identities import ADMIN, ADMINS
from tests.cluster.objects import Json, pod, pods_path

THE_END = "the-end"


class History:
    """Watches the pods of a namespace while entered.

    Attributes:
        events: in the order of their writes.
        arrivals: when each came, monotonic.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.events: list[tuple[str, Json]] = []
        self.arrivals: list[float] = []
        self._cluster = cluster
        self._path = pods_path(namespace)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        version = self._cluster.admin.get(self._path)["metadata"]["resourceVersion"]
        self._from = version
        # Here, as the certificate is a file that two histories at once must not write.
        layout, identities = self._cluster.layout, self._cluster.identities
        identities.api(ADMIN, ADMINS)  # writes the client's certificate
        self._context = identities.tls()
        self._context.load_cert_chain(layout.pki / "clients" / f"{ADMIN}.pem")
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
        port = self._cluster.layout.ports["kube-apiserver"]
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=self._context, timeout=300
        )
        connection.request("GET", f"{self._path}?watch=true&resourceVersion={self._from}")
        answer = connection.getresponse()
        while line := answer.readline():
            event = json.loads(line)
            self.arrivals.append(time.monotonic())
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

    def stays(self) -> list["Stay"]:
        """When each pod took its place and when it gave it up, in the order of bindings."""
        stays: dict[str, Stay] = {}
        for arrival, (kind, seen) in zip(self.arrivals, self.events, strict=True):
            uid, node = seen["metadata"]["uid"], seen["spec"].get("nodeName")
            if kind == "DELETED" or seen["metadata"].get("deletionTimestamp"):
                if uid in stays:
                    stays[uid].end = min(stays[uid].end, arrival)
            elif node and uid not in stays:
                stays[uid] = Stay(node, arrival)
        return list(stays.values())

    def overcommitted(self, *others: "History", millicores: int) -> list[str]:
        """Every moment at which a node had to bear more CPU than it has, over all the histories."""
        events = sorted(
            (event for history in (self, *others) for event in history.events),
            key=lambda event: int(event[1]["metadata"]["resourceVersion"]),
        )
        where: dict[str, tuple[str, int]] = {}
        broken = []
        for kind, seen in events:
            uid, node = seen["metadata"]["uid"], seen["spec"].get("nodeName")
            if kind == "DELETED":
                where.pop(uid, None)
            elif node and uid not in where:
                where[uid] = (node, millicores_of(seen))
                used = sum(cpu for name, cpu in where.values() if name == node)
                if used > millicores:
                    broken.append(f"{node}: {used}m of {millicores}m")
        return broken

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


@dataclass(slots=True)
class Stay:
    """The time of a live pod on a node."""

    node: str
    begin: float
    end: float = math.inf


def surely_broken_spread(
    history: History,
    zones: Mapping[str, str],
    removed: Mapping[str, float],
    *,
    seconds: float,
    max_skew: int = 1,
) -> list[str]:
    """Every binding that broke a spread, however late the scheduler heard of what had gone.

    A pod that left within some seconds before a binding counts where it makes the binding right,
    and does not count where it would make it wrong.

    Args:
        history: of the pods.
        zones: of all nodes that ever were.
        removed: when nodes were removed; their pods do not count from then on.
        seconds: within which everybody has heard of a removal.
        max_skew: of the constraint.
    """
    broken = []
    bound: list[Stay] = []
    for number, stay in enumerate(history.stays()):
        zone, now = zones[stay.node], stay.begin
        bound.append(stay)
        ends = [(zones[one.node], min(one.end, removed.get(one.node, math.inf))) for one in bound]
        here = sum(where == zone and end > now for where, end in ends[:-1]) + 1
        least = min(
            sum(where == other and end > now - seconds for where, end in ends)
            for other in set(zones.values())
        )
        if here - least > max_skew:
            broken.append(f"binding {number} to {stay.node}: {here} in {zone}, at least {least}")
    return broken


def millicores_of(pod: Json) -> int:
    """The CPU that a pod's containers ask for."""
    texts = [one["resources"]["requests"]["cpu"] for one in pod["spec"]["containers"]]
    return sum(int(text[:-1]) if text.endswith("m") else int(text) * 1000 for text in texts)


def shared_nodes(history: History) -> list[str]:
    """Every binding to a node that already had a live pod."""
    return [f"{node}: {counts[node]}" for node, counts in history.placements() if counts[node] > 1]
