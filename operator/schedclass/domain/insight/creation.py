"""A pod as the API server would store it, from a pod or a template that nobody has stored yet."""

from collections.abc import Mapping
from typing import Any, Final

from schedclass.domain.podfields import PREFERRED, REQUIRED

SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Priority classes that every cluster has."""

DAEMON_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""What the DaemonSet controller adds to its pods (`util.AddOrUpdateDaemonPodTolerations`)."""

_TEMPLATE_HASH: Final = "pod-template-hash"


def as_created(obj: Mapping[str, Any], priorities: Mapping[str, int]) -> dict[str, Any]:
    """Fill in what admission and the pod strategy of the API server fill in.

    The label keys of affinity terms are merged into their selectors (KEP-3633) and the priority is
    looked up. A stored pod, which has a uid, is left as it is.

    Args:
        obj: a Pod; parts of the wrong type are left for whoever reads it to complain about.
        priorities: values of PriorityClasses by name, beside the system's own.
    """
    pod = dict(obj)
    metadata, spec = obj.get("metadata"), obj.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping) or metadata.get("uid"):
        return pod
    labels = metadata.get("labels")
    pod["spec"] = spec = dict(spec)
    if isinstance(spec.get("affinity"), Mapping) and isinstance(labels, Mapping):
        spec["affinity"] = _merged(spec["affinity"], labels)
    if spec.get("priority") is None:
        known = {**SYSTEM_PRIORITIES, **priorities}
        spec["priority"] = known.get(
            str(spec.get("priorityClassName") or ""), priorities.get("", 0)
        )
    return pod


def pod_of_template(
    workload: Mapping[str, Any], template: Mapping[str, Any], name: str, owner: Mapping[str, Any]
) -> dict[str, Any]:
    """The pod that a controller would make of a template.

    Args:
        workload: the Deployment, StatefulSet...
        template: its pod template.
        name: the pod's name.
        owner: what its ownerReference says.
    """
    metadata = dict(template.get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), **_added_labels(workload, name)}
    metadata.update(
        name=name,
        namespace=workload["metadata"].get("namespace"),
        labels=labels,
        ownerReferences=[{**owner, "controller": True}],
    )
    metadata.pop("uid", None)
    spec = template.get("spec")
    if workload.get("kind") == "DaemonSet" and isinstance(spec, Mapping):
        spec = {**spec, "tolerations": [*_list(spec.get("tolerations")), *DAEMON_TOLERATIONS]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _added_labels(workload: Mapping[str, Any], name: str) -> dict[str, str]:
    """Labels by which the controllers tell their pods, as far as they can matter to placement."""
    owner = str(workload["metadata"].get("name"))
    match workload.get("kind"):
        case "Deployment":
            return {_TEMPLATE_HASH: "new"}
        case "StatefulSet":
            return {"statefulset.kubernetes.io/pod-name": name}
        case "Job":
            return {"batch.kubernetes.io/job-name": owner, "job-name": owner}
    return {}


def _merged(affinity: Mapping[str, Any], labels: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind)
        if not isinstance(part, Mapping):
            continue
        merged[kind] = part = dict(part)
        if isinstance(part.get(REQUIRED), list):
            part[REQUIRED] = [_merged_term(term, labels) for term in part[REQUIRED]]
        if isinstance(part.get(PREFERRED), list):
            part[PREFERRED] = [
                {**wish, "podAffinityTerm": _merged_term(wish.get("podAffinityTerm"), labels)}
                if isinstance(wish, Mapping)
                else wish
                for wish in part[PREFERRED]
            ]
    return merged


def _merged_term(term: Any, labels: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as it came
    if not isinstance(term, Mapping) or not isinstance(term.get("labelSelector"), Mapping):
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in _list(term.get(field))
        if isinstance(key, str) and key in labels
    ]
    if not added:
        return term
    selector = dict(term["labelSelector"])
    selector["matchExpressions"] = [*_list(selector.get("matchExpressions")), *added]
    return {**term, "labelSelector": selector}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
