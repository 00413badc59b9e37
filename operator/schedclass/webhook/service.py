"""From an admission request to a decision: gathers what the domain needs, then asks it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from schedclass.domain.admission import (
    ClassState,
    ClassView,
    Decision,
    Outcome,
    PodCase,
    PodRequest,
    decide_class,
    decide_pod,
    decide_preset_node,
    unchanged,
)
from schedclass.domain.class_status import SchedulerSign, scheduler_missing
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import Effective, admitting, effective_class
from schedclass.domain.namespaces import parse_namespace
from schedclass.domain.nodes import Node
from schedclass.domain.stamping import decide_namespace
from schedclass.kube.events import EventRecorder, namespace_reference
from schedclass.kube.state import ClusterState
from schedclass.webhook.live import LiveReader, Undecided
from schedclass.webhook.reviews import Review


class AdmissionService:
    """Answers reviews from memory; knows nothing of HTTP and Kopf."""

    def __init__(  # noqa: PLR0913 - each a choice of its own
        self,
        state: ClusterState,
        live: LiveReader,
        recorder: EventRecorder,
        *,
        exempt_daemon_sets: bool,
        controller_user: str,
        label_keys: Iterable[str],
        scheduler: Callable[[], SchedulerSign | None] = lambda: None,
    ) -> None:
        """Take what answers rest on.

        Args:
            state: namespaces, classes and nodes.
            live: completes it.
            recorder: of Events.
            exempt_daemon_sets: let pods of the DaemonSet controller pass.
            controller_user: the one whose writes on namespaces are never corrected.
            label_keys: what open labelSelectors of classes are filled from.
            scheduler: tells what is known of the scheduler, None where that is not ours to say.
        """
        self._state = state
        self._live = live
        self._recorder = recorder
        self._exempt_daemon_sets = exempt_daemon_sets
        self._controller_user = controller_user
        self._label_keys = tuple(sorted(set(label_keys)))
        self._scheduler = scheduler

    async def pod(self, review: Review) -> Decision:
        """Decide on a pod that is created."""
        case = await self._pod_case(review)
        if isinstance(case, Decision):
            return case
        decision = decide_pod(case)
        if decision.events and not review.dry_run:
            ns = self._state.tree.get(case.pod.namespace)
            reference = namespace_reference(case.pod.namespace, ns.uid if ns else "")
            for finding in decision.events:
                self._recorder.emit(reference, finding)
        return self._warned(decision) if decision.outcome is Outcome.PATCHED else decision

    async def preset_node(self, review: Review) -> Decision:
        """Judge the final state of a pod that names its node, changing nothing."""
        case = await self._pod_case(review)
        return case if isinstance(case, Decision) else decide_preset_node(case)

    async def _pod_case(self, review: Review) -> PodCase | Decision:
        """What the answer to a pod rests on; a decision where that is not known."""
        pod = _pod_request(review)
        if pod.namespace in self._state.tree.excluded:
            return PodCase(pod, Effective(), ClassView(ClassState.ABSENT), excluded=True)
        try:
            effective = await self._live.effective(pod.namespace)
            effective = admitting(self._state.tree.get(pod.namespace), effective)
            view = await self._live.class_view(effective.class_name)
            node = self._node(pod.node_name) if effective.class_name is not None else None
        except Undecided as undecided:
            return _undecided(undecided)
        return PodCase(
            pod,
            effective,
            view,
            node,
            exempt_daemon_sets=self._exempt_daemon_sets,
            label_keys=self._label_keys,
        )

    async def namespace(self, review: Review) -> Decision:
        """Decide on a namespace that is created or updated.

        The controller's own writes pass as they are: its tree may be ahead of ours, and a
        correction from an older one would undo them.
        """
        if review.username == self._controller_user:
            return unchanged(Reason.ALREADY_RIGHT, "written by the controller")
        if not self._state.namespaces.synced:
            return _undecided(Undecided("the namespaces have not been listed yet"))
        obj = review.object or {}
        name = effective_class(self._state.tree, parse_namespace(obj)).class_name
        view = await self._live.class_view(name)
        exists = None if view.state is ClassState.UNKNOWN else view.state is ClassState.EXISTS
        decision = decide_namespace(
            self._state.tree, obj, old=review.old_object, class_exists=exists
        )
        return self._warned(decision) if name is not None and exists else decision

    async def scheduling_class(self, review: Review) -> Decision:
        """Validate a SchedulingClass that is created or updated."""
        nodes = self._state.nodes.values() if self._state.nodes.synced else None
        decision = decide_class(review.object or {}, review.old_object, nodes=nodes)
        return self._warned(decision) if review.old_object is None else decision

    def _warned(self, decision: Decision) -> Decision:
        """With a word about a scheduler that does not run; never while that is not known."""
        scheduler = self._scheduler()
        if scheduler is None or scheduler.alive is not False:
            return decision
        return replace(decision, warnings=(*decision.warnings, scheduler_missing(scheduler)))

    def _node(self, name: str) -> Node | None:
        if not name:
            return None
        if not self._state.nodes.synced:
            raise Undecided("the nodes have not been listed yet")
        return self._state.nodes.get(name)


def _pod_request(review: Review) -> PodRequest:
    obj = review.object or {}
    spec = obj.get("spec")
    has_spec = isinstance(spec, Mapping)
    fields: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
    metadata = obj.get("metadata", {})
    return PodRequest(
        namespace=review.namespace or "",
        node_name=str(fields.get("nodeName") or ""),
        scheduler_name=str(fields.get("schedulerName") or ""),
        annotations=metadata.get("annotations"),
        labels=metadata.get("labels") or {},
        has_spec=has_spec,
        username=review.username,
        groups=review.groups,
    )


def _undecided(why: Undecided) -> Decision:
    return Decision(Outcome.UNKNOWN, Finding(Reason.CLASS_UNKNOWN, str(why), Severity.ERROR))
