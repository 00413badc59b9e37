"""Bind: the one place where hard class rules are made sure of.

Of two pods that exclude each other the second one to get here sees the first: the check and the
assumption that the pod runs happen without a pause in between, before anything is sent. What filter
said does not matter for that.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from schedclass.domain.scheduling import Decisions, Pod, parse_pod
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.errors import ApiError, Conflict, NotFound, Unreachable
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.protocol import BindRequest
from schedclass.scheduler.state import SchedulerState

logger = logging.getLogger(__name__)

POST_SECONDS: Final = 4.0
GET_SECONDS: Final = 2.0
"""Together below the `httpTimeout` after which kube-scheduler stops listening."""

DOUBT_SECONDS: Final = 35.0
"""How long a binding whose end is not known may still take effect: until then the pod keeps its
place and can be bound there only. An API server gives up a write after 34 s (apiserver handlers,
`requestTimeoutUpperBound`), and at once when it notices that the caller is gone."""


class Outcome(StrEnum):
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

    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Doubt:
    node: str
    expiry: asyncio.TimerHandle


class Binder:
    """Binds pods, each at most once at a time."""

    def __init__(  # noqa: PLR0913 - the parts it ties together
        self,
        client: KubeClient,
        state: SchedulerState,
        decisions: Decisions,
        in_flight: InFlight,
        *,
        on_forgotten: Callable[[], None] = lambda: None,
        post_seconds: float = POST_SECONDS,
        doubt_seconds: float = DOUBT_SECONDS,
    ) -> None:
        """Nothing is requested before `bind`.

        Args:
            client: who binds.
            state: the stores and the index.
            decisions: on that index.
            in_flight: is told that a pod's node is known.
            on_forgotten: called when an assumed place is free again.
            post_seconds: limit of the request.
            doubt_seconds: see `DOUBT_SECONDS`.
        """
        self._client = client
        self._state = state
        self._decisions = decisions
        self._in_flight = in_flight
        self._on_forgotten = on_forgotten
        self._post_seconds = post_seconds
        self._doubt_seconds = doubt_seconds
        self._doubts: dict[str, _Doubt] = {}
        state.pods.on_change(self._pod_changed)

    def doubtful_node(self, uid: str) -> str | None:
        """The node to which an earlier binding of the pod may still take effect."""
        doubt = self._doubts.get(uid)
        return doubt.node if doubt is not None else None

    async def bind(self, request: BindRequest) -> BindResult:
        """Bind a pod unless a hard rule forbids it by now; never raises for what the API says."""
        pod = await self._pod(request)
        if isinstance(pod, BindResult):
            return pod
        refusal = self._commit(pod, request.node)  # no await before the place is taken
        if refusal is not None:
            return refusal
        return await self._send(pod, request)

    async def _send(self, pod: Pod, request: BindRequest) -> BindResult:
        try:
            async with asyncio.timeout(self._post_seconds):
                await self._client.create(_binding_path(request), _binding(request))
        except (NotFound, Conflict) as error:
            return await self._after_refusal(pod, request, error)
        except ApiError as error:
            if error.status >= 500:
                return await self._find_out(pod, request, str(error))
            return self._take_back(pod, Outcome.REFUSED, str(error))
        except (Unreachable, TimeoutError) as error:
            return await self._find_out(pod, request, str(error) or "no answer in time")
        except Exception:
            self._doubt(pod, request.node, "a fault of our own")
            raise
        self._settle(pod.uid)
        return BindResult(Outcome.BOUND)

    async def _pod(self, request: BindRequest) -> Pod | BindResult:
        pod = self._state.pod(request.namespace, request.name, request.uid)
        pod = pod or self._in_flight.pod(request.uid)
        if pod is not None:
            return pod
        try:
            raw = await self._get(request)
        except (ApiError, Unreachable, TimeoutError) as error:
            return BindResult(Outcome.REFUSED, f"the pod could not be read: {error}")
        if raw is None:
            return BindResult(Outcome.REFUSED, "the pod does not exist any more")
        return parse_pod(raw)

    def _commit(self, pod: Pod, node: str) -> BindResult | None:
        """Take the place, or say why not; one step of the event loop."""
        self._in_flight.settled(pod.uid)
        problem = self._state.problem()
        if problem is not None:
            return BindResult(Outcome.REFUSED, problem)
        if pod.node_name:
            if pod.node_name == node:
                return BindResult(Outcome.BOUND)
            return BindResult(Outcome.REFUSED, f"the pod is bound to {pod.node_name}")
        doubtful = self.doubtful_node(pod.uid)
        if doubtful is not None and doubtful != node:
            return BindResult(
                Outcome.UNKNOWN, f"an earlier binding to {doubtful} may still take effect"
            )
        rejection = self._decisions.why_not(pod, node)
        if rejection is not None:
            return BindResult(Outcome.CONFLICT, f"by now {node} is excluded: {rejection.message}")
        self._state.cluster.assume(pod, node)
        return None

    async def _after_refusal(self, pod: Pod, request: BindRequest, error: ApiError) -> BindResult:
        """404 or 409: gone, replaced, being deleted, or bound already, maybe by our own retry."""
        try:
            raw = await self._get(request)
        except (ApiError, Unreachable, TimeoutError):
            return self._doubt(pod, request.node, str(error))
        if raw is not None and _node_of(raw) == request.node:
            self._settle(pod.uid)
            return BindResult(Outcome.BOUND)
        return self._take_back(pod, Outcome.REFUSED, str(error))

    async def _find_out(self, pod: Pod, request: BindRequest, why: str) -> BindResult:
        """The request may or may not have had its effect."""
        try:
            raw = await self._get(request)
        except (ApiError, Unreachable, TimeoutError):
            return self._doubt(pod, request.node, why)
        if raw is None:
            return self._take_back(pod, Outcome.REFUSED, "the pod does not exist any more")
        bound_to = _node_of(raw)
        if bound_to == request.node:
            self._settle(pod.uid)
            return BindResult(Outcome.BOUND)
        if bound_to:
            return self._take_back(pod, Outcome.REFUSED, f"the pod is bound to {bound_to}")
        return self._doubt(pod, request.node, why)

    async def _get(self, request: BindRequest) -> Mapping[str, Any] | None:
        """The pod of this uid as it is now, None if it is gone."""
        path = resource_path("v1", "pods", namespace=request.namespace, name=request.name)
        try:
            async with asyncio.timeout(GET_SECONDS):
                raw = await self._client.get(path)
        except NotFound as error:
            if error.object_absent:
                return None
            raise
        if raw.get("metadata", {}).get("uid") != request.uid:
            return None
        self._state.pods.apply("MODIFIED", raw)
        return raw

    def _settle(self, uid: str) -> None:
        """The pod is bound; its place is assumed until our watch says so."""
        self._clear_doubt(uid)

    def _take_back(self, pod: Pod, outcome: Outcome, error: str) -> BindResult:
        self._clear_doubt(pod.uid)
        if self._state.cluster.forget(pod.uid):
            self._on_forgotten()
        return BindResult(outcome, error)

    def _doubt(self, pod: Pod, node: str, why: str) -> BindResult:
        logger.warning("whether %s/%s is bound is not known: %s", pod.namespace, pod.name, why)
        self._clear_doubt(pod.uid)
        expiry = asyncio.get_running_loop().call_later(
            self._doubt_seconds, lambda: self._take_back(pod, Outcome.UNKNOWN, why)
        )
        self._doubts[pod.uid] = _Doubt(node, expiry)
        return BindResult(Outcome.UNKNOWN, f"whether the pod was bound is not known: {why}")

    def _clear_doubt(self, uid: str) -> None:
        doubt = self._doubts.pop(uid, None)
        if doubt is not None:
            doubt.expiry.cancel()

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._clear_doubt(old.uid)
            self._in_flight.forget(old.uid)
        if new is not None and new.node_name:
            self._clear_doubt(new.uid)
            self._in_flight.forget(new.uid)


def _binding_path(request: BindRequest) -> str:
    return resource_path(
        "v1", "pods", namespace=request.namespace, name=request.name, subresource="binding"
    )


def _binding(request: BindRequest) -> dict[str, Any]:
    """With the uid as a precondition: a pod of the same name may have taken its place."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": request.namespace,
            "name": request.name,
            "uid": request.uid,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": request.node},
    }


def _node_of(raw: Mapping[str, Any]) -> str:
    node = (raw.get("spec") or {}).get("nodeName")
    return node if isinstance(node, str) else ""
