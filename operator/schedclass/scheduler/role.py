"""The extender process: caches, index, verbs and probes under one roof."""

import asyncio
import gc
import logging
from collections.abc import Mapping
from typing import Any, Final

from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.domain.scheduling import Decisions, Pod, Scope, departed
from schedclass.domain.scheduling.choosing import Chooser
from schedclass.kube.client import KubeClient
from schedclass.kube.reflector import Reflector
from schedclass.kube.state import (
    CLASSES_PATH,
    NAMESPACES_PATH,
    NODES_PATH,
    PODS_PATH,
    PODS_RESYNC_FACTOR,
    TENANTS_PATH,
    UNFINISHED,
)
from schedclass.kube.store import Store
from schedclass.observability.definitions import Role
from schedclass.observability.metrics import Metrics
from schedclass.observability.probes import Check, ProbeServer, caches, unless
from schedclass.processes import in_background, spare_collector, stop_on_signals
from schedclass.scheduler.binding import Binder
from schedclass.scheduler.chained import ChainedExtenders
from schedclass.scheduler.claims import ClaimedPlaces
from schedclass.scheduler.decisionlog import DecisionLog
from schedclass.scheduler.hints import HintResult, Hints
from schedclass.scheduler.inflight import InFlight
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.nominator import Nominator
from schedclass.scheduler.nudge import Nudger
from schedclass.scheduler.server import ExtenderServer
from schedclass.scheduler.service import Extender, verbs
from schedclass.scheduler.state import SchedulerState
from schedclass.scheduler.waiting import RefusedPods
from schedclass.settings import Settings

logger = logging.getLogger(__name__)

GC_THRESHOLDS: Final = (10_000, 20, 20)
"""Events leave hardly any cycles behind; looking for them after each few takes a tenth of the time
that an event takes."""


class ExtenderRole:
    """Everything one extender consists of; `run` brings it to life."""

    def __init__(self, settings: Settings, client: KubeClient) -> None:
        """Nothing is opened or requested before `run`."""
        self._settings = settings
        self._metrics = Metrics(Role.EXTENDER, revision=settings.revision)
        self._client = client
        self._state = SchedulerState(
            ExcludedNamespaces(settings.excluded_namespaces, settings.namespace),
            default_label_keys=settings.default_label_selector_keys,
            stale_after=settings.stale_seconds,
        )
        decisions = Decisions(self._state.cluster, Scope.CLASS)
        judge = Judge(self._state, decisions)
        in_flight = InFlight()
        self._refused = RefusedPods(
            version=lambda: self._state.version,
            passing=lambda pod, names: bool(judge.filter(pod, names)),
            class_of=self._state.cluster.class_key,
            known=lambda pod: self._state.pod(pod.namespace, pod.name, pod.uid) is not None,
        )
        self._nudger = Nudger(
            client,
            self._refused,
            namespace=settings.namespace,
            name=settings.nudge,
            on_nudge=self._metrics.count_nudge,
        )
        self._whole_nodes: Store[dict[str, Any]] = Store(_without_managed_fields)
        self._chained = ChainedExtenders(settings.extra_extenders, self._whole_nodes.get)
        if not all(extender.node_cache_capable for extender in settings.extra_extenders):
            self._state.indexes["whole-nodes"] = self._whole_nodes
        self._hints = Hints(self._state, observe=self._count_hint)
        self._nominator = self._new_nominator(in_flight, judge) if settings.nomination else None
        self._binder = Binder(
            client, self._state, decisions, in_flight, on_forgotten=self._nudger.news
        )
        self._server = self._new_server(decisions, judge, in_flight)
        self._state.on_news(self._nudger.news)
        self._state.pods.on_change(self._pod_changed)

    def _new_server(
        self, decisions: Decisions, judge: Judge, in_flight: InFlight
    ) -> ExtenderServer:
        extender = Extender(
            self._state,
            decisions,
            judge,
            in_flight,
            self._refused,
            self._binder,
            claimed=ClaimedPlaces(self._client, self._state),
            chained=self._chained,
            observe=self._metrics.count_extender,
            on_asked=self._asked,
            on_preempt=self._hints.preempts,
        )
        answers = verbs(extender)
        if self._settings.log_decisions:
            answers = DecisionLog(self._state, decisions, judge).wrap(answers)
        return ExtenderServer(
            answers,
            host=self._settings.extender_host,
            port=self._settings.extender_port,
            observe=self._metrics.observe_extender,
            count_error=lambda verb: self._metrics.count_extender(verb, "malformed"),
        )

    async def run(self) -> None:
        """Serve until SIGTERM.

        Raises:
            Exception: a part failed that cannot be done without; the process must end.
        """
        stop = stop_on_signals()
        for resource, index in self._state.indexes.items():
            self._metrics.follow_index(resource, index)
        self._metrics.follow_refused(lambda: len(self._refused))
        async with (
            ProbeServer.of(self._settings, self._checks(), self._metrics),
            self._chained,
            self._server,  # from the start: an answer "not yet" is better than none
            in_background(
                self._feed(), self._nudge(), self._nominate(), self._binder.look_for_unseen()
            ),
        ):
            try:
                await stop.wait()
            finally:
                self._binder.stop()  # before the feeds: without them the state stands still

    async def _feed(self) -> None:
        """Everything that pods are judged by first, so that each pod is indexed once."""
        known = self._state.known
        tenants = self._reflector(TENANTS_PATH, known.tenants)
        async with asyncio.TaskGroup() as group:
            for reflector in (
                tenants,
                self._reflector(NAMESPACES_PATH, known.namespaces, metadata_only=True),
                self._reflector(CLASSES_PATH, known.classes),
                self._reflector(NODES_PATH, known.nodes),
            ):
                group.create_task(reflector.run())
            if "whole-nodes" in self._state.indexes:
                group.create_task(self._reflector(NODES_PATH, self._whole_nodes).run())
            for index in (known.namespaces, known.classes, known.nodes):
                await index.wait_synced()
            await tenants.wait_attempted()  # their API may not be served at all
            pods = self._reflector(
                PODS_PATH,
                self._state.pods,
                factor=PODS_RESYNC_FACTOR,
                params={"fieldSelector": UNFINISHED},
            )
            group.create_task(pods.run())

    async def _nudge(self) -> None:
        await self._state.pods.wait_synced()
        spare_collector()
        gc.set_threshold(*GC_THRESHOLDS)
        logger.info("all is known: %d pods", len(self._state.pods))
        await self._nudger.run()

    def _new_nominator(self, in_flight: InFlight, judge: Judge) -> Nominator:
        # Over all that a pod demands: kube-scheduler's own plugins come after the choice.
        decisions = Decisions(self._state.cluster, Scope.MERGED)
        return Nominator(
            self._client,
            self._state,
            self._hints,
            Chooser(self._state.cluster, decisions, self._hints.room),
            in_flight=in_flight,
            judge=judge,
            least_nodes=self._settings.nomination_least_nodes,
            # Further extenders filter, score and explain in their own way.
            least_candidates=self._settings.nomination_least_candidates
            if not self._settings.extra_extenders
            else None,
            observe=self._count_hint,
        )

    async def _nominate(self) -> None:
        if self._nominator is not None:
            await self._state.pods.wait_synced()
            await self._nominator.run()

    def _asked(self, pod: Pod, names: list[str]) -> str | None:
        if self._nominator is not None:
            return self._nominator.asked(pod, names)
        self._hints.asked(pod.uid, names)
        return None

    def _count_hint(self, result: HintResult) -> None:
        self._metrics.count_hint(result.value)

    def _reflector(
        self, path: str, store: Store[Any], *, factor: int = 1, **options: Any
    ) -> Reflector[Any]:
        seconds = self._settings.resync_seconds * factor
        return Reflector(self._client, path, store, resync_seconds=seconds, **options)

    def _pod_changed(self, _: str, old: Pod | None, new: Pod | None) -> None:
        if gone := departed(old, new):
            self._refused.tried(gone.uid)
        if new is not None and new.node_name:
            self._refused.tried(new.uid)

    def _checks(self) -> dict[str, Check]:
        return {
            **caches(self._state.indexes, seconds=self._settings.stale_seconds),
            "listening": unless(
                lambda: not self._server.listening, "the extender does not listen yet"
            ),
        }


def _without_managed_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A whole node as kube-scheduler would send it."""
    metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    return {**raw, "metadata": metadata}
