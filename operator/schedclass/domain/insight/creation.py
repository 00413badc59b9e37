"""A pod as the API server would store it, from a pod or a template that nobody has stored yet."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from schedclass.domain.insight.snapshot import NEVER, PriorityClass
from schedclass.domain.podfields import PREFERRED, REQUIRED
from schedclass.domain.rawjson import mapping_or_empty

SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": PriorityClass(2_000_000_000),
    "system-node-critical": PriorityClass(2_000_001_000),
}
"""Priority classes that every cluster has."""


def _toleration(key: str, effect: str) -> dict[str, str]:
    return {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}


DAEMON_TOLERATIONS: Final = tuple(
    _toleration(key, effect)
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

NEW_HASH: Final = "new"
"""Stands in for the hash of a template that no ReplicaSet has yet."""


def as_created(obj: Mapping[str, Any], priorities: Mapping[str, PriorityClass]) -> dict[str, Any]:
    """Fill in what admission and the pod strategy of the API server fill in.

    The label keys of affinity terms are merged into their selectors (KEP-3633) and the priority is
    looked up; that of a PriorityClass which is not known is left out. A stored pod, which has a
    uid, is left as it is.

    Args:
        obj: a Pod; parts of the wrong type are left for whoever reads it to complain about.
        priorities: PriorityClasses by name, beside the system's own; under the empty name the one
            for pods that name none.
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
        known = {"": PriorityClass(0), **SYSTEM_PRIORITIES, **priorities}
        found = known.get(str(spec.get("priorityClassName") or ""))
        if found is not None:
            spec["priority"] = found.value
        if found is not None and not found.preempts:
            spec["preemptionPolicy"] = spec.get("preemptionPolicy") or NEVER
    return pod


def pod_of_template(
    workload: Mapping[str, Any],
    template: Mapping[str, Any],
    name: str,
    owner: Mapping[str, Any],
    pod_hash: str = NEW_HASH,
) -> dict[str, Any]:
    """The pod that a controller would make of a template.

    Args:
        workload: the Deployment, StatefulSet...
        template: its pod template.
        name: the pod's name.
        owner: what its ownerReference says.
        pod_hash: by which pods of a Deployment tell their template.
    """
    metadata = dict(template.get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), **_added_labels(workload, name, pod_hash)}
    metadata.update(
        name=name,
        namespace=workload["metadata"].get("namespace"),
        labels=labels,
        ownerReferences=[{**owner, "controller": True}],
    )
    metadata.pop("uid", None)
    spec = template.get("spec")
    if workload.get("kind") == "DaemonSet" and isinstance(spec, Mapping):
        added = [*DAEMON_TOLERATIONS]
        if spec.get("hostNetwork") is True:
            added.append(_toleration("network-unavailable", "NoSchedule"))
        spec = {**spec, "tolerations": [*_list(spec.get("tolerations")), *added]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def template_hash(template: object) -> str:
    """The hash that a ReplicaSet has in its template; empty for none."""
    labels = mapping_or_empty(mapping_or_empty(template).get("metadata")).get("labels")
    return str(mapping_or_empty(labels).get(_TEMPLATE_HASH) or "")


def template_key(template: object) -> str:
    """Equal for templates that differ by their hash only, or by metadata that is null or empty.

    Empty for one that no API server would store.
    """
    raw = mapping_or_empty(template)
    metadata = {key: value for key, value in mapping_or_empty(raw.get("metadata")).items() if value}
    labels = dict(mapping_or_empty(metadata.get("labels")))
    labels.pop(_TEMPLATE_HASH, None)
    cleaned = {**raw, "metadata": {**metadata, "labels": labels}}
    try:
        told = json.dumps(cleaned, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys of several types, depth
        return ""
    return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _added_labels(workload: Mapping[str, Any], name: str, pod_hash: str) -> dict[str, str]:
    """Labels by which the controllers tell their pods, as far as they can matter to placement."""
    owner = str(workload["metadata"].get("name"))
    match workload.get("kind"):
        case "Deployment":
            return {_TEMPLATE_HASH: pod_hash}
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
