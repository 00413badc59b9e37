"""The table of admission: what happens to a pod and to a class under review."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import jsonpointer

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import Effective
from schedclass.domain.nodes import Node, matches_node, no_matching_nodes, why_node_not_allowed
from schedclass.domain.schedulingclass import SchedulingClass, parse_class
from schedclass.domain.unfilled import selector_not_filled

DAEMON_SET_CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"
NODES_GROUP = "system:nodes"
NODE_USER_PREFIX = "system:node:"


class Outcome(Enum):
    """What an answer does; the values are metric labels."""

    PATCHED = "patched"
    UNCHANGED = "unchanged"
    DENIED = "denied"
    UNKNOWN = "error"
    """Not decided: the server answers with HTTP 500 and the failure policy decides."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one review.

    Attributes:
        outcome: allowed with or without a patch, denied, or not decided.
        finding: why; it is the text of a denial.
        patch: RFC 6902 operations, `[{"op", "path", "value"?}, ...]`.
        warnings: what the client is told although the request passes.
        code: HTTP code of a denial.
        causes: of a denial that has several, each by itself.
        events: findings that should also become Events of the namespace (never on dry-run).
    """

    outcome: Outcome
    finding: Finding
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: tuple[Finding, ...] = ()
    code: int = 403
    causes: tuple[Finding, ...] = ()
    events: tuple[Finding, ...] = ()


class ClassState(Enum):
    """What is known of the effective class. Unknown is never taken for absent."""

    EXISTS = "exists"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What the table needs of a pod's review.

    Attributes:
        namespace: the request's namespace (the body's is not trusted).
        node_name: `spec.nodeName`, empty when the pod is yet to be scheduled.
        scheduler_name: `spec.schedulerName`.
        annotations: `metadata.annotations`; None when the body has none or null.
        labels: `metadata.labels`, as they are when we are asked.
        has_spec: whether the body has a spec object at all.
        username: who asks, as authenticated by the API server.
        groups: the groups of that user.
    """

    namespace: str
    node_name: str = ""
    scheduler_name: str = ""
    annotations: Mapping[str, Any] | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    has_spec: bool = True
    username: str = ""
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ClassView:
    """The effective class as known at the time of the review."""

    state: ClassState
    value: SchedulingClass | None = field(default=None)


@dataclass(frozen=True, slots=True)
class PodCase:
    """All that the answer to one pod rests on.

    Attributes:
        pod: the pod under review.
        effective: the class of its namespace.
        view: that class; ignored when there is none.
        node: the node named in the pod; None when it names none or that node does not exist.
        exempt_daemon_sets: let pods pass that the DaemonSet controller itself creates.
        label_keys: what open labelSelectors of the class are filled from.
        excluded: whether its namespace is never pinned; then nothing else matters.
    """

    pod: PodRequest
    effective: Effective
    view: ClassView
    node: Node | None = None
    exempt_daemon_sets: bool = False
    label_keys: tuple[str, ...] = ()
    excluded: bool = False

    @property
    def class_name(self) -> str:
        """The effective class by name."""
        return self.effective.class_name or ""


def decide_pod(case: PodCase) -> Decision:
    """Go down the table for pods, operation CREATE, no subresource: the first row that applies."""
    return next(decision for row in POD_TABLE if (decision := row(case)) is not None)


def decide_preset_node(case: PodCase) -> Decision:
    """Judge a pod that names its node, in its final state and changing nothing.

    Whether it is pinned is no question here: policies in the API server see to that.
    """
    decision = decide_pod(case)
    if decision.outcome is not Outcome.PATCHED:
        return decision
    return unchanged(Reason.NODE_ALLOWED, "the class of the namespace allows the node")


def _excluded(case: PodCase) -> Decision | None:
    if not case.excluded:
        return None
    return unchanged(Reason.NAMESPACE_EXCLUDED, "the namespace is excluded from classes")


def _no_class(case: PodCase) -> Decision | None:
    if case.effective.class_name is not None:
        return None
    return unchanged(Reason.NOT_PINNED, "no scheduling class applies to the namespace")


def _mirror_pod(case: PodCase) -> Decision | None:
    """A mirror pod is written by the kubelet of the very node it names.

    The annotation alone proves nothing, since any author can write it; the identity of the node
    does (the NodeRestriction admission plugin binds a node's mirror pods to that node).
    """
    pod = case.pod
    written_by_its_node = (
        NODES_GROUP in pod.groups and pod.username == NODE_USER_PREFIX + pod.node_name
    )
    if pod.node_name and written_by_its_node and names.MIRROR_POD in (pod.annotations or {}):
        return unchanged(Reason.MIRROR_POD, "mirror pods show what a node already runs")
    return None


def _exempt_daemon_set(case: PodCase) -> Decision | None:
    """Who asks counts, not the ownerReference, which anybody can write."""
    if case.exempt_daemon_sets and case.pod.username == DAEMON_SET_CONTROLLER:
        return unchanged(Reason.DAEMON_SET_EXEMPT, "DaemonSet pods are exempt by configuration")
    return None


def _class_unknown(case: PodCase) -> Decision | None:
    if case.view.state is not ClassState.UNKNOWN:
        return None
    message = f'it is not known at the moment whether scheduling class "{case.class_name}" exists'
    return Decision(Outcome.UNKNOWN, Finding(Reason.CLASS_UNKNOWN, message, Severity.ERROR))


def _class_absent(case: PodCase) -> Decision | None:
    if case.view.state is not ClassState.ABSENT:
        return None
    finding = class_not_found(case.effective, case.pod.namespace)
    return Decision(Outcome.UNCHANGED, finding, warnings=(finding,), events=(finding,))


def _preset_node(case: PodCase) -> Decision | None:
    if not case.pod.node_name:
        return None
    why = _why_not_on_node(case)
    if why is None:
        return None
    message = f"{why}; leave nodeName to the scheduler"
    finding = Finding(Reason.NODE_NOT_ALLOWED, message, Severity.ERROR, "spec.nodeName")
    return Decision(Outcome.DENIED, finding)


def _pin(case: PodCase) -> Decision | None:
    pod, class_name = case.pod, case.class_name
    patch: list[dict[str, Any]] = []
    if not pod.has_spec:
        patch.append(_add("/spec", {}))
    if pod.scheduler_name != names.SCHEDULER_NAME:
        patch.append(_add("/spec/schedulerName", names.SCHEDULER_NAME))
    if pod.annotations is None:
        patch.append(_add("/metadata/annotations", {names.CLASS_KEY: class_name}))
    elif pod.annotations.get(names.CLASS_KEY) != class_name:
        key = jsonpointer.escape(names.CLASS_KEY)
        patch.append(_add(f"/metadata/annotations/{key}", class_name))
    lost = selector_not_filled(case.view.value, pod.labels, case.label_keys)
    told = () if lost is None else (lost,)
    if not patch:
        message = f'already pinned to scheduling class "{class_name}"'
        return replace(unchanged(Reason.ALREADY_RIGHT, message), warnings=told, events=told)
    message = f'pinned to scheduling class "{class_name}"'
    finding = Finding(Reason.CLASS_APPLIED, message, Severity.NORMAL)
    return Decision(Outcome.PATCHED, finding, tuple(patch), told, events=told)


POD_TABLE: Final[tuple[Callable[[PodCase], Decision | None], ...]] = (
    _excluded,
    _no_class,
    _mirror_pod,
    _exempt_daemon_set,
    _class_unknown,
    _class_absent,
    _preset_node,
    _pin,
)
"""The table of admission for pods, top row first; the last row always applies."""


def class_not_found(effective: Effective, namespace: str) -> Finding:
    """The finding about a namespace whose class does not exist."""
    origin = "" if effective.origin == namespace else f", set by {effective.origin},"
    message = (
        f'scheduling class "{effective.class_name}"{origin} does not exist, so pods are not pinned'
    )
    return Finding(Reason.CLASS_NOT_FOUND, message)


def _why_not_on_node(case: PodCase) -> str | None:
    cls, node = case.view.value, case.node
    if node is None:
        return f'node "{case.pod.node_name}" does not exist'
    if cls is None or cls.spec is None:
        return f'scheduling class "{case.class_name}" is invalid, so it allows no preset node'
    refusal = why_node_not_allowed(cls.spec, node)
    if refusal is None:
        return None
    return (
        f'node "{node.name}" is outside scheduling class "{case.class_name}" of the namespace: '
        f"{refusal}"
    )


def _add(path: str, value: object) -> dict[str, Any]:
    """`add` replaces a member that exists (RFC 6902, section 4.1)."""
    return {"op": "add", "path": path, "value": value}


def unchanged(reason: Reason, message: str) -> Decision:
    """Allowed as it is."""
    return Decision(Outcome.UNCHANGED, Finding(reason, message, Severity.NORMAL))


def decide_class(
    new: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    *,
    nodes: Iterable[Node] | None = None,
) -> Decision:
    """Validate a SchedulingClass that is created or updated.

    What was stored before is not judged again: an update that leaves `spec` alone passes, so that
    labels, finalizers and status of an invalid class can still be written.

    Args:
        new: the object.
        old: the stored object of an update; None for a creation.
        nodes: all nodes of the cluster; None while they are not known, and then it is not said
            that none matches.
    """
    if old is not None and old.get("spec") == new.get("spec"):
        return unchanged(Reason.ALREADY_RIGHT, "the spec is unchanged")
    cls = parse_class(new)
    if cls.spec is None:
        message = "; ".join(str(error) for error in cls.errors)
        refusal = Finding(Reason.INVALID_SPEC, message, Severity.ERROR)
        return Decision(Outcome.DENIED, refusal, warnings=cls.warnings, code=422, causes=cls.errors)
    warnings = cls.warnings
    candidates = None if nodes is None else list(nodes)
    if candidates is not None and not any(matches_node(cls.spec, node) for node in candidates):
        warnings += (no_matching_nodes(len(candidates)),)
    valid = Finding(Reason.VALID, "the class is valid", Severity.NORMAL)
    return Decision(Outcome.UNCHANGED, valid, warnings=warnings)
