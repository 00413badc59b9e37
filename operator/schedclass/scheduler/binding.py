"""Bind: the one place where hard class rules are made sure of.

Of two pods that exclude each other the second one to get here sees the first: the check and the
assumption that the pod runs happen without a pause in between, before anything is sent. What filter
said does not matter for that.

An assumed pod may yet turn out not to run, if the API server refuses its binding. Where a rule is
kept only thanks to such a pod (spread, affinity), a binding waits until that pod's is confirmed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NoReturn

from schedclass.domain.findings import Reason
from schedclass.domain.scheduling import Decisions, Pod, departed
from schedclass.domain.scheduling.interactions import interact, worst_absences
from schedclass.kube.client import KubeClient
from schedclass.kube.delays import happens_within
from schedclass.kube.errors import ApiError, Unreachable
from schedclass.scheduler.arrivals import Arrivals
from schedclass.scheduler.bindapi import (
    BindOutcome,
    BindResult,
    find_pod,
    may_take_effect,
    node_of,
    send_binding,
)
from schedclass.scheduler.inflight import SETTLE_SECONDS, InFlight
from schedclass.scheduler.protocol import BindRequest
from schedclass.scheduler.state import SchedulerState, read_pod

logger = logging.getLogger(__name__)

CONFIRM_SECONDS: Final = 3.0
"""How long a binding waits for others."""

POST_SECONDS: Final = 4.0
"""How long sending it may take, a second attempt included. With the wait before it and a look after
it that is below the `httpTimeout` (10 s) after which kube-scheduler stops listening."""

DOUBT_SECONDS: Final = 35.0
"""How long a binding whose end is not known may still take effect: only after that does a pod that
is seen unbound lose its place. An API server gives up a write after 34 s (apiserver handlers,
`requestTimeoutUpperBound`), and at once when it notices that the caller is gone."""

_MENDED_BY_OTHERS: Final = (Reason.TOPOLOGY_SPREAD, Reason.POD_AFFINITY_UNMET)
"""Rules that a further pod elsewhere may satisfy."""


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
        self._doubts: dict[str, asyncio.Task[None]] = {}
        self._busy: set[str] = set()
        self._arrivals = Arrivals(state)
        self._unconfirmed: dict[str, Pod] = {}
        self._news = asyncio.Event()
        self._stopping = False
        state.pods.on_change(self._pod_changed)

    def doubtful_node(self, uid: str) -> str | None:
        """The node to which an earlier binding of the pod may take effect, or has."""
        return self._state.cluster.assumed.get(uid)

    def stop(self) -> None:
        """Send nothing any more; what is sent already is seen through to its end.

        To be called before the watches end: afterwards the next leader places pods unseen by us.
        """
        self._stopping = True
        for look in self._doubts.values():
            look.cancel()
        self._tell()

    async def bind(self, request: BindRequest) -> BindResult:
        """Bind a pod unless a hard rule forbids it by now; never raises for what the API says."""
        pod = await self._pod(request)
        if isinstance(pod, BindResult):
            return pod
        if pod.node_name == request.node:  # our answer was lost, or came too late
            return BindResult(BindOutcome.BOUND)
        if pod.uid in self._busy:  # kube-scheduler no longer listens to the answer of the first
            return BindResult(BindOutcome.UNKNOWN, "an earlier binding of the pod is under way")
        self._busy.add(pod.uid)
        try:
            refusal = await self._take_place(pod, request.node)
            return refusal or await self._send(pod, request)
        finally:
            self._busy.discard(pod.uid)

    async def _take_place(self, pod: Pod, node: str) -> BindResult | None:
        """Take the place as soon as nothing uncertain is needed for it; else say why not."""
        refusal, rests_on = self._commit(pod, node)
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                while rests_on or (refusal and self._may_yet_do(pod, node)):
                    self._in_flight.arrived(pod.uid, stuck=not rests_on)
                    await (self._end_of(rests_on) if rests_on else self._another_place(pod))
                    refusal, rests_on = self._commit(pod, node)
        except TimeoutError:
            if rests_on:
                others = f"{len(rests_on)} binding{'s' if len(rests_on) > 1 else ''}"
                error = f"{others} that this one rests on got no answer"
                refusal = BindResult(BindOutcome.CONFLICT, error)
        finally:
            self._in_flight.settled(pod.uid)
            self._tell()
        return refusal

    async def look_for_unseen(self) -> NoReturn:
        """Look for bound pods that the watch does not show, for ever.

        Such a pod may have come and gone while the watch was cut off. Nothing would ever tell so.
        """
        earlier: set[str] = set()
        while True:
            await asyncio.sleep(self._doubt_seconds)
            unseen = self._state.cluster.assumed.keys() - self._unconfirmed.keys()
            for uid in unseen & earlier:
                pod = self._state.cluster.pods.get(uid)
                if pod is not None:
                    request = BindRequest(pod.namespace, pod.name, uid, pod.node_name)
                    await self._look_safely(pod, request)
            earlier = unseen

    def _may_yet_do(self, pod: Pod, node: str) -> bool:
        """Whether a conflict may end by itself: others will have their place soon.

        kube-scheduler binds in the background, so pods may come in another order than they were
        let through, and what is uneven with the first of them may be even with the next.
        """
        rejection = self._decisions.why_not(pod, node)
        if rejection is None or rejection.reason not in _MENDED_BY_OTHERS:
            return False
        return self._others_may_come(pod)

    def _others_may_come(self, pod: Pod) -> bool:
        if self._stopping:
            return False
        return self._in_flight.may_come(lambda other: self._matters(other, pod))

    def _matters(self, other: Pod, pod: Pod) -> bool:
        return other.uid != pod.uid and interact(self._state.cluster, other, pod)

    async def _end_of(self, bindings: frozenset[str]) -> None:
        """Wait until one of them has ended. Of many that wait, each end concerns a few."""
        while bindings <= self._unconfirmed.keys() and not self._stopping:
            await self._news.wait()

    async def _another_place(self, pod: Pod) -> None:
        """Wait until a place was taken or given back, or nobody is on the way any more."""
        cluster = self._state.cluster
        version = cluster.version
        hope = True
        while hope and cluster.version == version:
            await happens_within(self._news, SETTLE_SECONDS)
            hope = self._others_may_come(pod)

    async def _send(
        self, pod: Pod, request: BindRequest, *, until: float | None = None
    ) -> BindResult:
        """Send a binding whose place is taken.

        A failure inside the API server is met by sending the same once more: if the first one had
        its effect after all, the answer is 409, and we look.

        Args:
            pod: the pod.
            request: the request.
            until: when both attempts must have ended, in seconds of the loop; None for the first.
        """
        again = until is not None
        until = until or asyncio.get_running_loop().time() + self._post_seconds
        if pod.uid in self._doubts:
            self._end_later(pod, request)  # the look that is due would come too early for this one
        try:
            async with asyncio.timeout_at(until):
                await send_binding(self._client, request)
        except ApiError as error:
            if error.status >= 500 and not (again or self._stopping):
                return await self._send(pod, request, until=until)
            over = error.status < 500 and not (again or pod.uid in self._doubts)
            if over and error.status != HTTPStatus.CONFLICT:
                # Nothing to look for, as in a namespace on its way out, where all are refused.
                return self._take_back(pod, BindOutcome.REFUSED, str(error))
            return await self._find_out(pod, request, str(error), over=over)
        except (Unreachable, TimeoutError) as error:
            return await self._find_out(pod, request, str(error) or "no answer in time")
        except Exception:
            self._doubt(pod, request, "a fault of our own")
            raise
        self._settle(pod.uid)
        return BindResult(BindOutcome.BOUND)

    async def _pod(self, request: BindRequest) -> Pod | BindResult:
        pod = self._state.pod(request.namespace, request.name, request.uid)
        pod = pod or self._in_flight.pod(request.uid)
        if pod is not None:
            return pod
        try:
            raw = await self._get(request)
        except (ApiError, Unreachable, TimeoutError) as error:
            return BindResult(BindOutcome.REFUSED, f"the pod could not be read: {error}")
        if raw is None:
            return BindResult(BindOutcome.REFUSED, "the pod does not exist any more")
        return read_pod(raw)

    def _commit(self, pod: Pod, node: str) -> tuple[BindResult | None, frozenset[str]]:
        """Take the place, or say why not, or on which bindings that rests; without a pause."""
        refusal = self._why_not(pod, node)
        if refusal is not None:
            return refusal, frozenset()
        cluster = self._state.cluster
        for absent in worst_absences(cluster, pod, node, self._unconfirmed.values()):
            with cluster.supposing(absent=absent):
                if self._decisions.why_not(pod, node) is not None:
                    return None, absent
        cluster.assume(pod, node)
        self._unconfirmed[pod.uid] = pod.on(node)
        return None, frozenset()

    def _why_not(self, pod: Pod, node: str) -> BindResult | None:
        problem = self._problem(pod)
        if problem is not None:
            return BindResult(BindOutcome.REFUSED, problem)
        known = self._state.pod(pod.namespace, pod.name, pod.uid) or pod
        if known.node_name:
            return BindResult(BindOutcome.REFUSED, f"the pod is bound to {known.node_name} already")
        doubtful = self.doubtful_node(pod.uid)
        if doubtful is not None and doubtful != node:
            return BindResult(BindOutcome.UNKNOWN, may_take_effect(doubtful))
        rejection = self._decisions.why_not(pod, node)
        if rejection is not None:
            return BindResult(
                BindOutcome.CONFLICT, f"by now {node} is excluded: {rejection.message}"
            )
        if self._arrivals.crowd_out(known, node, self._in_flight.answered_at(pod.uid)):
            taken = f"by now pods of another scheduler have taken the room on {node}"
            return BindResult(BindOutcome.CONFLICT, taken)
        return None

    def _problem(self, pod: Pod) -> str | None:
        """Why nothing can be bound for a pod, on whatever node."""
        if self._stopping:
            return "the extender is being stopped"
        if self._state.is_leaving(pod.namespace):
            return "the namespace of the pod is being deleted"
        return self._state.problem()

    async def _find_out(
        self, pod: Pod, request: BindRequest, why: str, *, over: bool = False
    ) -> BindResult:
        """The request may have had its effect, or an earlier one had; look, see `_look`."""
        return await self._look(pod, request, why, over=over) or self._doubt(pod, request, why)

    async def _look(
        self, pod: Pod, request: BindRequest, why: str, *, over: bool
    ) -> BindResult | None:
        """What a read shows, None if that may still change.

        Args:
            pod: the pod.
            request: the request.
            why: what happened to it.
            over: whether a pod that is not bound now stays so.
        """
        try:
            raw = await self._get(request)
        except (ApiError, Unreachable, TimeoutError):
            return None
        bound_to = node_of(raw) if raw is not None else ""
        if bound_to == request.node:
            self._settle(pod.uid)
            return BindResult(BindOutcome.BOUND)
        if raw is None or bound_to or over:
            return self._take_back(pod, BindOutcome.REFUSED, why)
        return None

    async def _get(self, request: BindRequest) -> Mapping[str, Any] | None:
        """The pod of this uid as it is now, None if it is gone."""
        raw = await find_pod(self._client, request)
        if raw is not None:
            self._state.pods.apply("MODIFIED", raw)
        return raw

    def _settle(self, uid: str) -> None:
        """It is known what became of a binding; a pod that is bound stays assumed until seen so."""
        doubt = self._doubts.pop(uid, None)
        if doubt is not None and doubt is not asyncio.current_task():
            doubt.cancel()
        if self._unconfirmed.pop(uid, None) is not None:
            self._tell()

    def _tell(self) -> None:
        """Let those look again who rest on uncertain bindings."""
        self._news.set()
        self._news = asyncio.Event()

    def _take_back(self, pod: Pod, outcome: BindOutcome, error: str) -> BindResult:
        if self._state.cluster.forget(pod.uid):
            self._on_forgotten()
        self._settle(pod.uid)
        return BindResult(outcome, error)

    def _doubt(self, pod: Pod, request: BindRequest, why: str) -> BindResult:
        logger.warning("whether %s/%s is bound is not known: %s", pod.namespace, pod.name, why)
        self._end_later(pod, request)
        return BindResult(BindOutcome.UNKNOWN, f"whether the pod was bound is not known: {why}")

    def _end_later(self, pod: Pod, request: BindRequest) -> None:
        earlier = self._doubts.get(pod.uid)
        if earlier is not None:
            earlier.cancel()
        end = asyncio.create_task(self._end_doubt(pod, request), name=f"doubt {pod.uid}")
        self._doubts[pod.uid] = end

    async def _end_doubt(self, pod: Pod, request: BindRequest) -> None:
        """Look once nothing can come of a binding any more, and again if that fails.

        The watch may be as cut off as the answer was: time alone says nothing about the pod.
        """
        while not self._stopping:
            await asyncio.sleep(self._doubt_seconds)
            if await self._look_safely(pod, request):
                return

    async def _look_safely(self, pod: Pod, request: BindRequest) -> bool:
        """Whether it is known now what became of a binding from which nothing can come any more."""
        try:
            return await self._look(pod, request, "no answer in time", over=True) is not None
        except Exception:
            logger.exception("whether %s/%s is bound cannot be seen", pod.namespace, pod.name)
            return False

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if gone := departed(old, new):
            self._over(gone.uid)
        if new is not None and new.node_name:
            came = old is None or old.uid != new.uid or not old.node_name
            if came and self._in_flight.pod(new.uid) is None:
                self._arrivals.note(new.node_name)
            self._over(new.uid)

    def _over(self, uid: str) -> None:
        """The pod is seen bound, or is gone."""
        self._settle(uid)
        self._in_flight.forget(uid)
