"""The table of admission: what happens to a pod, a namespace and a class under review."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import jsonpatch
import jsonpointer

from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import (
    Effective,
    NamespaceKeys,
    desired_keys,
    effective_class,
    findings,
    merge_patch,
    stays_finding,
)
from schedclass.domain.namespaces import Namespace, parse_namespace
from schedclass.domain.nodes import Node, why_node_not_allowed
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.domain.tree import NamespaceTree
from schedclass.domain.validation import validate_spec

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
        finding: why; its message is the denial text.
        patch: RFC 6902 operations, `[{"op", "path", "value"?}, ...]`.
        warnings: what the client is told although the request passes.
        code: HTTP code of a denial.
        event: whether the finding should also become an Event (never on dry-run).
    """

    outcome: Outcome
    finding: Finding
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: tuple[str, ...] = ()
    code: int = 403
    event: bool = False


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
        has_spec: whether the body has a spec object at all.
        username: who asks, as authenticated by the API server.
        groups: the groups of that user.
    """

    namespace: str
    node_name: str = ""
    scheduler_name: str = ""
    annotations: Mapping[str, Any] | None = None
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
    """

    pod: PodRequest
    effective: Effective
    view: ClassView
    node: Node | None = None
    exempt_daemon_sets: bool = False

    @property
    def class_name(self) -> str:
        """The effective class by name."""
        return self.effective.class_name or ""


def decide_pod(case: PodCase) -> Decision:
    """Go down the table for pods, operation CREATE, no subresource: the first row that applies."""
    return next(decision for row in POD_TABLE if (decision := row(case)) is not None)


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
    return Decision(Outcome.UNCHANGED, finding, warnings=(finding.message,), event=True)


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
    if not patch:
        return unchanged(Reason.ALREADY_RIGHT, f'already pinned to scheduling class "{class_name}"')
    message = f'pinned to scheduling class "{class_name}"'
    finding = Finding(Reason.CLASS_APPLIED, message, Severity.NORMAL)
    return Decision(Outcome.PATCHED, finding, tuple(patch))


POD_TABLE: Final[tuple[Callable[[PodCase], Decision | None], ...]] = (
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


def decide_namespace(
    tree: NamespaceTree,
    obj: Mapping[str, Any],
    *,
    class_exists: bool | None,
    old: Mapping[str, Any] | None = None,
) -> Decision:
    """Stamp the effective class on a namespace that is created or updated.

    Args:
        tree: the known namespaces; the one under review need not be among them.
        obj: the new object.
        class_exists: whether the effective class exists; None when that is not known.
        old: the stored object of an update; None for a creation.
    """
    ns = parse_namespace(obj)
    if ns.deleting:
        return unchanged(Reason.NOT_MUTABLE, "the namespace is being deleted")
    effective = effective_class(tree, ns)
    warnings = tuple(finding.message for finding in findings(tree, ns, effective))
    if ns.name in tree.excluded:
        finding = Finding(
            Reason.NAMESPACE_EXCLUDED, "the namespace is excluded from classes", Severity.NORMAL
        )
        return Decision(Outcome.UNCHANGED, finding, warnings=warnings)
    if effective.class_name is not None and class_exists is False:
        warnings += (class_not_found(effective, ns.name).message,)
    desired = desired_keys(ns, effective, class_exists=class_exists)
    if old is not None:
        before = parse_namespace(old)
        if stays := stays_finding(before, ns, effective):
            warnings += (stays.message,)
        desired = _in_a_users_name(before, ns, desired, effective.own_request)
    changes = merge_patch(NamespaceKeys.of(ns), desired)
    if not changes:
        finding = Finding(Reason.ALREADY_RIGHT, "nothing to change", Severity.NORMAL)
        return Decision(Outcome.UNCHANGED, finding, warnings=warnings)
    finding = Finding(Reason.CLASS_APPLIED, "effective class stamped", Severity.NORMAL)
    return Decision(Outcome.PATCHED, finding, _as_json_patch(obj, changes), warnings)


def _in_a_users_name(
    old: Namespace, ns: Namespace, desired: NamespaceKeys, own_request: str | None
) -> NamespaceKeys:
    """What of `desired` can be written in the request of the user who updates a namespace.

    To the policies of the API server the stamp is the user's own change, and they let nobody but
    the platform write provenance. A request that leaves it alone must not fail because the tree has
    moved on since it was written, so what is due by that is left to the controller. A request that
    touches it is put right as far as we know, and the policies judge what remains of it.
    """
    before, sent = NamespaceKeys.of(old), NamespaceKeys.of(ns)
    touched = _provenance(sent) != _provenance(before) or sent.enforced != before.enforced
    if touched or ns.owners != old.owners or _lets_through(before, desired):
        return desired
    if before.inherited_from is None:
        return sent
    label = before.inherited_class or before.label
    return replace(before, label=label, requested=own_request or sent.requested)


def _lets_through(before: NamespaceKeys, after: NamespaceKeys) -> bool:
    """Whether the policy on namespaces accepts this change from anybody.

    The enforced label goes with a namespace's own wish: no pod of it may be unprotected, or
    blocked, between the two.
    """
    if _provenance(after) != _provenance(before):
        return False
    wish_changed = before.inherited_from is None and after.label != before.label
    return wish_changed or after.enforced == before.enforced


def _provenance(keys: NamespaceKeys) -> tuple[str | None, ...]:
    return keys.inherited_from, keys.inherited_class, keys.inherited_from_uid


def _as_json_patch(obj: Mapping[str, Any], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same change of `metadata`, as RFC 6902 operations on the object under review."""
    metadata = obj.get("metadata") or {}
    before = {name: metadata.get(name) for name in changes if name in metadata}
    after = dict(before)
    for name, values in changes.items():
        merged = {**(before.get(name) or {}), **values}
        after[name] = {key: value for key, value in merged.items() if value is not None}
    operations = jsonpatch.make_patch({"metadata": before}, {"metadata": after})
    return [dict(operation) for operation in operations]


def decide_class(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Decision:
    """Validate a SchedulingClass that is created or updated.

    What was stored before is not judged again: an update that leaves `spec` alone passes, so that
    labels, finalizers and status of an invalid class can still be written.
    """
    if old is not None and old.get("spec") == new.get("spec"):
        return unchanged(Reason.ALREADY_RIGHT, "the spec is unchanged")
    spec = new.get("spec")
    found = validate_spec(spec if isinstance(spec, Mapping) else {})
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    warnings = tuple(str(finding) for finding in found if finding.severity is Severity.WARNING)
    if not errors:
        return Decision(
            Outcome.UNCHANGED,
            Finding(Reason.VALID, "the class is valid", Severity.NORMAL),
            warnings=warnings,
        )
    message = "; ".join(str(error) for error in errors)
    refusal = Finding(Reason.INVALID_SPEC, message, Severity.ERROR)
    return Decision(Outcome.DENIED, refusal, warnings=warnings, code=422)
