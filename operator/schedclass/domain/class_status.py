"""The status of a SchedulingClass, computed from scratch each time.

Conditions follow the API conventions (`metav1.Condition`, KEP-1623) and kstatus: `Ready` is the
summary, `Stalled` is there only while nothing but an edit of the spec can help, and `InUse`,
`Compliant` and `SchedulerAvailable` inform without ever making `Ready` false.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Final, Literal

from schedclass.domain import names
from schedclass.domain.compliance import ViolationKind
from schedclass.domain.compliance_index import PodCounts
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.nodes import Node, matches_node, no_matching_nodes
from schedclass.domain.rawjson import mappings_in
from schedclass.domain.schedulingclass import SchedulingClass

CONDITION_TYPES: Final = (
    *("Ready", "Accepted", "NodesAvailable", "InUse", "Compliant"),
    *("SchedulerAvailable", "Stalled"),
)
"""Types that the operator owns, in the order in which it adds them."""

MESSAGE_MAX: Final = 32768
"""Longest message that a condition may have."""

NAMESPACES_SHOWN: Final = 20
"""How many namespaces a message names; it is for all to read, so only where it has to."""


@dataclass(frozen=True, slots=True)
class SchedulerSign:
    """What the Lease of cozystack-scheduler tells.

    Attributes:
        lease: `namespace/name`.
        alive: whether it is being renewed; None while that is not known.
    """

    lease: str
    alive: bool | None


_POD_KEYS: Final = ("pods", "violatingPods", "lastEvaluated")
_SUMMARY_ERRORS: Final = 3
_SUMMARY_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class _Condition:
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def class_status(  # noqa: PLR0913 - all that a status shows
    cls: SchedulingClass,
    *,
    nodes: Iterable[Node],
    bound_namespaces: Collection[str],
    previous: Mapping[str, Any],
    now: str,
    scheduler: SchedulerSign | None = None,
    pods: PodCounts | None = None,
    pods_to_come: bool = False,
) -> dict[str, Any]:
    """Compute the whole status of a class.

    Args:
        cls: the class.
        nodes: all nodes of the cluster.
        bound_namespaces: names of the namespaces whose effective class it is.
        previous: the status as it stands, for the transition times and the order of conditions;
            conditions of other types in it are kept as they are.
        now: RFC 3339 time in UTC and whole seconds for conditions whose status flips.
        scheduler: what is known of the scheduler; None where another installation provides it.
        pods: the pods of the class; None while they are not known.
        pods_to_come: whether they will be known in a moment, so that until then the last word on
            them stays; a new leader would otherwise unsay what it is about to say again.

    Returns:
        `{"observedGeneration", "conditions": [...], "boundNamespaces", "matchingNodes",
        "readyNodes", "pods", "violatingPods", "lastEvaluated"}`. The node counts are left out
        while the spec is invalid, and those of pods while they are not known. Equal to `previous`
        if nothing changed, whatever `now` is.
    """
    status: dict[str, Any] = {"observedGeneration": cls.generation}
    conditions = {
        "Accepted": _accepted(cls),
        "InUse": _in_use(cls.name, len(bound_namespaces)),
        "Compliant": _compliant(cls, pods),
    }
    if scheduler is not None:
        conditions["SchedulerAvailable"] = _scheduler_available(scheduler)
    if cls.spec is None:
        conditions["NodesAvailable"] = _Condition(
            "Unknown", Reason.NOT_EVALUATED, "An invalid spec is not compared with nodes."
        )
        conditions["Stalled"] = _invalid(cls.errors)
    else:
        candidates = list(nodes)
        matching = [node for node in candidates if matches_node(cls.spec, node)]
        ready = sum(node.takes_pods for node in matching)
        status["matchingNodes"] = len(matching)
        status["readyNodes"] = ready
        conditions["NodesAvailable"] = _nodes_available(len(candidates), len(matching), ready)
    conditions["Ready"] = _ready(cls, conditions["NodesAvailable"], bound_namespaces)
    status["boundNamespaces"] = len(bound_namespaces)
    status["conditions"] = _merged(conditions, previous.get("conditions"), cls.generation, now)
    if pods is None and pods_to_come:
        _keep_compliance(status, previous, cls.generation)
    elif pods is not None:
        status["pods"] = pods.pods
        status["violatingPods"] = pods.violating
        status["lastEvaluated"] = _last_evaluated(status, previous, now)
    return status


def _accepted(cls: SchedulingClass) -> _Condition:
    if cls.errors:
        message = _joined([str(error) for error in cls.errors], "error", MESSAGE_MAX)
        return _Condition("False", Reason.INVALID_SPEC, message)
    if cls.warnings:
        warnings = _joined([str(found) for found in cls.warnings], "warning", MESSAGE_MAX - 100)
        return _Condition("True", Reason.VALID, f"The spec is valid, with warnings: {warnings}")
    return _Condition("True", Reason.VALID, "The spec is valid.")


def _invalid(errors: tuple[Finding, ...]) -> _Condition:
    """Short enough for a column of `kubectl get`; `Accepted` has all errors."""
    shown = [str(error) for error in errors[:_SUMMARY_ERRORS]]
    message = _joined(shown, "error", _SUMMARY_MAX, hidden=len(errors) - len(shown))
    return _Condition("True", Reason.INVALID_SPEC, message)


def _nodes_available(total: int, matching: int, ready: int) -> _Condition:
    if matching == 0:
        told = no_matching_nodes(total)
        return _Condition("False", told.reason, _as_sentence(told.message))
    if ready == 0:
        return _Condition(
            "False",
            Reason.ALL_NODES_CORDONED,
            f"{_count(matching, 'matching node')}, all cordoned or not ready; "
            "new pods of this class stay Pending.",
        )
    return _Condition(
        "True",
        Reason.NODES_MATCHED,
        f"{matching} of {_count(total, 'node')} match, {ready} of them ready for pods.",
    )


def _as_sentence(message: str) -> str:
    """A finding's message as conditions write theirs."""
    return f"{message[0].upper()}{message[1:]}."


def _in_use(name: str, bound: int) -> _Condition:
    if bound == 0:
        return _Condition("False", Reason.UNREFERENCED, "No namespace is bound to this class.")
    are = "is" if bound == 1 else "are"
    return _Condition(
        "True",
        Reason.REFERENCED_BY_NAMESPACES,
        f"{_count(bound, 'namespace')} {are} bound to this class; list them with: "
        f"kubectl get namespaces -l {names.CLASS_KEY}={name}",
    )


def scheduler_missing(scheduler: SchedulerSign) -> Finding:
    """The finding about pinned pods that nobody places."""
    return Finding(
        Reason.SCHEDULER_MISSING,
        f"nobody renews Lease {scheduler.lease}; pinned pods stay Pending until a scheduler runs",
    )


def _scheduler_available(scheduler: SchedulerSign) -> _Condition:
    """No holder and no time in the messages: they would have to be written again and again."""
    if scheduler.alive is None:
        message = f"Whether {names.SCHEDULER_NAME} runs is not known yet."
        return _Condition("Unknown", Reason.SCHEDULER_UNKNOWN, message)
    if scheduler.alive:
        message = f"{names.SCHEDULER_NAME} renews the Lease {scheduler.lease}."
        return _Condition("True", Reason.SCHEDULER_RUNNING, message)
    message = _as_sentence(scheduler_missing(scheduler).message)
    return _Condition("False", Reason.SCHEDULER_MISSING, message)


_BROKEN: Final = {
    ViolationKind.NODE: "on a node that it does not allow",
    ViolationKind.AFFINITY: "against its pod affinity or anti-affinity",
    ViolationKind.SPREAD: "against its topology spread",
    ViolationKind.BYPASS: "not pinned to it",
}


def violations_message(pods: PodCounts) -> str:
    """What is wrong with how many pods, and how to list them; without names, which change."""
    broken = [f"{pods.by_kind[kind]} {how}" for kind, how in _BROKEN.items() if pods.by_kind[kind]]
    verb = "breaks" if pods.violating == 1 else "break"
    return (
        f"{_count(pods.violating, 'pod')} {verb} the class: {', '.join(broken)}; "
        "list them with: kubectl schedclass check -A"
    )


def _compliant(cls: SchedulingClass, pods: PodCounts | None) -> _Condition:
    if pods is None:
        message = "The pods of the class have not been examined."
        return _Condition("Unknown", Reason.NOT_EVALUATED, message)
    if pods.violating:
        return _Condition("False", Reason.PODS_VIOLATING, violations_message(pods))
    if cls.spec is None:
        message = "An invalid spec is not compared with where pods run."
        return _Condition("Unknown", Reason.NOT_EVALUATED, message)
    return _Condition("True", Reason.NO_VIOLATIONS, "All pods are as the class wants them.")


def _keep_compliance(status: dict[str, Any], previous: Mapping[str, Any], generation: int) -> None:
    """Take over what was last said of pods, if it was said of this generation."""
    before = _condition_in(previous, "Compliant")
    if before is None or before.get("observedGeneration") != generation:
        return
    (now,) = (c for c in status["conditions"] if c["type"] == "Compliant")
    now.clear()
    now.update(before)
    status.update({key: previous[key] for key in _POD_KEYS if key in previous})


def _last_evaluated(status: Mapping[str, Any], previous: Mapping[str, Any], now: str) -> object:
    """The time of the last news about pods: that of every look would be a write each time."""
    same = all(status[key] == previous.get(key) for key in ("pods", "violatingPods"))
    unchanged = _condition_in(status, "Compliant") == _condition_in(previous, "Compliant")
    return previous.get("lastEvaluated", now) if same and unchanged else now


def _condition_in(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    conditions = mappings_in(status.get("conditions"))
    return next((one for one in conditions if one.get("type") == kind), None)


def only_pods_differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two statuses differ in nothing but how many pods a class has, and as of when."""
    fast = ("pods", "lastEvaluated")
    return {k: v for k, v in one.items() if k not in fast} == {
        k: v for k, v in other.items() if k not in fast
    }


def _ready(cls: SchedulingClass, nodes_available: _Condition, bound: Collection[str]) -> _Condition:
    if cls.deleting:
        return _Condition("False", Reason.DELETING, _deleting_message(bound))
    if cls.spec is None:
        return _Condition("False", Reason.INVALID_SPEC, _invalid(cls.errors).message)
    if nodes_available.reason is Reason.NO_MATCHING_NODES:
        return _Condition("False", Reason.NO_MATCHING_NODES, nodes_available.message)
    # Cordoned nodes are routine maintenance: the class is as it should be, so it stays ready.
    return _Condition("True", Reason.AVAILABLE, nodes_available.message)


def _deleting_message(bound: Collection[str]) -> str:
    if not bound:
        return "The class is being deleted; no namespace is bound to it any more."
    shown = nsmallest(NAMESPACES_SHOWN, bound)
    more = f" and {len(bound) - len(shown)} more" if len(bound) > len(shown) else ""
    are = "is" if len(bound) == 1 else "are"
    return (
        "The class is being deleted but stays in force while namespaces are bound to it. "
        f"{_count(len(bound), 'namespace')} {are}: {', '.join(shown)}{more}. "
        "Give them another class, or take the label off, to let it go."
    )


def _merged(
    conditions: Mapping[str, _Condition], previous: object, generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions as a list: those that were there keep their place, new ones go last."""
    before = [
        condition
        for condition in (previous if isinstance(previous, list) else [])
        if isinstance(condition, Mapping) and isinstance(condition.get("type"), str)
    ]
    merged: dict[str, dict[str, Any]] = {}
    for old in before:
        kind = old["type"]
        if kind in conditions:
            merged.setdefault(kind, _rendered(kind, conditions[kind], generation, old, now))
        elif kind not in CONDITION_TYPES:
            merged.setdefault(kind, dict(old))
    for kind in CONDITION_TYPES:
        if kind in conditions and kind not in merged:
            merged[kind] = _rendered(kind, conditions[kind], generation, {}, now)
    return list(merged.values())


def _rendered(
    kind: str, condition: _Condition, generation: int, old: Mapping[str, Any], now: str
) -> dict[str, Any]:
    since = old.get("lastTransitionTime")
    stays = old.get("status") == condition.status and isinstance(since, str) and since
    return {
        "type": kind,
        "status": condition.status,
        "observedGeneration": generation,
        "lastTransitionTime": since if stays else now,
        "reason": condition.reason.value,
        "message": condition.message,
    }


def _joined(sentences: list[str], noun: str, limit: int, hidden: int = 0) -> str:
    """Sentences joined by "; ", as many as fit, with a count of the rest."""
    room = limit - 40  # for the count
    kept: list[str] = []
    for sentence in sentences:
        if kept and room < len(sentence) + 2:
            break
        kept.append(sentence if len(sentence) <= room else f"{sentence[: room - 3]}...")
        room -= len(kept[-1]) + 2
    hidden += len(sentences) - len(kept)
    more = f"; and {hidden} more {noun}{'s' if hidden > 1 else ''}" if hidden else ""
    return "; ".join(kept) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
