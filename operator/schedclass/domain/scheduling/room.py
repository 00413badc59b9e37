"""What nodes have left, kept up to date as pods come and go, reservations included.

After the plugin NodeResourcesFit of kube-scheduler: its filter, and its score by LeastAllocated.
It only serves to choose well; whether a pod fits is kube-scheduler's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from schedclass.domain.resources import CPU, MEMORY, PODS, Amounts, Demand

FULL: Final = 1.0


@dataclass(slots=True)
class _Used:
    requests: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    score_cpu: int = 0
    score_memory: int = 0


class Room:
    """Who takes what of which node. A pod is known by its uid and counts on one node at a time."""

    def __init__(self) -> None:
        self._allocatable: dict[str, Amounts] = {}
        self._used: dict[str, _Used] = {}
        self._places: dict[str, tuple[str, Demand]] = {}

    @property
    def nodes(self) -> Mapping[str, Amounts]:
        """The nodes of which is known what they have."""
        return self._allocatable

    def place_of(self, uid: str) -> str | None:
        """The node on which a pod counts."""
        place = self._places.get(uid)
        return place[0] if place is not None else None

    def put_node(self, name: str, allocatable: Amounts | None) -> None:
        """Insert or replace a node; one of which nothing is known takes no pods."""
        if allocatable is None:
            self._allocatable.pop(name, None)
        else:
            self._allocatable[name] = allocatable

    def remove_node(self, name: str) -> None:
        """Forget a node. Pods on it count again if it returns."""
        self._allocatable.pop(name, None)

    def put(self, uid: str, node: str, demand: Demand) -> None:
        """Count a pod on a node from now on, and nowhere else."""
        if self._places.get(uid) == (node, demand):
            return
        self.remove(uid)
        self._places[uid] = (node, demand)
        self._add(node, demand, 1)

    def remove(self, uid: str) -> None:
        """Count a pod no longer; nothing happens if it is not here."""
        place = self._places.pop(uid, None)
        if place is not None:
            self._add(*place, -1)

    def fits(self, name: str, demand: Demand) -> bool:
        """Whether a node has what a pod asks for, as far as is known."""
        allocatable = self._allocatable.get(name)
        if allocatable is None:
            return False
        used = self._used.get(name)
        if used is None:
            used = _NOTHING
        if used.pods >= allocatable.get(PODS, 0):
            return False
        taken = used.requests
        return all(
            taken.get(resource, 0) + amount <= allocatable.get(resource, 0)
            for resource, amount in demand.requests.items()
        )

    def load(self, name: str) -> float:
        """How full a node is by cpu and memory alike, from 0 to 1 and beyond."""
        allocatable, used = self._allocatable.get(name), self._used.get(name)
        if allocatable is None:
            return FULL
        if used is None:
            return 0.0
        cpu, memory = allocatable.get(CPU, 0), allocatable.get(MEMORY, 0)
        return (
            (used.score_cpu / cpu if cpu else FULL)
            + (used.score_memory / memory if memory else FULL)
        ) / 2

    def _add(self, node: str, demand: Demand, sign: int) -> None:
        used = self._used.get(node)
        if used is None:
            used = self._used[node] = _Used()
        used.pods += sign
        if not used.pods:
            del self._used[node]
            return
        used.score_cpu += sign * demand.score_cpu
        used.score_memory += sign * demand.score_memory
        for resource, amount in demand.requests.items():
            used.requests[resource] = used.requests.get(resource, 0) + sign * amount


_NOTHING: Final = _Used()
