"""The spreading that kube-scheduler does of itself: a model.

Pods without spread constraints of their own, made by a ReplicaSet, ReplicationController or
StatefulSet, are drawn away from their siblings: softly, over nodes and zones (`defaultingType:
System` of PodTopologySpread, KEP-1258). A class does not switch that off, as it does not stand in
the pod. Services, which make siblings too, are not looked at: they seldom say more than the owner.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from schedclass.domain import names
from schedclass.domain.insight.snapshot import PodRecord
from schedclass.domain.insight.world import World
from schedclass.domain.nodes import Node
from schedclass.domain.scheduling.scoring import normalised_spread, rounded

HOSTNAME_SKEW: Final = 3
ZONE_SKEW: Final = 5
"""`maxSkew` of kube-scheduler's two default constraints."""

_SPREADING: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment")
"""Owners whose selector makes siblings (`helper.DefaultSelector`); Deployments by ReplicaSets."""


class DefaultSpread:
    """The siblings of pods, kept up to date as pods come and go."""

    def __init__(self, world: World) -> None:
        """Count the pods that run."""
        self._world = world
        self._nodes = {name: record.node for name, record in world.nodes.items()}
        self._siblings: dict[str, Counter[str]] = {}
        for record in world.snapshot.pods:
            if record.running:
                self.add(record, record.pod.node_name)

    def add(self, record: PodRecord, node_name: str) -> None:
        """A pod takes its place on a node; one that is ending does not count."""
        self._count(record, node_name, 1)

    def remove(self, record: PodRecord, node_name: str) -> None:
        """A pod gives its place back."""
        self._count(record, node_name, -1)

    def _count(self, record: PodRecord, node_name: str, sign: int) -> None:
        if not record.pod.terminating and node_name in self._nodes and _is_spread(record):
            group = self._world.group_of(record)
            self._siblings.setdefault(group, Counter())[node_name] += sign

    def scores(self, record: PodRecord, candidates: Sequence[str]) -> list[int]:
        """Scores of 0 to 100 for the nodes that passed; empty if the pod is not spread."""
        own = record.pod.own
        if own.hard_spread or own.soft_spread or not _is_spread(record):
            return []
        siblings = self._siblings.get(self._world.group_of(record), Counter())
        zones = Counter[str]()
        for name, number in siblings.items():
            zones[_zone(self._nodes[name])] += number
        nodes = [self._nodes[name] for name in candidates]
        by_host = math.log(len(nodes) + 2)
        by_zone = math.log(len({_zone(node) for node in nodes}) + 2)
        totals = []
        for node in nodes:
            total = 0.0
            if names.HOSTNAME_LABEL in node.labels:
                total += siblings[node.name] * by_host + HOSTNAME_SKEW - 1
            if names.ZONE_LABEL in node.labels:
                total += zones[_zone(node)] * by_zone + ZONE_SKEW - 1
            totals.append(rounded(total))
        return normalised_spread(totals)


def _is_spread(record: PodRecord) -> bool:
    return record.owner is not None and record.owner.kind in _SPREADING


def _zone(node: Node) -> str:
    return node.labels.get(names.ZONE_LABEL, "")
