"""Nodes, and whether the node constraints of a class allow one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.podfields import REQUIRED, ClassSpec
from schedclass.domain.rawjson import mapping_or_empty, mappings_in
from schedclass.domain.resources import Amounts, parse_amounts
from schedclass.domain.selectors import matches_labels, matches_node_selector


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node, as in `core/v1`."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """What placement needs to know of a node.

    Attributes:
        name: its name; not always the value of the label `kubernetes.io/hostname`.
        uid: tells a node from a later one of the same name.
        labels: `metadata.labels`.
        ready: whether its condition `Ready` is `True`.
        unschedulable: whether it is cordoned.
        taints: `spec.taints`.
        allocatable: `status.allocatable`; None if it is not known or cannot be read.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts | None = None

    @property
    def takes_pods(self) -> bool:
        """Whether new ordinary pods can start here: ready and not cordoned."""
        return self.ready and not self.unschedulable


def parse_node(obj: Mapping[str, Any]) -> Node:
    """Read a Node as the API server sends it; parts that are absent or null read as empty."""
    metadata = mapping_or_empty(obj.get("metadata"))
    spec = mapping_or_empty(obj.get("spec"))
    return Node(
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        labels={
            str(key): str(value) for key, value in mapping_or_empty(metadata.get("labels")).items()
        },
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in mappings_in(mapping_or_empty(obj.get("status")).get("conditions"))
        ),
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(
            Taint(
                key=str(taint.get("key") or ""),
                value=str(taint.get("value") or ""),
                effect=str(taint.get("effect") or ""),
            )
            for taint in mappings_in(spec.get("taints"))
        ),
        allocatable=_allocatable(mapping_or_empty(obj.get("status")).get("allocatable")),
    )


def _allocatable(raw: object) -> Amounts | None:
    try:
        return parse_amounts(raw, "status.allocatable") or None
    except ValueError:
        return None


def matches_node(spec: ClassSpec, node: Node) -> bool:
    """Whether a node satisfies the nodeSelector and the required nodeAffinity of a class."""
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    return matches_labels(spec.node_selector, node.labels) and (
        required is None or matches_node_selector(required, node.labels, node.name)
    )


def no_matching_nodes(total: int) -> Finding:
    """The finding about a class that allows none of the `total` nodes of the cluster."""
    found = f"none of {total} nodes matches the class" if total else "the cluster has no nodes"
    message = f"{found}, so its pods stay Pending; label nodes or correct the class"
    return Finding(Reason.NO_MATCHING_NODES, message)


def why_node_not_allowed(spec: ClassSpec, node: Node) -> Finding | None:
    """Say which node constraint of a class keeps pods off a node.

    Preferences, pod affinity and spread do not forbid a node by itself, and neither do taints,
    so they are not looked at.

    Returns:
        None if the node is allowed, else an error NodeNotAllowed with the path of the first
        constraint that it fails.
    """
    for key, wanted in spec.node_selector.items():
        actual = node.labels.get(key)
        if actual != wanted:
            has = "has no such label" if actual is None else f"has {_quoted(actual)}"
            return _not_allowed(
                f"spec.nodeSelector[{_quoted(key)}]",
                f"node {_quoted(node.name)} {has}, the class wants {_quoted(wanted)}",
            )
    if matches_node(spec, node):
        return None
    return _not_allowed(
        f"spec.nodeAffinity.{REQUIRED}",
        f"node {_quoted(node.name)} matches none of the terms that the class requires",
    )


def _not_allowed(path: str, message: str) -> Finding:
    return Finding(Reason.NODE_NOT_ALLOWED, message, Severity.ERROR, path)


def _quoted(text: str) -> str:
    return json.dumps(text)
