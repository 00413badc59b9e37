"""Pods between the answer of filter and their place at bind.

kube-scheduler runs one scheduling cycle after the other but binds in the background, so filter may
be asked about the next pod before bind tells where the last one went. If filter left the last one a
single node, that is where it goes. Otherwise a short wait spares most refusals at bind, as both
calls are milliseconds apart. Nothing rests on it for safety.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from schedclass.domain.scheduling import Pod

SETTLE_SECONDS: Final = 0.2
"""The longest wait for others. A pod whose volumes are being provisioned takes minutes to bind, and
one that failed after filter never does: the wait must not depend on that."""

OPEN_SECONDS: Final = 5.0
"""After this a pod that did not come to bind is no longer reckoned with at all."""

MAX_AHEAD: Final = 12
"""Pods on their way that a further one may lean on. Bind lets them through one after the other, a
few at a time, and each that waits there looks again whenever one of them gets its place."""

MAX_REMEMBERED: Final = 4096


Matter = Callable[[Pod], bool]
"""Which of the pods on their way matter."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """One answer of filter.

    Attributes:
        pod: as filter saw it.
        node: the one that filter left it; empty if it had the choice.
        answered_at: clock seconds.
        settled: done when the pod has its place, or the attempt is over.
        arrived: whether it has come to bind.
        stuck: whether it cannot be bound there before another one has its place.
        given_up: whether it was waited for in vain.
    """

    pod: Pod
    node: str
    answered_at: float
    settled: asyncio.Future[None]
    arrived: bool = False
    stuck: bool = False
    given_up: bool = False


class InFlight:
    """The attempts that filter let through, by uid of the pod."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()
        self._open: dict[str, _Attempt] = {}
        self._clock = clock

    def __len__(self) -> int:
        """How many pods may come to bind at any moment."""
        return len(self._open)

    def passed(self, pod: Pod, names: Sequence[str] = ()) -> None:
        """Filter left a pod these nodes."""
        self.settled(pod.uid)
        node = names[0] if len(names) == 1 else ""
        future = asyncio.get_running_loop().create_future()
        attempt = _Attempt(pod, node, self._clock(), future)
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

    def answered_at(self, uid: str) -> float | None:
        """Clock seconds of the last answer of filter about a pod, None if there was none."""
        attempt = self._attempts.get(uid)
        return attempt.answered_at if attempt is not None else None

    def arrived(self, uid: str, *, stuck: bool) -> None:
        """The pod has come to bind and waits there.

        Args:
            uid: of the pod.
            stuck: whether others must have their place first; not if it only awaits an answer.
        """
        attempt = self._open.get(uid)
        if attempt is not None:
            attempt.arrived, attempt.stuck = True, stuck

    def placed(self, matter: Matter) -> list[Pod] | None:
        """Those that matter, each on the node that filter left it; None if one had the choice."""
        self._end_old_ones()
        found = [one for one in self._open.values() if matter(one.pod)]
        if not all(one.node for one in found):
            return None
        return [one.pod.on(one.node) for one in found]

    def may_come(self, matter: Matter) -> bool:
        """Whether one that matters will have its place soon: not if it waits for others itself."""
        horizon = self._clock() - SETTLE_SECONDS
        return any(
            not one.stuck and (one.arrived or one.answered_at > horizon) and matter(one.pod)
            for one in self._open.values()
        )

    async def wait_for(self, matter: Matter, *, seconds: float = SETTLE_SECONDS) -> int:
        """Wait until all pods that matter have settled, or time is up.

        Those that have not settled then are not waited for again.

        Args:
            matter: which of the pods on their way matter.
            seconds: the limit.

        Returns:
            How many were waited for.
        """
        blocking = self._awaited(matter)
        if not blocking:
            return 0
        await asyncio.wait([one.settled for one in blocking], timeout=seconds)
        for one in blocking:
            one.given_up = True
        return len(blocking)

    async def wait_for_few(self, matter: Matter, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait while more than `MAX_AHEAD` pods that matter are on their way, or time is up.

        Args:
            matter: which of the pods on their way matter.
            seconds: the limit for each to settle.
        """
        while len(blocking := self._awaited(matter)) > MAX_AHEAD:
            done, _ = await asyncio.wait(
                [one.settled for one in blocking],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                for one in blocking:
                    one.given_up = True

    def _end_old_ones(self) -> None:
        horizon = self._clock() - OPEN_SECONDS
        for uid in [uid for uid, one in self._open.items() if one.answered_at < horizon]:
            self.settled(uid)

    def _awaited(self, matter: Matter) -> list[_Attempt]:
        self._end_old_ones()
        return [one for one in self._open.values() if not one.given_up and matter(one.pod)]
