"""Pods between the answer of filter and the call of bind: where they go is not known yet.

kube-scheduler runs one scheduling cycle after the other but binds in the background, so filter may
be asked about the next pod before bind tells where the last one went. Both calls are milliseconds
apart, so a short wait spares most refusals at bind. Nothing rests on it for safety.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from schedclass.domain.scheduling import Pod

SETTLE_SECONDS: Final = 0.2
"""The longest wait for others. A pod whose volumes are being provisioned takes minutes to bind, and
one that failed after filter never does: the wait must not depend on that."""

OPEN_SECONDS: Final = 5.0
"""After this a pod that did not come to bind is no longer waited for at all."""

MAX_REMEMBERED: Final = 4096


@dataclass(slots=True, eq=False)
class _Attempt:
    pod: Pod
    answered_at: float
    settled: asyncio.Future[None]


class InFlight:
    """The attempts that filter let through, by uid of the pod."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()
        self._open: dict[str, _Attempt] = {}
        self._clock = clock

    def __len__(self) -> int:
        """How many pods may come to bind at any moment."""
        return len(self._open)

    def passed(self, pod: Pod) -> None:
        """Filter named nodes for a pod."""
        self.settled(pod.uid)
        attempt = _Attempt(pod, self._clock(), asyncio.get_running_loop().create_future())
        self._open[pod.uid] = self._attempts[pod.uid] = attempt
        self._attempts.move_to_end(pod.uid)
        if len(self._attempts) > MAX_REMEMBERED:
            self.settled(self._attempts.popitem(last=False)[0])

    def settled(self, uid: str) -> None:
        """It is known where a pod goes, or that the attempt is over."""
        attempt = self._open.pop(uid, None)
        if attempt is not None and not attempt.settled.done():
            attempt.settled.set_result(None)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        self.settled(uid)
        self._attempts.pop(uid, None)

    def pod(self, uid: str) -> Pod | None:
        """The pod as filter saw it, for a bind that comes before our watch knows the pod."""
        attempt = self._attempts.get(uid)
        return attempt.pod if attempt is not None else None

    @property
    def pods(self) -> Iterable[Pod]:
        """Those that may come to bind at any moment."""
        return (one.pod for one in self._open.values())

    async def wait_for(
        self, matter: Callable[[Pod], bool], *, seconds: float = SETTLE_SECONDS
    ) -> int:
        """Wait until all pods that matter have settled, or time is up.

        Those that have not settled then are not waited for again.

        Args:
            matter: which of the pods on their way matter.
            seconds: the limit.

        Returns:
            How many were waited for.
        """
        horizon = self._clock() - OPEN_SECONDS
        for uid in [uid for uid, one in self._open.items() if one.answered_at < horizon]:
            self.settled(uid)
        blocking = [one for one in self._open.values() if matter(one.pod)]
        if not blocking:
            return 0
        await asyncio.wait([one.settled for one in blocking], timeout=seconds)
        for one in blocking:
            if self._open.get(one.pod.uid) is one:
                self.settled(one.pod.uid)
        return len(blocking)

    async def any_settled(self, matter: Callable[[Pod], bool], *, seconds: float) -> bool:
        """Wait until one of the pods that matter has settled.

        Args:
            matter: which of the pods on their way matter.
            seconds: the limit.

        Returns:
            False if there is none, or time is up.
        """
        blocking = [one.settled for one in self._open.values() if matter(one.pod)]
        if not blocking:
            return False
        done, _ = await asyncio.wait(blocking, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
