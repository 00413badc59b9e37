"""Keeps count of the pods that escape or break their class, and says so of each.

Pods of our scheduler are watched. Those of other schedulers are not: they are searched for at
times, page by page, because in most clusters they are many and none of our business. They matter
where they should have been pinned, and where the anti-affinity or spread of a class counts them.
Where a class comes to a namespace, they are looked for at once (see adoptions.py).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from schedclass.controller.adoptions import Adoptions
from schedclass.controller.bindings import Bindings
from schedclass.domain import names
from schedclass.domain.class_status import violations_message
from schedclass.domain.compliance import Breach, ObservedPod, ViolationKind, parse_observed_pod
from schedclass.domain.compliance_index import ComplianceIndex, NewBreaches, PodCounts
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.namespaces import Namespace
from schedclass.domain.nodes import Node
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.kube.client import KubeClient
from schedclass.kube.delays import happens_within
from schedclass.kube.events import EventRecorder, ObjectRef
from schedclass.kube.reflector import Reflector
from schedclass.kube.state import PODS_PATH, PODS_RESYNC_FACTOR, UNFINISHED, ClusterState
from schedclass.kube.store import Store
from schedclass.observability.metrics import Metrics

logger = logging.getLogger(__name__)

OURS: Final = f"spec.schedulerName={names.SCHEDULER_NAME},{UNFINISHED}"
OTHERS: Final = f"spec.schedulerName!={names.SCHEDULER_NAME},{UNFINISHED}"

CONTROLLER: Final = "compliance"
"""Its name in metrics."""

PORTION_SECONDS: Final = 0.01
"""After which other tasks of the loop get their turn."""

SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0
PAUSE_FACTOR: Final = 19.0
"""After a round we rest so much longer than it took: at most a twentieth of one CPU is spent."""

TICK: Final = 30.0
STALE_PODS_SECONDS: Final = 300.0
"""Silence of the watch, which has bookmarks, after which nothing is known of pods any more."""

SETTLING_SECONDS: Final = 60.0
EVENTS_PER_CLASS: Final = 20
"""Events about pods of one class in a minute; the Event about the class tells of the others."""


@dataclass(slots=True)
class _Allowance:
    """How many Events about pods of a class there were since when."""

    since: float
    used: int = 0


class ComplianceController:
    """Feeds the index of compliance and asks it to judge; only the leader runs one.

    Attributes:
        indexes: the stores that it feeds, for whoever shows their state.
    """

    def __init__(  # noqa: PLR0913 - the state, what it follows from, and who is told
        self,
        state: ClusterState,
        bindings: Bindings,
        client: KubeClient,
        recorder: EventRecorder,
        index: ComplianceIndex,
        metrics: Metrics,
        *,
        resync_seconds: float,
        sweep_seconds: float,
        on_change: Callable[[Iterable[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            state: namespaces, nodes and classes; fed by others.
            bindings: the effective class of each namespace.
            client: who asks.
            recorder: who is told of pods and classes.
            index: where everything is counted; empty.
            metrics: told how long each round took, and of those that failed.
            resync_seconds: pause between two complete lists of smaller collections.
            sweep_seconds: pause between two searches for pods of other schedulers.
            on_change: told the classes whose counts have changed.
            clock: monotonic seconds.
        """
        self._state = state
        self._bindings = bindings
        self._client = client
        self._recorder = recorder
        self._index = index
        self._metrics = metrics
        self._resync_seconds = resync_seconds
        self._sweep_seconds = sweep_seconds
        self._on_change = on_change
        self._clock = clock
        self._pods: Store[ObservedPod] = Store(parse_observed_pod)
        self._others: Store[ObservedPod] = Store(parse_observed_pod)
        self.indexes: dict[str, Store[Any]] = {"pods": self._pods, "unpinned-pods": self._others}
        self._adoptions = Adoptions(
            client, self._others, params={"fieldSelector": OTHERS}, on_seen=self._adopted
        )
        self._unjudged: set[str] = set()
        self._wake = asyncio.Event()
        self._evaluated = False
        self._was_known = False
        self._began: float | None = None
        self._told: dict[str, frozenset[Reason]] = {}
        self._allowances: dict[str, _Allowance] = {}
        bindings.on_change = self._refresh_namespace
        state.namespaces.on_change(self._namespace_changed)
        state.classes.on_change(self._class_changed)
        state.nodes.on_change(self._node_changed)
        for store in (self._pods, self._others):
            store.on_change(self._pod_changed)
        self._pods.on_change(self._made_anew)

    # What is asked

    def counts(self, class_name: str) -> PodCounts | None:
        """The pods of a class; None while they are not known, or not judged by its rules of now."""
        adopted = self._adoptions.awaits(class_name) or class_name in self._unjudged
        judged = self.known and not adopted and self._index.is_judged(class_name)
        return self._index.counts(class_name) if judged else None

    @property
    def known(self) -> bool:
        """Whether all pods were judged once and news of them still arrive."""
        return (
            self._evaluated
            and self._pods.fresh(STALE_PODS_SECONDS)
            and self._others.fresh(STALE_PODS_SECONDS + 2 * self._sweep_seconds)
        )

    @property
    def to_come(self) -> bool:
        """Whether pods will be known in a moment, as this leader has only just begun."""
        settling = self._began is None or self._clock() - self._began < SETTLING_SECONDS
        return not self._evaluated and settling

    # Work

    async def run(self) -> NoReturn:
        """Watch, search and judge until cancelled; namespaces, nodes and classes are complete."""
        self._began = self._clock()
        ours = Reflector(
            self._client,
            PODS_PATH,
            self._pods,
            params={"fieldSelector": OURS},
            resync_seconds=self._resync_seconds * PODS_RESYNC_FACTOR,
        )
        others = Reflector(
            self._client,
            PODS_PATH,
            self._others,
            params={"fieldSelector": OTHERS},
            watch=False,
            resync_seconds=self._sweep_seconds,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.run())
            group.create_task(others.run())
            group.create_task(self._adoptions.run())
            group.create_task(self._judge_forever())
        raise AssertionError("the loops of compliance never end")

    async def _judge_forever(self) -> NoReturn:
        settled = asyncio.get_running_loop().call_later(
            SETTLING_SECONDS, self._on_change, list(self._state.classes)
        )
        try:
            await self._pods.wait_synced()
            await self._others.wait_synced()
        finally:
            settled.cancel()
        while True:
            began = self._clock()
            self._wake.clear()
            self._evaluated = await self._round_survived()
            self._tell_known()
            took = self._clock() - began
            self._metrics.observe_reconcile(CONTROLLER, took)
            await asyncio.sleep(min(max(SHORTEST_PAUSE, PAUSE_FACTOR * took), LONGEST_PAUSE))
            while not self._wake.is_set():
                await happens_within(self._wake, TICK)
                self._tell_known()

    async def _round_survived(self) -> bool:
        """Judge all that is due; False if that failed, and then nothing is known."""
        try:
            await self._round()
        except Exception:
            # A fault of ours here must not end the leader, which has better things to do.
            self._metrics.count_reconcile_error(CONTROLLER)
            logger.exception("pods could not be judged, and are tried again")
            self._wake.set()
            return False
        return True

    async def _round(self) -> None:
        adopted, self._unjudged = self._unjudged, set()
        due = self._index.begin()
        try:
            while self._index.left:
                until = self._clock() + PORTION_SECONDS
                while self._index.left and self._clock() < until:
                    for new in self._index.judge(1):
                        self._tell_of_pod(new)
                await asyncio.sleep(0)
        finally:
            self._index.finish()
        if due:
            logger.debug("judged %d of %d pods", due, len(self._index))
        changed = self._index.take_changed()
        for name in changed:
            self._tell_of_class(name)
        if changed or adopted:
            self._on_change({*changed, *adopted})

    def _tell_known(self) -> None:
        if self.known != self._was_known:
            self._was_known = self.known
            if not self.known:
                logger.warning("nothing was heard of pods for long: compliance is not known")
            self._on_change(list(self._state.classes))

    # News

    def _refresh_namespace(self, name: str) -> None:
        namespace = self._state.namespaces.get(name)
        bound = self._bindings.class_of(name)
        if namespace is None or bound is None:
            self._adoptions.drop(name)
        # What is there when we begin is in the first search.
        elif self._began is not None and (
            name in self._adoptions or self._index.class_of_namespace(name) is None
        ):
            self._adoptions.note(name, bound)
        if namespace is None:
            self._index.remove_namespace(name)
        else:
            self._index.put_namespace(name, namespace.labels, bound)
        self._wake.set()

    def _namespace_changed(self, name: str, _: Namespace | None, __: Namespace | None) -> None:
        self._refresh_namespace(name)

    def _class_changed(
        self, name: str, _: SchedulingClass | None, new: SchedulingClass | None
    ) -> None:
        if new is None:
            self._index.remove_class(name)
            self._told.pop(name, None)
            self._allowances.pop(name, None)
        else:
            self._index.put_class(new)
        self._wake.set()

    def _node_changed(self, name: str, _: Node | None, new: Node | None) -> None:
        if new is None:
            self._index.remove_node(name)
        else:
            self._index.put_node(new)
        self._wake.set()

    def _adopted(self, class_name: str) -> None:
        """The pods that a class came to are known, but not judged yet."""
        self._unjudged.add(class_name)
        self._wake.set()

    def _pod_changed(self, _: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        if old is not None and (new is None or new.pod.uid != old.pod.uid):
            self._index.remove_pod(old.pod.uid)
        if new is not None:
            self._index.put_pod(new)
        self._wake.set()

    def _made_anew(self, key: str, _: ObservedPod | None, new: ObservedPod | None) -> None:
        """Two pods never have one name: the unpinned one that is known under it is gone.

        Its deletion is told by no watch, and the next sweep may be minutes away.
        """
        former = self._others.get(key)
        if new is not None and former is not None and former.pod.uid != new.pod.uid:
            self._others.remove(key)

    # Events

    def _tell_of_pod(self, new: NewBreaches) -> None:
        now = self._clock()
        allowance = self._allowances.get(new.class_name)
        if allowance is None or now - allowance.since > 60:
            allowance = self._allowances[new.class_name] = _Allowance(now)
        pod = new.seen.pod
        about = ObjectRef("v1", "Pod", pod.name, pod.uid, namespace=pod.namespace)
        for breach in new.breaches:
            if allowance.used < EVENTS_PER_CLASS:
                allowance.used += 1
                self._recorder.emit(about, _of_pod(breach))

    def _tell_of_class(self, name: str) -> None:
        """An Event when a class begins to be violated, not for each pod more or less."""
        cls = self._state.classes.get(name)
        if cls is None:
            return
        counts = self._index.counts(name)
        reasons = frozenset(_reason(kind) for kind, count in counts.by_kind.items() if count)
        about = ObjectRef(names.API_VERSION, names.KIND, cls.name, cls.uid)
        for reason in sorted(reasons - self._told.get(name, frozenset())):
            self._recorder.emit(about, Finding(reason, violations_message(counts)))
        self._told[name] = reasons


def _reason(kind: ViolationKind) -> Reason:
    bypass = kind is ViolationKind.BYPASS
    return Reason.BYPASS_DETECTED if bypass else Reason.PLACEMENT_VIOLATION


def _of_pod(breach: Breach) -> Finding:
    """What is said of a pod: its Event has the reason that alerts search for."""
    return Finding(_reason(breach.kind), breach.finding.message)
