"""What has to be known of a pod to name a node for it, or to see where its volumes send it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from schedclass.domain import names
from schedclass.domain.label_syntax import why_not_dns_subdomain
from schedclass.domain.rawjson import mapping_or_empty, mappings_in
from schedclass.domain.resources import Demand, parse_demand

_BESIDE_CONTAINERS: Final = ("initContainers", "overhead", "resources", "hostNetwork")
"""Fields of a pod spec that ask for resources or ports beside its containers."""

_ANYWHERE: Final = frozenset(
    ("configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret")
)
"""Kinds of volumes that bind a pod to no node."""

_TOGETHER: Final = ("resourceClaims", "workloadRef", "schedulingGroup")
"""Fields by which devices, or the placement of other pods, decide on the node as well."""


def demand_of(spec: Mapping[str, Any]) -> Demand | None:
    """What a pod takes of its node; None if that cannot be read.

    Pods of one workload share the result.
    """
    try:
        containers: list[Mapping[str, Any]] = spec.get("containers") or []
        special = any(spec.get(field) for field in _BESIDE_CONTAINERS)
        if special or any("ports" in container for container in containers):
            return parse_demand(spec)
        return _demand(orjson.dumps([container.get("resources") for container in containers]))
    except (ValueError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=4096)
def _demand(resources: bytes) -> Demand:
    return parse_demand({"containers": [{"resources": item} for item in orjson.loads(resources)]})


def is_hintable(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether a node may be named for a pod of our scheduler.

    Not if something decides on its node that we do not know of: volumes, devices, other pods of
    its group. One that was tried before, or that a preemption promised a node, is left to
    kube-scheduler.
    """
    return (
        spec.get("schedulerName") == names.SCHEDULER_NAME
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not status.get("nominatedNodeName")
        and not refusal_of(status)
        and not any(spec.get(field) for field in _TOGETHER)
        and all(
            _ANYWHERE.issuperset(volume.keys() - {"name"})
            for volume in mappings_in(spec.get("volumes"))
        )
    )


def binds_late(pod: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler may do lengthy things between choosing a node for a pod and binding.

    It makes volumes and reserves devices then (PreBind of VolumeBinding and DynamicResources).
    """
    spec = mapping_or_empty(pod.get("spec"))
    claims = ("persistentVolumeClaim", "ephemeral")
    return bool(spec.get("resourceClaims")) or any(
        volume.get(kind) for volume in mappings_in(spec.get("volumes")) for kind in claims
    )


def claims_of(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the PersistentVolumeClaims of a pod of our scheduler; none if it cannot be bound.

    That of a generic ephemeral volume is made of the names of pod and volume (KEP-1698). The API
    server lets a pod name claims that cannot exist; such names are left out.
    """
    volumes = spec.get("volumes")
    if not volumes or spec.get("schedulerName") != names.SCHEDULER_NAME:
        return ()
    if spec.get("schedulingGates") or metadata.get("deletionTimestamp"):
        return ()  # never tried, or refused by the API server: on its way to no node
    found = []
    for volume in mappings_in(volumes):
        claim = mapping_or_empty(volume.get("persistentVolumeClaim")).get("claimName")
        if claim:
            found.append(str(claim))
        elif volume.get("ephemeral"):
            found.append(f"{metadata.get('name')}-{volume.get('name')}")
    return tuple(name for name in found if why_not_dns_subdomain(name) is None)


def refusal_of(status: Mapping[str, Any]) -> str:
    """What kube-scheduler said when it found no node at its last attempt; empty before the first.

    It writes the condition `PodScheduled` only where it says something else than before.
    """
    for condition in mappings_in(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason = str(condition.get("reason"))
            said = f"{reason}: {condition.get('message')}"
            return "" if reason == "SchedulingGated" else said
    return ""


def is_hinted(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether `status.nominatedNodeName` was written by us, as a hint, and not by a preemption.

    The API server keeps account of who wrote a field, and gives it to the next one who changes it
    (server-side apply, KEP-555). So the answer survives our restarts and fits every replica.
    """
    if not status.get("nominatedNodeName"):
        return False
    return any(
        entry.get("manager") == names.FIELD_MANAGER
        and "f:nominatedNodeName" in _written_status(entry)
        for entry in mappings_in(metadata.get("managedFields"))
    )


def _written_status(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of `status` that a manager is known to have written."""
    return mapping_or_empty(mapping_or_empty(entry.get("fieldsV1")).get("f:status"))
