"""Pods that other schedulers bind while one of ours is on its way to the same node.

kube-scheduler decides on what it has seen, and looks at nothing anew before it binds. So where two
schedulers share nodes, both may give the last place away. What the watch has shown of the other's
choice by the time of the bind is not too late to be heeded; what it shows later is the kubelet's to
refuse (`OutOfcpu` and the like).
"""

import time
from collections.abc import Callable

from schedclass.domain.scheduling import Pod
from schedclass.domain.scheduling.room import Room
from schedclass.scheduler.state import SchedulerState


class Arrivals:
    """When a pod that is not ours was last seen to come to a node."""

    def __init__(self, state: SchedulerState, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none; see `note`."""
        self._state = state
        self._clock = clock
        self._latest: dict[str, float] = {}

    def note(self, node: str) -> None:
        """Another scheduler's pod was seen to be bound to a node."""
        self._latest[node] = self._clock()
        if len(self._latest) > 2 * len(self._state.known.nodes) + 1:
            known = self._state.known.nodes
            self._latest = {name: at for name, at in self._latest.items() if name in known}

    def crowd_out(self, pod: Pod, node: str, since: float | None) -> bool:
        """Whether others came to the node since then, and a pod has no room beside all on it.

        Args:
            pod: the pod, which need not be on the node yet.
            node: its name.
            since: clock seconds at which kube-scheduler chose the node; None if that is not known.
        """
        found = self._state.known.nodes.get(node)
        if since is None or self._latest.get(node, -1.0) < since:
            return False
        if found is None or found.allocatable is None or pod.demand is None:
            return False  # whether it fits is not known, and kube-scheduler says so
        room = Room()
        room.put_node(node, found.allocatable)
        for other in self._state.cluster.pods.on_node(node):
            if other.uid != pod.uid and other.demand is not None:
                room.put(other.uid, node, other.demand)
        return not room.fits(node, pod.demand)
