"""Names nodes for pods while a queue builds up: kube-scheduler need not weigh up all of them then.

In a large cluster that is done beforehand. kube-scheduler tries a pod first on the node of its
`status.nominatedNodeName`, with all its plugins and with our filter. If that fits, no other node is
looked at; if it does not, all are, as ever. So a hint is never a verdict: a wrong one costs a look
at one node.

Where kube-scheduler has looked at all nodes already, filter leaves the pod one of those that fit.
kube-scheduler then need not score them, nor ask us to.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from schedclass.domain.scheduling import Pod
from schedclass.domain.scheduling.choosing import Chooser
from schedclass.domain.scheduling.interactions import interact
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import Delays, happens_within
from schedclass.kube.errors import ApiError, Conflict, NotFound, Unreachable
from schedclass.kube.transport import Json
from schedclass.scheduler.hints import Hint, HintResult, Hints, Observe
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.state import SchedulerState

logger = logging.getLogger(__name__)

LEAST_QUEUE: Final = 4
"""With fewer pods waiting, kube-scheduler has popped them before a hint can reach it."""

WINDOW: Final = 192
"""Hints given and not yet used: what can be wrong at once."""

BATCH: Final = 48
"""Nodes chosen before requests get their turn."""

FIRST_BATCH: Final = 16
"""The same while no hint is out: until the last of them is written, pods have to do without."""

WRITERS: Final = 8
"""Hints written at the same time."""

WRITE_SECONDS: Final = 5.0
LIST_SECONDS: Final = 10.0
"""After this all nodes are looked at again, so that those that were emptied count as such."""

FIRST_LAG: Final = 0.004
"""Seconds that a hint is expected to take before some were written."""

LONGEST_LAG: Final = 0.2

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""After a hint that could not be written."""


class Nominator:
    """Gives hints, and takes wrong ones back."""

    def __init__(  # noqa: PLR0913 - the parts it ties together
        self,
        client: KubeClient,
        state: SchedulerState,
        hints: Hints,
        chooser: Chooser,
        *,
        in_flight: InFlight,
        judge: Judge,
        least_nodes: int,
        least_candidates: int | None,
        observe: Observe = lambda _: None,
        first_lag: float = FIRST_LAG,
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who writes.
            state: the stores and the index.
            hints: the books.
            chooser: on that index and the room of the books.
            in_flight: pods on their way to bind.
            judge: what filter goes by.
            least_nodes: with fewer nodes, looking at all of them is cheaper than a hint.
            least_candidates: where filter is asked about fewer, it leaves all that fit; None for
                always.
            observe: receives what becomes of hints.
            first_lag: see `FIRST_LAG`.
        """
        self._client = client
        self._state = state
        self._hints = hints
        self._chooser = chooser
        self._in_flight = in_flight
        self._judge = judge
        self._least_nodes = least_nodes
        self._least_candidates = least_candidates
        self._observe = observe
        self._news = asyncio.Event()
        self._listed_at = 0.0
        self._delays = Delays(FIRST_PAUSE, LONGEST_PAUSE)
        self._writers = asyncio.Semaphore(WRITERS)
        self._trouble = False
        self._lag = first_lag
        state.pods.on_change(lambda _key, _old, _new: self.news())
        state.known.nodes.on_change(lambda _key, _old, _new: chooser.nodes_changed())

    def news(self) -> None:
        """Something happened that may call for hints."""
        if not self._news.is_set() and (self._pays() or self._hints.has_failed):
            self._news.set()

    def asked(self, pod: Pod, names: list[str]) -> str | None:
        """kube-scheduler is trying a pod on these nodes.

        Returns:
            The node to be left to it, if one was chosen; filter would let it pass.
        """
        least = self._least_candidates
        may_choose = least is not None and len(names) >= least
        to_choose = self._hints.asked(pod.uid, names, may_choose=may_choose)
        if least is not None and self._hints.stands(pod.uid, names):
            node = names[0] if self._holds(pod, names[0]) else None
        else:
            node = self._choice(pod, names) if to_choose else None
        self.news()
        return node

    def _choice(self, pod: Pod, names: list[str]) -> str | None:
        """One that is reserved for the pod already, or is now; none where others fall behind."""
        hints = self._hints
        if pod.uid not in hints.given and hints.waiting >= LEAST_QUEUE:
            self._choose([pod])
        hint = hints.given.get(pod.uid)
        if hint is None:
            return None
        if hint.node in names and self._holds(pod, hint.node):
            hints.chosen(pod.uid)
            return hint.node
        hints.drop(pod.uid)
        return None

    def _holds(self, pod: Pod, node: str) -> bool:
        """Whether filter would let a pod pass to a node with those present that are on their way.

        Not if it is open where one of them goes that matters to it: that is worth a wait.
        """
        cluster = self._state.cluster
        placed = self._in_flight.placed(lambda other: interact(cluster, other, pod))
        if placed is None:
            return False
        with cluster.supposing(present=placed):
            return bool(self._judge.filter(pod, [node]))

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._news_or_stale()
            self._trouble = False
            await self._withdraw()
            while not self._trouble and self._pays():
                if not await self._give(self._plan()):
                    break
            if self._trouble:
                await asyncio.sleep(self._delays.next())
            else:
                self._delays.reset()

    async def _news_or_stale(self) -> None:
        if await happens_within(self._news, 1.0 if self._hints.given else None):
            self._news.clear()

    def _pays(self) -> bool:
        """Whether hints are worth their price now."""
        hints = self._hints
        return (
            hints.waiting >= LEAST_QUEUE
            and len(hints.given) <= WINDOW - BATCH
            and len(self._state.known.nodes) >= self._least_nodes
            and hints.active
            and self._state.problem() is None
        )

    def _plan(self) -> list[Hint]:
        """Choose nodes for the next pods."""
        limit = BATCH if self._hints.given else FIRST_BATCH
        return self._choose(self._hints.next(limit, self._lag * limit))

    def _choose(self, pods: Sequence[Pod]) -> list[Hint]:
        """Choose nodes and reserve them; each choice counts for those after it."""
        now = time.monotonic()
        if now - self._listed_at > LIST_SECONDS:
            self._listed_at = now
            self._chooser.nodes_changed()
        chooser, cluster = self._chooser, self._state.cluster
        chosen = []
        with ExitStack() as stack:
            entangled = any(chooser.is_entangled(pod) for pod in pods)
            if entangled:
                others = [hint.pod.on(hint.node) for hint in self._hints.reserved()]
                stack.enter_context(cluster.supposing(present=others))
            for pod in pods:
                node = chooser.choose(pod)
                if node is None:
                    continue
                chosen.append(self._hints.reserve(pod, node))
                if entangled:
                    stack.enter_context(cluster.supposing(present=(pod.on(node),)))
        return chosen

    async def _give(self, hints: list[Hint]) -> bool:
        """Write hints; tells whether there were any."""
        began = time.monotonic()
        await asyncio.gather(*(self._write(hint, hint.node) for hint in hints))
        if len(hints) >= FIRST_BATCH // 2:
            # Those that came too late were not written, and say nothing of how long that takes.
            written = sum(hint.written for hint in hints)
            took = (time.monotonic() - began) / written if written else 2 * self._lag
            self._lag = min((self._lag + took) / 2, LONGEST_LAG)
        return bool(hints)

    async def _withdraw(self) -> None:
        wrong = self._hints.wrong()
        if wrong and self._hints.active:
            await asyncio.gather(*(self._write(hint, None) for hint in wrong))

    async def _write(self, hint: Hint, node: str | None) -> None:
        async with self._writers:
            pod = hint.pod
            if self._trouble or (node is not None and self._is_late(pod)):
                self._not_written(hint, node)
                return
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    raw = await self._client.merge_patch(_path(pod), _status(pod, node))
            except (Conflict, NotFound):
                # Whoever changed the pod meanwhile was not to be overruled, least a preemption.
                self._over(hint, node, HintResult.OVERTAKEN)
                return
            except (ApiError, Unreachable, TimeoutError) as error:
                self._trouble = True
                logger.warning(
                    "a hint could not be written, will pause: %s", str(error) or "timed out"
                )
                self._over(hint, node, HintResult.FAILED)
                return
        self._observe(HintResult.WITHDRAWN if node is None else HintResult.MADE)
        self._state.pods.apply("MODIFIED", raw)

    def _is_late(self, pod: Pod) -> bool:
        """Whether kube-scheduler is trying the pod already, or it is bound or gone."""
        known = self._state.pod(pod.namespace, pod.name, pod.uid)
        return known is None or bool(known.node_name) or not self._hints.is_untried(pod.uid)

    def _over(self, hint: Hint, node: str | None, result: HintResult) -> None:
        self._observe(result)
        self._not_written(hint, node)

    def _not_written(self, hint: Hint, node: str | None) -> None:
        """Filter may have left the node to the pod meanwhile; then it stays reserved."""
        if node is not None and self._hints.is_untried(hint.pod.uid):
            self._hints.drop(hint.pod.uid)


def _path(pod: Pod) -> str:
    return resource_path("v1", "pods", namespace=pod.namespace, name=pod.name, subresource="status")


def _status(pod: Pod, node: str | None) -> Json:
    """Only over the version that the choice rests on: nobody else's nomination is overwritten."""
    metadata = {"uid": pod.uid, "resourceVersion": pod.resource_version}
    return {"metadata": metadata, "status": {"nominatedNodeName": node}}
