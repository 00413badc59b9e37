"""Finds the places of pods whose attempt was begun by another process, or before our start.

kube-scheduler writes on each claim of a pod for which node its volume is to be made (annotation
`volume.kubernetes.io/selected-node`, VolumeBinding, PreBind). What we have promised ourselves (see
promises.py) need not be looked up; what the extender of another replica has promised, or we before
a restart, is read there as soon as it matters to a pod.
"""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from schedclass.domain import names
from schedclass.domain.scheduling import Pod, departed
from schedclass.domain.scheduling.interactions import interact
from schedclass.kube.client import KubeClient, resource_path
from schedclass.scheduler.state import SchedulerState

SETTLE_SECONDS: Final = 1.0
"""kube-scheduler tries one pod after the other, so all of them wait while claims are read."""

GET_SECONDS: Final = 2.0
AT_ONCE: Final = 16

RECENT_SECONDS: Final = 15.0
"""For so long after a try the scheduler beside us counts as the one that schedules, whatever became
of that try. kube-scheduler's longest pause after an error is 10 s."""

MAX_CLAIMS: Final = 16
"""Of one pod: all of them get the same node, but for those whose volumes are there already."""

ATTEMPT_SECONDS: Final = 660.0
"""An attempt is over by then (`bindTimeoutSeconds` of VolumeBinding, 600). A failed one may leave
the node on the claims, and kube-scheduler writes no second time that it failed for the same reason.
"""


class ClaimedPlaces:
    """The waiting pods with claims of which is not known whether they are sent somewhere."""

    def __init__(
        self,
        client: KubeClient,
        state: SchedulerState,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is requested before `settle`.

        Args:
            client: who reads claims.
            state: the stores and the index.
            clock: monotonic seconds.
        """
        self._client = client
        self._state = state
        self._waiting: dict[str, Pod] = {}
        self._open: set[str] = set()
        self._noted_at: dict[str, float] = {}
        self._clock = clock
        self._tried_at = -math.inf
        self._reads: dict[str, asyncio.Task[None]] = {}
        self._readers = asyncio.Semaphore(AT_ONCE)
        for key, pod in state.pods.items():
            self._pod_changed(key, None, pod)
        state.pods.on_change(self._pod_changed)
        state.promises.on_expired(lambda pod: self._note(pod.uid))

    def tried(self, uid: str) -> None:
        """Filter is asked about a pod. If it was not for long, another scheduler may have tried."""
        now = self._clock()
        if now - self._tried_at > RECENT_SECONDS:
            for waiting in self._waiting:
                self._note(waiting)
        self._tried_at = now
        self._over(uid)

    async def settle(self, pod: Pod) -> None:
        """Promise the pods that matter to this one what their claims say.

        Raises:
            ApiError, Unreachable, TimeoutError: a claim could not be read, or not yet. Reads that
                were begun go on, so that each try finds more of them done.
        """
        cluster = self._state.cluster
        reads = [
            self._read(self._waiting[uid])
            for uid in self._open
            if uid != pod.uid and interact(cluster, self._waiting[uid], pod)
        ]
        if not reads:
            return
        done, late = await asyncio.wait(reads, timeout=SETTLE_SECONDS)
        for read in done:
            read.result()
        if late:
            raise TimeoutError

    def _read(self, pod: Pod) -> asyncio.Task[None]:
        """The read of a pod's claims that is under way, or a new one."""
        read = self._reads.get(pod.uid)
        if read is None or read.done():
            read = self._reads[pod.uid] = asyncio.create_task(self._look(pod))
            read.add_done_callback(partial(self._ended, pod.uid))
        return read

    def _ended(self, uid: str, read: asyncio.Task[None]) -> None:
        if self._reads.get(uid) is read:
            del self._reads[uid]
        if not read.cancelled():
            read.exception()  # told to whoever waits; there may be nobody

    async def _look(self, pod: Pod) -> None:
        found = ""
        for name in pod.claims[:MAX_CLAIMS]:
            found = found or await self._selected_node(pod.namespace, name)
        if pod.uid not in self._open:
            return  # tried by us meanwhile, or gone
        self._open.discard(pod.uid)
        if found:
            self._state.promises.make(pod, found)

    async def _selected_node(self, namespace: str, claim: str) -> str:
        path = resource_path("v1", "persistentvolumeclaims", namespace=namespace, name=claim)
        async with self._readers, asyncio.timeout(GET_SECONDS):
            found = await self._client.find(path)
        if found is None:
            return ""
        return str((found["metadata"].get("annotations") or {}).get(names.SELECTED_NODE, ""))

    def _note(self, uid: str) -> None:
        """Where a pod is sent is not known; a refusal may be that of an earlier attempt."""
        pod = self._waiting.get(uid)
        if pod is None or self._state.promises.holds(uid):
            return
        now = self._clock()
        if not pod.refusal or now - self._noted_at.setdefault(uid, now) <= ATTEMPT_SECONDS:
            self._open.add(uid)

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if gone := departed(old, new):
            self._forget(gone.uid)
        if new is None:
            return
        if not new.claims:
            self._forget(new.uid)  # it is bound, or cannot be
            return
        known = self._waiting.get(new.uid)
        self._waiting[new.uid] = new
        if known is None:
            self._note(new.uid)
        elif new.refusal and new.refusal != known.refusal:
            self._over(new.uid)

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._over(uid)

    def _over(self, uid: str) -> None:
        """An attempt is known to be over."""
        self._open.discard(uid)
        self._noted_at.pop(uid, None)
