"""The book-keeping of hints: which pods may get one, which have one, and what becomes of it.

A hint is a node named for a pod, be it beforehand or in the answer of filter. A pod gets one at
most, at its first try. One that failed was wrong, and from then on kube-scheduler looks at all
nodes for that pod, as it does without hints.
"""

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

from schedclass.domain.nodes import Node
from schedclass.domain.scheduling import Pod, departed
from schedclass.domain.scheduling.room import Room
from schedclass.scheduler.state import SchedulerState

LEAST_HEAD: Final = 2
"""Pods at the head of the queue that are left alone at least."""

EXPECTED_RATE: Final = 100.0
"""Pods a second that kube-scheduler is expected to try before it was seen to try some."""

STALE_SECONDS: Final = 30.0
"""A hint that was not tried for so long is taken back: it holds a place that others may need."""

ACTIVE_SECONDS: Final = 5.0
"""Only the extender whose kube-scheduler asked it so lately gives hints. The one beside a
kube-scheduler that waits for the Lease is never asked."""


class HintResult(StrEnum):
    """What becomes of hints, as metrics count it."""

    MADE = "made"
    """Written."""
    CHOSEN = "chosen"
    """The only node in an answer of filter."""
    USED = "used"
    """The pod was bound to that node."""
    MISSED = "missed"
    """The pod was bound to another node, or kube-scheduler looked at others for it."""
    WITHDRAWN = "withdrawn"
    """Taken back, as it was wrong or not tried in time."""
    OVERTAKEN = "overtaken"
    """Not written, as the pod had changed meanwhile."""
    FAILED = "failed"
    """Could not be written or taken back."""


LEAST_COMPACTED: Final = 64
"""Entries of the queue that may stand for pods which wait no more, before they are cleared away."""

Observe = Callable[[HintResult], None]


@dataclass(slots=True)
class Hint:
    """A node named for a pod.

    Attributes:
        pod: the pod as it was then, or is now.
        node: the node.
        since: clock seconds.
        written: whether the API server has it. One that is chosen in filter is never written.
        missed: whether kube-scheduler was seen to look elsewhere.
    """

    pod: Pod
    node: str
    since: float
    written: bool = False
    missed: bool = False


class Hints:
    """Follows pods and nodes of the state; the room that hints reserve is in `room`."""

    def __init__(
        self,
        state: SchedulerState,
        *,
        observe: Observe = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with what is in the stores.

        Args:
            state: the stores and the index.
            observe: receives what becomes of hints.
            clock: monotonic seconds.
        """
        self.room = Room()
        self.given: dict[str, Hint] = {}
        self._state = state
        self._observe = observe
        self._clock = clock
        self._waiting: dict[str, Pod] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._arrivals = count()
        self._spent: set[str] = set()
        self._asked: set[str] = set()
        self._failed: set[str] = set()
        self._asked_at = -ACTIVE_SECONDS
        self._tries: deque[float] = deque(maxlen=32)
        for name, node in state.known.nodes.items():
            self._node_changed(name, None, node)
        for key, pod in state.pods.items():
            self._pod_changed(key, None, pod)
        state.pods.on_change(self._pod_changed)
        state.known.nodes.on_change(self._node_changed)

    @property
    def waiting(self) -> int:
        """How many pods may get a hint."""
        return len(self._waiting)

    @property
    def active(self) -> bool:
        """Whether the kube-scheduler beside us is the one that schedules."""
        return self._clock() - self._asked_at < ACTIVE_SECONDS

    def asked(self, uid: str, names: list[str], *, may_choose: bool = False) -> bool:
        """kube-scheduler is trying a pod on these nodes.

        Args:
            uid: of the pod.
            names: the nodes.
            may_choose: whether filter may leave it one of them.

        Returns:
            Whether filter is to do so: it is the first try of a pod that may have a hint, and
            kube-scheduler has not looked at that one alone.
        """
        self._asked_at = self._clock()
        first = self.is_untried(uid)
        if first:
            self._tries.append(self._asked_at)
        hint = self.given.get(uid)
        may_have_one = self._waiting.pop(uid, None) is not None or hint is not None
        if may_have_one:
            self._spent.add(uid)
            self._asked.add(uid)
        if hint is not None and (names == [hint.node] or hint.missed):
            return False
        if may_choose and first and may_have_one and (hint is None or hint.node in names):
            return True
        if hint is not None:
            self._miss(hint)
        return False

    def stands(self, uid: str, names: list[str]) -> bool:
        """Whether a pod is being tried on the node of its hint alone."""
        hint = self.given.get(uid)
        return hint is not None and not hint.missed and names == [hint.node]

    def chosen(self, uid: str) -> None:
        """The node of a hint is left to the pod alone."""
        if uid in self.given:
            self._observe(HintResult.CHOSEN)

    def _miss(self, hint: Hint) -> None:
        hint.missed = True
        self.room.remove(hint.pod.uid)
        self._observe(HintResult.MISSED)

    def is_untried(self, uid: str) -> bool:
        """Whether kube-scheduler has not asked about a pod yet."""
        return uid not in self._asked

    def preempts(self, pod: Pod) -> None:
        """kube-scheduler has found victims: the node it names then is no hint, even if ours."""
        self._state.preempts(pod)
        self.drop(pod.uid)

    def next(self, limit: int, lag: float) -> list[Pod]:
        """The pods to be hinted next, in the order in which kube-scheduler takes them.

        Args:
            limit: how many at most.
            lag: seconds until the last of them will have its hint. Those whom kube-scheduler takes
                before are left alone.
        """
        left_alone = self._head(lag)
        head: list[tuple[int, int, str]] = []
        taken: list[Pod] = []
        while self._queue and len(taken) < limit:
            entry = heapq.heappop(self._queue)
            pod = self._waiting.get(entry[2])
            if pod is None:
                continue
            if len(head) < left_alone:
                head.append(entry)
                continue
            del self._waiting[pod.uid]
            taken.append(pod)
        for entry in head:
            heapq.heappush(self._queue, entry)
        return taken

    def _head(self, lag: float) -> int:
        """Pods that are tried meanwhile, without those that have their hint already."""
        tries, now = self._tries, self._clock()
        recent = [moment for moment in tries if now - moment < ACTIVE_SECONDS]
        rate = EXPECTED_RATE
        if len(recent) > LEAST_HEAD:
            rate = len(recent) / max(now - recent[0], 0.01)
        hinted = sum(hint.written and not hint.missed for hint in self.given.values())
        return max(LEAST_HEAD, math.ceil(rate * lag) - hinted)

    def reserve(self, pod: Pod, node: str) -> Hint:
        """A node was chosen; what the pod takes of it counts from now on."""
        self._spent.add(pod.uid)
        hint = self.given[pod.uid] = Hint(pod, node, self._clock())
        if pod.demand is not None:
            self.room.put(pod.uid, node, pod.demand)
        return hint

    def drop(self, uid: str) -> None:
        """A hint is none any more."""
        self._failed.discard(uid)
        if self.given.pop(uid, None) is not None:
            self.room.remove(uid)

    def reserved(self) -> Iterable[Hint]:
        """The hints that are still good."""
        return (hint for hint in self.given.values() if not hint.missed)

    @property
    def has_failed(self) -> bool:
        """Whether a hint led nowhere and still stands."""
        return bool(self._failed)

    def wrong(self) -> list[Hint]:
        """The hints to be taken back: those that led nowhere, and those nobody tried."""
        horizon = self._clock() - STALE_SECONDS
        return [
            hint
            for hint in self.given.values()
            if hint.written and (hint.pod.refusal or hint.since < horizon)
        ]

    def _node_changed(self, name: str, _: Node | None, new: Node | None) -> None:
        if new is None:
            self.room.remove_node(name)
        else:
            self.room.put_node(name, new.allocatable)

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if gone := departed(old, new):
            self._forget(gone.uid)
            self.room.remove(gone.uid)
        if new is None:
            return
        if new.node_name or new.finished:
            self._placed(new)
        elif new.hinted and new.uid not in self._state.preempting:
            self._take_note(new)
        else:
            self._unhinted(new)

    def _placed(self, pod: Pod) -> None:
        hint = self.given.get(pod.uid)
        if hint is not None and not hint.missed:
            self._observe(HintResult.USED if hint.node == pod.node_name else HintResult.MISSED)
        self._forget(pod.uid)
        if pod.demand is not None and not pod.finished:
            self.room.put(pod.uid, pod.node_name, pod.demand)
        else:
            self.room.remove(pod.uid)

    def _take_note(self, pod: Pod) -> None:
        """A pod with a hint, be it ours, another replica's or one from before our start."""
        self._waiting.pop(pod.uid, None)
        hint = self.given.get(pod.uid)
        if hint is None or hint.node != pod.nominated_node:
            hint = self.reserve(pod, pod.nominated_node)
        hint.pod, hint.written = pod, True
        if pod.refusal:
            self._failed.add(pod.uid)
        if pod.refusal and not hint.missed:
            self._miss(hint)

    def _unhinted(self, pod: Pod) -> None:
        hint = self.given.get(pod.uid)
        if hint is not None and (hint.written or pod.nominated_node or pod.refusal):
            self.drop(pod.uid)  # somebody else has named another node, or none; or it has failed
        if not pod.hintable or pod.daemon or pod.demand is None or pod.demand.ports:
            self._waiting.pop(pod.uid, None)
        elif pod.uid in self._waiting:
            self._waiting[pod.uid] = pod
        elif pod.uid not in self._spent and not pod.terminating:
            self._waiting[pod.uid] = pod
            heapq.heappush(self._queue, (-pod.priority, next(self._arrivals), pod.uid))
            self._compact()

    def _compact(self) -> None:
        """Clear the queue of pods that went without a hint: nobody takes from it while none pay."""
        if len(self._queue) > 2 * len(self._waiting) + LEAST_COMPACTED:
            self._queue = [entry for entry in self._queue if entry[2] in self._waiting]
            heapq.heapify(self._queue)

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self.given.pop(uid, None)
        for uids in (self._spent, self._asked, self._failed):
            uids.discard(uid)
