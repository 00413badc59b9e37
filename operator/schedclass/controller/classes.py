"""Keeps the status of each SchedulingClass right, and protects those in use from deletion."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from typing import Any

from schedclass.controller.bindings import Bindings
from schedclass.controller.compliance import ComplianceController
from schedclass.controller.workqueue import WorkQueue
from schedclass.domain import names
from schedclass.domain.class_status import SchedulerSign, class_status, only_pods_differ
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.kube.client import KubeClient
from schedclass.kube.events import EventRecorder, ObjectRef
from schedclass.kube.state import CLASSES_PATH, ClusterState
from schedclass.observability.metrics import Metrics

logger = logging.getLogger(__name__)

STATUS_SECONDS = 1.0
"""Least time between two writes of one status: while a change travels down a large tree, the counts
of two classes change with each namespace, and their writes would slow down those that matter."""

PODS_SECONDS = 10.0
"""The same for a status in which only the number of pods differs: it changes all the time, and each
write goes to everybody who watches classes."""


class ClassController:
    """Writes conditions and counts, the in-use label and the finalizer, only when they differ.

    Attributes:
        queue: the classes to look at.
    """

    def __init__(  # noqa: PLR0913 - what a status rests on, and who is told
        self,
        state: ClusterState,
        bindings: Bindings,
        client: KubeClient,
        recorder: EventRecorder,
        metrics: Metrics,
        *,
        queue: WorkQueue,
        compliance: ComplianceController,
        scheduler: Callable[[], SchedulerSign | None],
    ) -> None:
        """Nothing is requested before `reconcile`.

        Args:
            state: namespaces, nodes and classes; fed by others.
            bindings: the namespaces that a class applies to.
            client: who writes.
            recorder: who is told of classes.
            metrics: shows classes.
            queue: the classes to look at; whoever knows of a change adds to it.
            compliance: counts the pods.
            scheduler: tells what is known of the scheduler, None where that is not ours to say.
        """
        self._state = state
        self._bindings = bindings
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._compliance = compliance
        self._scheduler = scheduler
        self._told: dict[str, Finding | None] = {}
        self._written_at: dict[str, float] = {}
        self.queue = queue
        state.classes.on_change(lambda name, _old, _new: self.queue.add(name))
        state.nodes.on_change(lambda _name, _old, _new: self.queue.add_all(state.classes))

    async def reconcile(self, name: str) -> None:
        """Bring one class to its desired state.

        Raises:
            ApiError, Unreachable: from a patch; the caller tries again.
        """
        cls = self._state.classes.get(name)
        if cls is None:
            self._told.pop(name, None)
            self._written_at.pop(name, None)
            self._metrics.forget_class(name)
            return
        cls = await self._protect(cls, in_use=self._bindings.is_used(name))
        if name not in self._state.classes:
            return  # it went with our finalizer; where another one holds it, its status goes on
        if (pause := self._pause(name, STATUS_SECONDS)) > 0:
            self.queue.add_after(name, pause)
            return
        pods = self._compliance.counts(name)
        status = class_status(
            cls,
            nodes=self._state.nodes.values(),
            bound_namespaces=self._bindings.namespaces_of(name),
            previous=cls.status,
            now=_now(),
            scheduler=self._scheduler(),
            pods=pods,
            pods_to_come=self._compliance.to_come,
        )
        self._tell(cls, status)
        self._metrics.set_class(name, status)
        self._metrics.set_class_pods(name, pods)
        if status != cls.status:
            await self._write_status(cls, status)

    async def _write_status(self, cls: SchedulingClass, status: dict[str, Any]) -> None:
        pause = self._pause(cls.name, PODS_SECONDS)
        if pause > 0 and only_pods_differ(status, cls.status):
            self.queue.add_after(cls.name, pause)
            return
        removed = {key: None for key in cls.status if key not in status}
        body = {
            "metadata": {"resourceVersion": cls.resource_version},
            "status": {**removed, **status},
        }
        self._written_at[cls.name] = time.monotonic()
        await self._write(f"{CLASSES_PATH}/{cls.name}/status", body)

    def _pause(self, name: str, seconds: float) -> float:
        """How long to wait until the last write of a status is so long ago."""
        return self._written_at.get(name, -seconds) + seconds - time.monotonic()

    async def _protect(self, cls: SchedulingClass, *, in_use: bool) -> SchedulingClass:
        """Label and finalizer while in use; neither otherwise, so an unused class goes at once.

        A finalizer cannot be added to an object that is being deleted (API server, object
        validation), so then it is only ever taken off.
        """
        metadata: dict[str, Any] = {}
        if (cls.labels.get(names.IN_USE) == "true") != in_use:
            metadata["labels"] = {names.IN_USE: "true" if in_use else None}
        finalizers = [f for f in cls.finalizers if f != names.IN_USE_FINALIZER]
        if in_use:
            finalizers = [*finalizers, names.IN_USE_FINALIZER]
        if set(finalizers) != set(cls.finalizers) and not (in_use and cls.deleting):
            metadata["finalizers"] = finalizers
        if not metadata:
            return cls
        metadata["resourceVersion"] = cls.resource_version
        await self._write(f"{CLASSES_PATH}/{cls.name}", {"metadata": metadata})
        return self._state.classes.get(cls.name) or cls

    async def _write(self, path: str, body: dict[str, Any]) -> None:
        answer = await self._client.merge_patch(path, body)
        gone = answer.get("metadata", {}).get("deletionTimestamp") and not answer["metadata"].get(
            "finalizers"
        )
        self._state.classes.apply("DELETED" if gone else "MODIFIED", answer)

    def _tell(self, cls: SchedulingClass, status: dict[str, Any]) -> None:
        """An Event when the class is newly not ready, or not ready for another reason."""
        finding = _why_not_ready(status)
        if finding is not None and finding != self._told.get(cls.name):
            self._recorder.emit(class_reference(cls.name, cls.uid), finding)
        self._told[cls.name] = finding


def _why_not_ready(status: dict[str, Any]) -> Finding | None:
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    if ready["status"] != "False":
        return None
    return Finding(Reason(ready["reason"]), ready["message"])


def _now() -> str:
    """RFC 3339 in UTC and whole seconds, as `metav1.Time`."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def class_reference(name: str, uid: str = "") -> ObjectRef:
    """A class, whose Events go to `default`."""
    return ObjectRef(names.API_VERSION, names.KIND, name, uid)
