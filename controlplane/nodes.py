"""Fake nodes, kept alive by kwok: three zones in two regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ZONES = {"a": "west", "b": "west", "c": "east"}
"""Zone to region; nodes are dealt out to the zones in turn."""

RESOURCES = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


def node(
    name: str,
    zone: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    resources: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Returns a Node object with the labels that a kubelet and a cloud would give it.

    Args:
        name: The node's name, also its hostname label.
        zone: One of `ZONES`.
        labels: Further labels; they win over the usual ones.
        taints: Taints in the API's form (`key`, `value`, `effect`).
        resources: Allocatable resources that differ from `RESOURCES`.
    """
    size = {**RESOURCES, **(resources or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": ZONES[zone],
                "topology.kubernetes.io/zone": zone,
                **(labels or {}),
            },
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"allocatable": size, "capacity": size},
    }


def zone_of(number: int) -> str:
    """Returns the zone of the node with a running number, counted from 1."""
    return list(ZONES)[(number - 1) % len(ZONES)]


def is_ready(item: Mapping[str, Any]) -> bool:
    """Tells whether a Node is Ready and free of the not-ready taint a new node gets."""
    conditions = item.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    taints = item.get("spec", {}).get("taints", [])
    return ready and not any(t["key"].startswith("node.kubernetes.io/not-ready") for t in taints)
