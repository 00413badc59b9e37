"""Pods that filter refused, and when it is worth to have kube-scheduler try them again.

kube-scheduler does not know of classes, and it may hear of a change before we do. So each refusal
is remembered with what it rested on, and once the state has moved on, the same question is asked
again, by ourselves: about one pod of each kind and the nodes that were refused. If a node is open
now, or the pod has another class and so another reason to wait, kube-scheduler is nudged (see
nudge.py). Level-triggered: what was asked for is asked again until the pod has been tried anew.
"""

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from schedclass.domain.scheduling import Pod
from schedclass.kube.delays import doubled

Passing = Callable[[Pod, tuple[str, ...]], bool]
"""Whether one of the nodes is open to the pod now."""

ClassOf = Callable[[Pod], Hashable]
"""The class that applies to a pod, in its present version; equal means the same reasons."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Between two nudges for a pod that is not tried anew, as while kube-scheduler is down."""

MOST_NUDGES: Final = 8
"""For a pod that is not tried anew: about two minutes. A nudge makes kube-scheduler try all pods
that we refused. One that it tries and refuses before it asks us is none of those any more, and a
scheduler that begins anew tries all in any case."""

KEPT_LISTS: Final = 64

UNSEEN_SECONDS: Final = 60.0
"""A pod that our watch does not know when it is refused may be newer than what we know, or gone."""


def kind_of(pod: Pod) -> Hashable:
    """Equal for pods about which every decision is the same, whatever becomes of their class."""
    return (
        pod.namespace,
        pod.class_annotation,
        frozenset(pod.labels.items()),
        pod.own.key,
        pod.tolerance,
        # What a preemption promised shuts nodes for pods of no higher priority, but for its own.
        pod.priority,
        "" if pod.hinted else pod.nominated_node,
    )


@dataclass(slots=True, eq=False)
class _Group:
    """Pods of one kind, refused on the same nodes; by uid."""

    names: tuple[str, ...]
    class_key: Hashable
    version: int = -1
    members: dict[str, Pod] = field(default_factory=dict)
    ripe: bool = False
    nudges: int = 0
    nudge_at: float = 0.0

    @property
    def wants_nudge(self) -> bool:
        """Whether kube-scheduler is to try them again."""
        return self.ripe and self.nudges < MOST_NUDGES

    @property
    def sample(self) -> Pod:
        """One that still waits: one that was bound meanwhile would be judged as beside itself."""
        return next(iter(self.members.values()))


class RefusedPods:
    """The pods that filter refused on all nodes asked about, since they were last tried."""

    def __init__(
        self,
        *,
        version: Callable[[], int],
        passing: Passing,
        class_of: ClassOf,
        known: Callable[[Pod], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin empty.

        Args:
            version: of the state that decisions rest on.
            passing: asks the state.
            class_of: asks the state.
            known: asks the state whether a pod is there.
            clock: monotonic seconds.
        """
        self._version = version
        self._passing = passing
        self._class_of = class_of
        self._known = known
        self._clock = clock
        self._unseen: OrderedDict[str, tuple[Pod, float]] = OrderedDict()
        self._groups: dict[Hashable, _Group] = {}
        self._key_of: dict[str, Hashable] = {}
        self._lists: OrderedDict[tuple[str, ...], tuple[str, ...]] = OrderedDict()

    def __len__(self) -> int:
        """How many pods are remembered."""
        return len(self._key_of)

    @property
    def uids(self) -> Iterable[str]:
        """The pods that are remembered."""
        return self._key_of.keys()

    def refused(self, pod: Pod, names: Iterable[str]) -> None:
        """Filter refused a pod on these nodes, by the present state."""
        self.tried(pod.uid)
        # kube-scheduler names nodes in any order, in strings that are new each time.
        kept = self._shared(tuple(sorted(map(sys.intern, names))))
        key = (kind_of(pod), self._class_of(pod), kept)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(kept, self._class_of(pod))
        # The same question for all of the group, and it was answered just now.
        group.version, group.ripe, group.nudges = self._version(), False, 0
        group.members[pod.uid] = pod
        self._key_of[pod.uid] = key
        if not self._known(pod):
            self._unseen[pod.uid] = pod, self._clock()
        self._drop_gone()

    def tried(self, uid: str) -> None:
        """The pod is being tried anew, or is gone."""
        key = self._key_of.pop(uid, None)
        self._unseen.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        group.members.pop(uid, None)
        if not group.members:
            del self._groups[key]

    def _drop_gone(self) -> None:
        """Forget those that were deleted before they were refused: nobody else tells of them."""
        horizon = self._clock() - UNSEEN_SECONDS
        while self._unseen and next(iter(self._unseen.values()))[1] <= horizon:
            uid, (pod, _) = self._unseen.popitem(last=False)
            if not self._known(pod):
                self.tried(uid)

    def look(self) -> Iterator[None]:
        """Ask again about each group for which the state has moved on; pauses after each."""
        self._drop_gone()
        for group in list(self._groups.values()):
            version = self._version()
            # The last of a group may have gone in a pause.
            if group.version == version or not group.members:
                continue
            group.version = version
            pod = group.sample
            group.ripe = self._class_of(pod) != group.class_key or self._passing(pod, group.names)
            yield

    def due(self) -> float | None:
        """Seconds until a nudge is wanted, at least 0; None while nobody can be helped."""
        ripe = [group.nudge_at for group in self._groups.values() if group.wants_nudge]
        return max(0.0, min(ripe) - self._clock()) if ripe else None

    def nudged(self) -> None:
        """kube-scheduler was nudged; for those who do not come it is again, ever more rarely."""
        now = self._clock()
        for group in self._groups.values():
            if group.wants_nudge:
                pause = doubled(FIRST_PAUSE, group.nudges, longest=LONGEST_PAUSE)
                group.nudges += 1
                group.nudge_at = now + pause

    def _shared(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The same list for all who were refused on the same nodes: there may be thousands."""
        kept = self._lists.setdefault(names, names)
        self._lists.move_to_end(names)
        if len(self._lists) > KEPT_LISTS:
            self._lists.popitem(last=False)
        return kept
