"""Finds the places of pods whose attempt was begun by another process, or before our start.

kube-scheduler writes on each claim of a pod for which node its volume is to be made (annotation
`volume.kubernetes.io/selected-node`, VolumeBinding, PreBind). What we have promised ourselves (see
promises.py) need not be looked up; what the extender of another replica has promised, or we before
a restart, is read there as soon as it matters to a pod.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from schedclass.domain import names
from schedclass.domain.scheduling import Pod
from schedclass.domain.scheduling.interactions import interact
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.errors import NotFound
from schedclass.scheduler.state import SchedulerState

GET_SECONDS: Final = 2.0
AT_ONCE: Final = 16


class ClaimedPlaces:
    """The waiting pods with claims of which is not known whether they are sent somewhere."""

    def __init__(
        self, client: KubeClient, state: SchedulerState, *, active: Callable[[], bool]
    ) -> None:
        """Nothing is requested before `settle`.

        Args:
            client: who reads claims.
            state: the stores and the index.
            active: whether it was our kube-scheduler who tried pods lately. Where it was not,
                another one may have.
        """
        self._client = client
        self._state = state
        self._active = active
        self._waiting: dict[str, Pod] = {}
        self._open: set[str] = set()
        self._readers = asyncio.Semaphore(AT_ONCE)
        for key, pod in state.pods.items():
            self._pod_changed(key, None, pod)
        state.pods.on_change(self._pod_changed)
        state.promises.on_expired(lambda pod: self._note(pod.uid))

    def tried(self, uid: str) -> None:
        """Filter is asked about a pod; to be told before the asking counts as activity."""
        if not self._active():
            for waiting in self._waiting:
                self._note(waiting)
        self._open.discard(uid)

    async def settle(self, pod: Pod) -> None:
        """Promise the pods that matter to this one what their claims say.

        Raises:
            ApiError, Unreachable, TimeoutError: a claim could not be read; it stays open.
        """
        cluster = self._state.cluster
        others = [
            self._waiting[uid]
            for uid in self._open
            if uid != pod.uid and interact(cluster, self._waiting[uid], pod)
        ]
        if others:
            await asyncio.gather(*(self._look(other) for other in others))

    async def _look(self, pod: Pod) -> None:
        node = ""
        for claim in pod.claims:
            node = node or await self._selected_node(pod.namespace, claim)
        if pod.uid not in self._open:
            return  # tried by us meanwhile, or gone
        self._open.discard(pod.uid)
        if node:
            self._state.promises.make(pod, node)

    async def _selected_node(self, namespace: str, claim: str) -> str:
        path = resource_path("v1", "persistentvolumeclaims", namespace=namespace, name=claim)
        try:
            async with self._readers, asyncio.timeout(GET_SECONDS):
                found = await self._client.get(path)
        except NotFound as error:
            if error.object_absent:
                return ""
            raise
        return str((found["metadata"].get("annotations") or {}).get(names.SELECTED_NODE, ""))

    def _note(self, uid: str) -> None:
        """Where a pod is sent is not known, if its attempt is not known to be over."""
        pod = self._waiting.get(uid)
        if pod is not None and not pod.tried and not self._state.promises.holds(uid):
            self._open.add(uid)

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._forget(old.uid)
        if new is None:
            return
        if not new.claims:
            self._forget(new.uid)  # it is bound, or cannot be
            return
        is_new = new.uid not in self._waiting
        self._waiting[new.uid] = new
        if new.tried:
            self._open.discard(new.uid)
        elif is_new:
            self._note(new.uid)

    def _forget(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._open.discard(uid)
