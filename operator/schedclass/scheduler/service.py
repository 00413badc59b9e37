"""The four verbs of the extender: from a request to a decision. Knows nothing of HTTP."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from schedclass.domain.scheduling import Decisions, Pod, Rejection
from schedclass.domain.scheduling.interactions import by_domain, interact, leans_on_others
from schedclass.domain.scheduling.prospects import binds_late
from schedclass.kube.errors import ApiError, Unreachable
from schedclass.scheduler import protocol
from schedclass.scheduler.bindapi import may_take_effect
from schedclass.scheduler.binding import Binder
from schedclass.scheduler.chained import ChainedError, ChainedExtenders
from schedclass.scheduler.claims import ClaimedPlaces
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.protocol import MalformedRequestError, Victims
from schedclass.scheduler.state import SchedulerState
from schedclass.scheduler.waiting import RefusedPods

Observe = Callable[[str, str], None]
"""Receives verb and result."""

Asked = Callable[[Pod, list[str]], str | None]
"""Receives a pod that is being tried, and the nodes it is tried on. Returns the one to leave it, if
it is not to have the choice; that one passes."""


NAMESPACE_LEAVES: Final = "node(s) are closed to a namespace that is being deleted"


class Extender:
    """Answers filter, prioritize, preempt and bind."""

    def __init__(  # noqa: PLR0913 - the parts it ties together
        self,
        state: SchedulerState,
        decisions: Decisions,
        judge: Judge,
        in_flight: InFlight,
        refused: RefusedPods,
        binder: Binder,
        *,
        claimed: ClaimedPlaces,
        chained: ChainedExtenders,
        observe: Observe = lambda _verb, _result: None,
        on_asked: Asked = lambda _pod, _names: None,
        on_preempt: Callable[[Pod], None] = lambda _pod: None,
    ) -> None:
        """All parts work on the same state.

        Args:
            state: what is known.
            decisions: on its index.
            judge: by those decisions.
            in_flight: pods on their way to bind.
            refused: pods that were refused.
            binder: binds.
            claimed: places that claims tell of.
            chained: further extenders.
            observe: counts answers.
            on_asked: called when a pod is tried, may choose its node.
            on_preempt: called with a pod for which victims are found.
        """
        self._state = state
        self._decisions = decisions
        self._judge = judge
        self._in_flight = in_flight
        self._refused = refused
        self._binder = binder
        self._claimed = claimed
        self._chained = chained
        self._observe = observe
        self._on_asked = on_asked
        self._on_preempt = on_preempt

    async def filter(self, body: bytes) -> bytes:
        """Which of the candidates the class leaves open.

        If any is left, only those are named: reasons matter only for a pod that cannot be placed.

        Raises:
            MalformedRequestError: the request is none of kube-scheduler's.
        """
        request = protocol.read_nodes(body)
        problem = self._state.problem()
        if problem is not None:
            return self._filter_error("unready", problem)
        pod = _readable(lambda: self._state.current(request.pod))
        self._refused.tried(pod.uid)
        self._in_flight.settled(pod.uid)
        before = self._state.promises.withdraw(pod.uid)
        names = request.names
        self._claimed.tried(pod.uid)
        if self._state.is_leaving(pod.namespace):
            self._observe("filter", "refused")
            return protocol.filter_answer([], dict.fromkeys(names, NAMESPACE_LEAVES))
        try:
            await self._claimed.settle(pod)
        except (ApiError, Unreachable, TimeoutError) as unread:
            said = str(unread) or "timed out"
            return self._filter_error("unready", f"a claim of another pod cannot be read: {said}")
        cluster = self._state.cluster
        if leans_on_others(cluster, pod):
            await self._in_flight.wait_for_few(lambda other: interact(cluster, other, pod))
        chosen = self._on_asked(pod, names)
        doubtful = self._binder.doubtful_node(pod.uid)
        if chosen is not None and doubtful is None:
            return self._passed(pod, [chosen])
        beside = await self._beside_others(pod, names)
        doubtful = self._binder.doubtful_node(pod.uid)
        if doubtful is not None:
            names = [name for name in names if name == doubtful]
            beside = [name for name in beside if name == doubtful]
        passing = beside or self._judge.filter(pod, names)
        if doubtful is not None and not passing:
            # Its other nodes were not asked about, so it cannot be told when it is worth a try.
            return self._filter_error("doubtful", may_take_effect(doubtful))
        return await self._answer(pod, request.pod, request.names, passing, before)

    async def _beside_others(self, pod: Pod, names: list[str]) -> list[str]:
        """The nodes that are open once those on their way are where they go, if that is known.

        If it is not, or nothing is open then, it is worth a wait until it is clear; then none.
        """
        cluster = self._state.cluster
        # Of one node only, as for a hint, a yes needs no wait where others can but spoil it.
        quick = len(names) == 1 and not leans_on_others(cluster, pod)
        if not len(self._in_flight) or (quick and self._judge.filter(pod, names)):
            return []
        placed = self._in_flight.placed(lambda other: interact(cluster, other, pod))
        if placed:
            with cluster.supposing(present=placed):
                passing = self._judge.filter(pod, names)
            if passing:
                return passing
        if await self._in_flight.wait_for(lambda other: interact(cluster, other, pod)):
            self._observe("wait", "settled")
        return []

    async def _answer(
        self, pod: Pod, raw: Mapping[str, Any], names: list[str], passing: list[str], before: str
    ) -> bytes:
        theirs: Mapping[str, str] = {}
        if passing and self._chained:
            left = set(passing)
            names = [name for name in names if name not in left]  # refused by us
            try:
                passing, theirs = await self._chained.filter(raw, passing)
            except ChainedError as error:
                return self._filter_error("chained", str(error))
        if passing and binds_late(raw):
            passing = self._one_domain(pod, passing, before)
        if passing:
            return self._passed(pod, passing)
        reasons: dict[str, Rejection] = {}
        if self._judge.filter(pod, names, reasons):
            # Nobody would wake it for what has changed before it is remembered as refused.
            changed = "nodes became open while other extenders were asked"
            return self._filter_error("overtaken", changed)
        self._refused.refused(pod, reasons)
        self._observe("filter", "refused")
        messages = {name: why.message for name, why in reasons.items()}
        return protocol.filter_answer([], {**messages, **theirs})

    def _passed(self, pod: Pod, names: list[str]) -> bytes:
        self._in_flight.passed(pod, names)
        self._observe("filter", "passed")
        return protocol.filter_answer(names, {})

    def _one_domain(self, pod: Pod, names: list[str], before: str) -> list[str]:
        """Those of one domain, which is promised to the pod; all where no rule asks for domains.

        Another one than at the attempt before, if there is one: that may be why it failed. Among
        those the one that the class prefers, then the one with the most nodes.
        """
        domains = by_domain(self._state.cluster, pod, names)
        if not domains:
            return names
        scores = dict(self._scores(pod, names))
        chosen = max(
            domains,
            key=lambda nodes: (
                before not in nodes,
                max(scores.get(name, 0) for name in nodes),
                len(nodes),
            ),
        )
        self._state.promises.make(pod, chosen[0])
        return chosen

    def _filter_error(self, result: str, error: str) -> bytes:
        self._observe("filter", result)
        return protocol.filter_error(error)

    async def prioritize(self, body: bytes) -> bytes:
        """How much better each node is by the preferences of classes; empty if there are none.

        Raises:
            MalformedRequestError: the request is none of kube-scheduler's.
        """
        request = protocol.read_nodes(body)
        pod = _readable(lambda: self._state.current(request.pod))
        scores = [] if self._state.problem() is not None else self._scores(pod, request.names)
        if self._chained:
            totals = dict(scores) or dict.fromkeys(request.names, 0)
            for name, score in (await self._chained.scores(request.pod, request.names)).items():
                totals[name] = totals.get(name, 0) + score
            scores = [(name, totals[name]) for name in request.names]
        self._observe("prioritize", "scored" if scores else "indifferent")
        return protocol.prioritize_answer(scores)

    def _scores(self, pod: Pod, names: list[str]) -> list[tuple[str, int]]:
        if not (self._decisions.has_preferences(pod) or self._is_attracted(pod)):
            return []
        coarse = self._decisions.score(pod, names).coarse()
        return list(zip(names, coarse, strict=True)) if coarse else []

    def _is_attracted(self, pod: Pod) -> bool:
        """Whether classes of running pods draw it somewhere or put it off."""
        cluster = self._state.cluster
        labels = cluster.namespace_labels(pod.namespace)
        return any(
            not term.carried.repels
            for term in cluster.carried.matching(pod.namespace, labels, pod.labels)
        )

    async def preempt(self, body: bytes) -> bytes:
        """Keep the nodes where, with the victims gone, the class leaves the pod in.

        Victims stay as they are. A node without victims is left out: before 1.38 kube-scheduler
        takes it for an error, and nobody has to go there.

        Raises:
            MalformedRequestError: the request is none of kube-scheduler's.
        """
        request = protocol.read_preempt(body)
        if self._state.problem() is not None:
            self._observe("preempt", "unready")
            return protocol.preempt_answer({})
        pod = _readable(lambda: self._state.current(request.pod))
        kept = {
            name: victims
            for name, victims in request.victims.items()
            if victims.uids and self._open_without(pod, name, victims)
        }
        if kept:  # else kube-scheduler names no node, and what the pod has named stays
            self._on_preempt(pod)
        self._observe("preempt", "kept" if kept else "refused")
        return protocol.preempt_answer(kept)

    def _open_without(self, pod: Pod, node: str, victims: Victims) -> bool:
        with self._state.cluster.supposing(absent=victims.uids):
            return self._decisions.why_not(pod, node) is None

    async def bind(self, body: bytes) -> bytes:
        """Bind a pod, unless a hard rule forbids it by now.

        Raises:
            MalformedRequestError: the request is none of kube-scheduler's.
        """
        request = protocol.read_bind(body)
        result = await self._binder.bind(request)
        self._state.promises.withdraw(request.uid)
        self._observe("bind", result.outcome.value)
        return protocol.bind_answer(result.error)


def _readable(read: Callable[[], Pod]) -> Pod:
    try:
        return read()
    except ValueError as error:
        raise MalformedRequestError(f"Pod: {error}") from None


Verb = Callable[[bytes], Any]


def verbs(extender: Extender) -> Mapping[str, Verb]:
    """The verbs by the last part of their URL."""
    return {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "preempt": extender.preempt,
        "bind": extender.bind,
    }
