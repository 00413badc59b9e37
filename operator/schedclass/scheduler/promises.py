"""Pods that passed filter and come to bind only when their volumes are there.

kube-scheduler binds such a pod after its volumes were made in the domain of the node it chose
(VolumeBinding, PreBind), which takes seconds to minutes. Were a second pod sent to the same domain
meanwhile, bind would refuse it, but its volume would lie there, and the pod could never go
elsewhere. So filter leaves one domain open to such a pod, and others see it there from then on.

Nothing rests on it for safety: bind decides.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from schedclass.domain.scheduling import Pod

PROMISE_SECONDS: Final = 60.0
"""After this others are let through in any case. kube-scheduler tells nobody that it gave a pod up,
and would wait ten minutes for a volume (`bindTimeoutSeconds`)."""


class Promises:
    """The domains that filter has left open to pods, each told by one node of it.

    Attributes:
        version: moves when a domain may be open to others again.
    """

    def __init__(
        self, on_withdrawn: Callable[[], None], *, seconds: float = PROMISE_SECONDS
    ) -> None:
        """Begin empty.

        Args:
            on_withdrawn: called after `version` has moved.
            seconds: how long a promise lasts at most.
        """
        self.version = 0
        self._on_withdrawn = on_withdrawn
        self._seconds = seconds
        self._on_expired: Callable[[Pod], None] = lambda _: None
        self._pods: dict[str, Pod] = {}
        self._expiries: dict[str, asyncio.TimerHandle] = {}

    @property
    def pods(self) -> Collection[Pod]:
        """The pods, each on a node of its domain."""
        return self._pods.values()

    def holds(self, uid: str) -> bool:
        """Whether a pod has a promise."""
        return uid in self._pods

    def on_expired(self, listener: Callable[[Pod], None]) -> None:
        """Have a function told each pod whose promise was withdrawn for its age."""
        self._on_expired = listener

    def make(self, pod: Pod, node_name: str) -> None:
        """Filter left nothing open to a pod but the domain of this node."""
        self.withdraw(pod.uid)
        self._pods[pod.uid] = pod.on(node_name)
        self._expiries[pod.uid] = asyncio.get_running_loop().call_later(
            self._seconds, self._expire, pod
        )

    def _expire(self, pod: Pod) -> None:
        self.withdraw(pod.uid)
        self._on_expired(pod)

    def withdraw(self, uid: str) -> str:
        """The attempt is over, or the pod's node is known; returns the node, empty for none."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ""
        self._expiries.pop(uid).cancel()
        self.version += 1
        self._on_withdrawn()
        return pod.node_name
