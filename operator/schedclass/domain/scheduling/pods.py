"""Pods as placement sees them: who they are, where they run, what they ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from schedclass.domain import names
from schedclass.domain.rawjson import mapping, mappings
from schedclass.domain.resources import Demand
from schedclass.domain.scheduling.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    Tolerance,
    Toleration,
    canonical_json,
    pod_constraints,
)
from schedclass.domain.scheduling.prospects import (
    claims_of,
    demand_of,
    is_hintable,
    is_hinted,
    refusal_of,
)

_FINISHED: Final = ("Succeeded", "Failed")
_NO_TOLERANCE: Final = Tolerance(())


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod.

    Attributes:
        uid: its uid; namespace and name for an object that has none.
        namespace: its namespace.
        name: its name.
        labels: `metadata.labels`.
        node_name: the node it is bound to, empty while it has none.
        nominated_node: `status.nominatedNodeName`, empty for none.
        finished: whether its phase is Succeeded or Failed; such a pod takes no place.
        terminating: whether its deletion was asked for.
        class_annotation: the class that its annotation names, None for none.
        daemon: whether a DaemonSet controls it.
        priority: `spec.priority`.
        own: the constraints in its spec.
        tolerance: its tolerations.
        demand: what it takes of its node; None if that is not known. This and the next four are
            read on demand only, see `parse_pod`.
        hintable: whether a node may be named for it beforehand (see `prospects`).
        hinted: whether `nominated_node` is such a hint of ours.
        refusal: why kube-scheduler found no node at its last attempt; empty before the first.
        claims: names of its PersistentVolumeClaims, while our scheduler is to place it.
        resource_version: version of the object read; not compared.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node_name: str = ""
    nominated_node: str = ""
    finished: bool = False
    terminating: bool = False
    class_annotation: str | None = None
    daemon: bool = False
    priority: int = 0
    own: Constraints = NO_CONSTRAINTS
    tolerance: Tolerance = _NO_TOLERANCE
    demand: Demand | None = None
    hintable: bool = False
    hinted: bool = False
    refusal: str = ""
    claims: tuple[str, ...] = ()
    resource_version: str = field(default="", compare=False)

    def on(self, node_name: str) -> "Pod":
        """The same pod bound to a node."""
        return self if self.node_name == node_name else replace(self, node_name=node_name)


def departed(old: Pod | None, new: Pod | None) -> Pod | None:
    """The pod that is gone by a change of what has its name: deleted, or another one is there."""
    return old if old is not None and (new is None or new.uid != old.uid) else None


def parse_pod(obj: Mapping[str, Any], *, prospects: bool = False) -> Pod:
    """Read a pod as the API server or kube-scheduler sends it; absent and null read as empty.

    Args:
        obj: the pod.
        prospects: also read `demand`, `hintable`, `hinted`, `refusal` and `claims`.

    Raises:
        ValueError: a field that placement depends on has a value of the wrong type, which no pod
            of an API server has; the message names the field.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    spec = mapping(obj.get("spec"), "spec")
    status = mapping(obj.get("status"), "status")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    namespace, name = _text(metadata, "namespace"), _text(metadata, "name")
    priority = spec.get("priority")
    return Pod(
        uid=_text(metadata, "uid") or f"{namespace}/{name}",
        namespace=namespace,
        name=name,
        labels={
            str(key): str(value)
            for key, value in mapping(metadata.get("labels"), "metadata.labels").items()
        },
        node_name=_text(spec, "nodeName"),
        nominated_node=_text(status, "nominatedNodeName"),
        finished=status.get("phase") in _FINISHED,
        terminating=metadata.get("deletionTimestamp") is not None,
        class_annotation=_text(annotations, names.CLASS_KEY) or None,
        daemon=any(
            owner.get("kind") == "DaemonSet" and owner.get("controller") is True
            for owner in mappings(metadata.get("ownerReferences"), "ownerReferences")
        ),
        priority=priority if isinstance(priority, int) else 0,
        own=_own_constraints(spec),
        tolerance=_tolerance(spec),
        resource_version=_text(metadata, "resourceVersion"),
        **(_prospects(metadata, spec, status) if prospects else {}),
    )


def _prospects(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> dict[str, Any]:
    waits = not spec.get("nodeName")
    return {
        "demand": demand_of(spec),
        "hintable": waits and is_hintable(spec, status),
        "hinted": waits and is_hinted(metadata, status),
        "refusal": refusal_of(status) if waits else "",
        "claims": claims_of(metadata, spec) if waits else (),
    }


def _own_constraints(spec: Mapping[str, Any]) -> Constraints:
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    fields = {
        "nodeSelector": spec.get("nodeSelector"),
        "nodeAffinity": affinity.get("nodeAffinity"),
        "podAffinity": affinity.get("podAffinity"),
        "podAntiAffinity": affinity.get("podAntiAffinity"),
        "topologySpreadConstraints": spec.get("topologySpreadConstraints"),
    }
    present = {name: value for name, value in fields.items() if value}
    return pod_constraints(canonical_json(present)) if present else NO_CONSTRAINTS


def _tolerance(spec: Mapping[str, Any]) -> Tolerance:
    tolerations = tuple(
        Toleration(
            key=_text(item, "key"),
            operator=_text(item, "operator"),
            value=_text(item, "value"),
            effect=_text(item, "effect"),
        )
        for item in mappings(spec.get("tolerations"), "tolerations")
    )
    return Tolerance(tolerations) if tolerations else _NO_TOLERANCE


def _text(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key}: must be a string")  # noqa: TRY004 - input, not code
    return value
