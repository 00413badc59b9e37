"""A binding before the API server: the request, the look at what became of it, how it can end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from schedclass.kube.client import KubeClient, resource_path
from schedclass.scheduler.protocol import BindRequest

GET_SECONDS: Final = 2.0
"""How long a look may take."""


class BindOutcome(StrEnum):
    """How a bind ended, as metrics count it."""

    BOUND = "bound"
    CONFLICT = "conflict"
    """A hard rule would have been broken."""
    REFUSED = "refused"
    """The API server said no."""
    UNKNOWN = "unknown"
    """No answer, and no way yet to find out."""


@dataclass(frozen=True, slots=True)
class BindResult:
    """Outcome, and for a pod that is not bound one sentence."""

    outcome: BindOutcome
    error: str = ""


async def send_binding(client: KubeClient, request: BindRequest) -> None:
    """Have the API server bind a pod, with its uid as a precondition: names are used again.

    Raises:
        ApiError, Unreachable: it refused, or nothing is known of it.
    """
    path = resource_path(
        "v1", "pods", namespace=request.namespace, name=request.name, subresource="binding"
    )
    metadata = {"namespace": request.namespace, "name": request.name, "uid": request.uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": request.node}
    await client.create(
        path, {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    )


async def find_pod(client: KubeClient, request: BindRequest) -> Mapping[str, Any] | None:
    """The pod of this uid as it is now, None if it is gone.

    Raises:
        ApiError, Unreachable, TimeoutError: it is not known.
    """
    path = resource_path("v1", "pods", namespace=request.namespace, name=request.name)
    async with asyncio.timeout(GET_SECONDS):
        raw = await client.find(path)
    return raw if raw is not None and raw.get("metadata", {}).get("uid") == request.uid else None


def may_take_effect(node: str) -> str:
    """Why a pod is tried nowhere else: where it went is not known yet, or not seen."""
    return f"an earlier binding to {node} may still take effect"


def node_of(raw: Mapping[str, Any]) -> str:
    """The node that a pod is bound to, empty for none."""
    node = (raw.get("spec") or {}).get("nodeName")
    return node if isinstance(node, str) else ""
