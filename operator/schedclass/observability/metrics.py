"""Prometheus metrics of one process, in a registry of their own.

Labels come from fixed sets or from objects that are deleted with their series; never from what a
tenant can write.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from schedclass import __version__
from schedclass.domain.admission import Outcome
from schedclass.domain.compliance import COUNTED_KINDS
from schedclass.domain.compliance_index import PodCounts
from schedclass.domain.findings import Reason
from schedclass.observability.definitions import (
    CONTROLLER,
    EVERYWHERE,
    EXTENDER,
    WEBHOOK,
    Maker,
    Role,
)

_ADMISSION_BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
_RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0)

_FROM_THE_START: Final = (
    ("CREATE", Outcome.PATCHED, Reason.CLASS_APPLIED),
    ("CREATE", Outcome.UNCHANGED, Reason.NOT_PINNED),
    ("CREATE", Outcome.UNCHANGED, Reason.CLASS_NOT_FOUND),
    ("CREATE", Outcome.DENIED, Reason.NODE_NOT_ALLOWED),
    ("CREATE", Outcome.UNKNOWN, Reason.CLASS_UNKNOWN),
    ("CREATE", Outcome.UNKNOWN, Reason.INTERNAL_ERROR),
)
"""Series that alerts rest on: an absent one would not be a zero."""

_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
_CONTROLLERS: Final = ("inheritance", "classes", "compliance")
_VERBS: Final = ("filter", "prioritize", "preempt", "bind")
_ANSWERS: Final = (
    *(("filter", result) for result in ("passed", "refused", "unready", "doubtful")),
    *(("filter", result) for result in ("chained", "overtaken")),
    *(("prioritize", result) for result in ("scored", "indifferent")),
    *(("preempt", result) for result in ("kept", "refused", "unready")),
    *(("bind", result) for result in ("bound", "conflict", "refused", "unknown")),
    ("wait", "settled"),
    *((verb, "malformed") for verb in _VERBS),
)
_HINTS: Final = ("made", "chosen", "used", "missed", "withdrawn", "overtaken", "failed")


class Index(Protocol):
    """What a cache shows of itself."""

    @property
    def synced(self) -> bool:
        """Whether it is complete."""

    @property
    def last_activity(self) -> float | None:
        """Monotonic seconds of the last sign of life of the API server; None before the first."""

    @property
    def rejected(self) -> int:
        """Objects that could not be read."""

    @property
    def swept(self) -> int:
        """Objects whose end no event had told of."""

    @property
    def listener_errors(self) -> int:
        """Failures of what follows it."""

    def __len__(self) -> int: ...


class Metrics:
    """Everything the operator measures.

    Attributes:
        registry: what `render` exposes.
        definitions: every metric, also those that this role does not expose.
    """

    def __init__(
        self, role: Role | None = None, *, revision: str = "unknown", process: bool = True
    ) -> None:
        """Make an independent set of metrics.

        Args:
            role: exposes only what processes of this role measure; None exposes all.
            revision: commit of the build.
            process: also expose CPU, memory and file descriptors of this process.
        """
        self.registry = CollectorRegistry()
        self._indexes: dict[str, Index] = {}
        self._make = Maker(self.registry, role)
        self.definitions = self._make.definitions
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
        build = self._make.gauge(
            "build_info",
            "Version of the operator.",
            *("version", "revision"),
            roles=EVERYWHERE,
        )
        build.labels(__version__, revision).set(1)
        self._make_admission()
        self._make_classes()
        self._make_controller()
        self._make_adapters()
        self._make_extender()

    def _make_admission(self) -> None:
        self._reviews = self._make.counter(
            "admission_requests_total",
            "Admission reviews answered, by what was decided and why.",
            *("operation", "decision", "reason"),
            roles=WEBHOOK,
        )
        for operation, outcome, reason in _FROM_THE_START:
            self._reviews.labels(operation, outcome.value, reason.value)
        self._review_seconds = self._make.histogram(
            "admission_duration_seconds",
            "Time from the headers of an admission review to its answer.",
            "operation",
            buckets=_ADMISSION_BUCKETS,
            roles=WEBHOOK,
        )
        for operation in _OPERATIONS:
            self._review_seconds.labels(operation)

    def _make_classes(self) -> None:
        self._class_gauges = {
            name: self._make.gauge(f"class_{name}", text, "class", roles=CONTROLLER, leader=True)
            for name, text in (
                ("ready", "Whether the SchedulingClass is Ready."),
                ("nodes", "Nodes that satisfy the node constraints of the SchedulingClass."),
                ("namespaces", "Namespaces the SchedulingClass applies to."),
                ("pods", "Pods of the SchedulingClass that have not ended."),
            )
        }
        self._violating = self._make.gauge(
            "violating_pods",
            "Pods that break the SchedulingClass where they run, or escape it (`bypass`).",
            *("class", "kind"),
            roles=CONTROLLER,
            leader=True,
        )

    def _make_controller(self) -> None:
        self._reconcile_errors = self._make.counter(
            "reconcile_errors_total",
            "Reconciliations that failed and are tried again.",
            "controller",
            roles=CONTROLLER,
            leader=True,
        )
        self._reconcile_seconds = self._make.histogram(
            "reconcile_duration_seconds",
            "Time of one reconciliation.",
            "controller",
            buckets=_RECONCILE_BUCKETS,
            roles=CONTROLLER,
            leader=True,
        )
        for controller in _CONTROLLERS:
            self._reconcile_errors.labels(controller)
            self._reconcile_seconds.labels(controller)
        self._leader = self._make.gauge(
            "leader", "Whether this replica is the leader.", roles=CONTROLLER
        )

    def _make_adapters(self) -> None:
        self._index_objects = self._make.gauge(
            "index_objects", "Objects in the cache of a resource.", "resource", roles=EVERYWHERE
        )
        self._index_synced = self._make.gauge(
            "index_synced",
            "Whether the cache of a resource is complete.",
            "resource",
            roles=EVERYWHERE,
        )
        self._last_sync = self._make.gauge(
            "last_sync_timestamp_seconds",
            "When the API server was last heard of about a resource; NaN before the first time.",
            "resource",
            roles=EVERYWHERE,
        )
        self._make.kept_counter(
            "index_faults_total",
            "What went wrong with the cache of a resource: objects that could not be read "
            "(`rejected`; what was known of them is kept), objects whose end no watch told of "
            "(`missed`; the rule for `unpinned-pods`, which are only listed), and changes that "
            "were not followed (`unfollowed`, a fault of ours).",
            *("resource", "fault"),
            roles=EVERYWHERE,
            read=self._index_faults,
        )
        self._expiry = self._make.gauge(
            "certificate_expiry_timestamp_seconds",
            "When the serving certificate expires; NaN while there is none.",
            roles=WEBHOOK,
        )
        self._expiry.set(math.nan)
        self._certificate_errors = self._make.counter(
            "certificate_reload_errors_total",
            "Serving certificates that could not be used or published.",
            roles=(Role.WEBHOOK, Role.CONTROLLER),
        )
        self._events_dropped = self._make.counter(
            "events_dropped_total",
            "Events that could not be written.",
            roles=(Role.WEBHOOK, Role.CONTROLLER),
        )

    def _make_extender(self) -> None:
        self._verbs = self._make.counter(
            "extender_requests_total",
            "Requests of kube-scheduler, by verb and result. `conflict` is a binding that would "
            "have broken a hard rule.",
            *("verb", "result"),
            roles=EXTENDER,
        )
        for verb, result in _ANSWERS:
            self._verbs.labels(verb, result)
        self._verb_seconds = self._make.histogram(
            "extender_duration_seconds",
            "Time from the headers of a request of kube-scheduler to its answer.",
            "verb",
            buckets=_ADMISSION_BUCKETS,
            roles=EXTENDER,
        )
        for verb in _VERBS:
            self._verb_seconds.labels(verb)
        self._nudges = self._make.counter(
            "extender_nudges_total",
            "Times that kube-scheduler was told to try refused pods again, by whether that worked.",
            "written",
            roles=EXTENDER,
        )
        for written in ("true", "false"):
            self._nudges.labels(written)
        self._hints = self._make.counter(
            "extender_hints_total",
            "Nodes named for pods beforehand (`made`) or in an answer of filter (`chosen`), and "
            "what came of it: `used`, `missed`, `withdrawn`; or why it was not written: "
            "`overtaken`, `failed`.",
            "result",
            roles=EXTENDER,
        )
        for result in _HINTS:
            self._hints.labels(result)
        self._refused = self._make.gauge(
            "extender_refused_pods",
            "Pods that were refused and not tried again since.",
            roles=EXTENDER,
        )

    def observe_admission(self, operation: str, decision: str, reason: str, seconds: float) -> None:
        """Count one answered review; the signature the admission server calls."""
        self._reviews.labels(operation, decision, reason).inc()
        self._review_seconds.labels(operation).observe(seconds)

    def set_class(self, name: str, status: Mapping[str, Any]) -> None:
        """Show a class.

        Args:
            name: of the class.
            status: its status as written to the API: `conditions`, `matchingNodes`,
                `boundNamespaces`.
        """
        ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        )
        self._class_gauges["ready"].labels(name).set(ready)
        self._class_gauges["nodes"].labels(name).set(status.get("matchingNodes") or 0)
        self._class_gauges["namespaces"].labels(name).set(status.get("boundNamespaces") or 0)

    def set_class_pods(self, name: str, counts: PodCounts | None) -> None:
        """Show the pods of a class; None, while they are not known, shows nothing instead of 0."""
        if counts is None:
            self._forget_class_pods(name)
            return
        self._class_gauges["pods"].labels(name).set(counts.pods)
        for kind in COUNTED_KINDS:
            self._violating.labels(name, kind.value).set(counts.by_kind[kind])

    def forget_class(self, name: str) -> None:
        """Delete the series of a class, or a deleted class would alert for ever."""
        for gauge in self._class_gauges.values():
            gauge.remove_by_labels({"class": name})
        self._forget_class_pods(name)

    def _forget_class_pods(self, name: str) -> None:
        for gauge in (self._class_gauges["pods"], self._violating):
            gauge.remove_by_labels({"class": name})

    def observe_reconcile(self, controller: str, seconds: float) -> None:
        """Record how long one reconciliation took."""
        self._reconcile_seconds.labels(controller).observe(seconds)

    def count_reconcile_error(self, controller: str) -> None:
        """Count one reconciliation that failed."""
        self._reconcile_errors.labels(controller).inc()

    def set_leader(self, leading: bool) -> None:
        """Show whether this replica leads."""
        self._leader.set(leading)

    def follow_index(
        self,
        resource: str,
        index: Index,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Read the state of a cache at each scrape.

        Args:
            resource: plural name.
            index: the cache, e.g. a `schedclass.kube.store.Store`.
            monotonic: the clock of its `last_activity`.
            wall: seconds since the epoch.
        """

        def last_sync() -> float:
            if index.last_activity is None:
                return math.nan
            return wall() - (monotonic() - index.last_activity)

        self._indexes[resource] = index
        self._index_objects.labels(resource).set_function(lambda: float(len(index)))
        self._index_synced.labels(resource).set_function(lambda: float(index.synced))
        self._last_sync.labels(resource).set_function(last_sync)

    def _index_faults(self) -> Iterator[tuple[Sequence[str], int]]:
        for resource, index in self._indexes.items():
            yield (resource, "rejected"), index.rejected
            yield (resource, "missed"), index.swept
            yield (resource, "unfollowed"), index.listener_errors

    def follow_certificate(self, expires_at: Callable[[], datetime | None]) -> None:
        """Read at each scrape when the serving certificate expires."""

        def timestamp() -> float:
            moment = expires_at()
            return math.nan if moment is None else moment.timestamp()

        self._expiry.set_function(timestamp)

    def count_certificate_error(self) -> None:
        """Count one serving certificate that could not be used or published."""
        self._certificate_errors.inc()

    def count_dropped_event(self, count: int = 1) -> None:
        """Count Events that could not be written."""
        self._events_dropped.inc(count)

    def count_extender(self, verb: str, result: str) -> None:
        """Count one request of kube-scheduler; both from fixed sets."""
        self._verbs.labels(verb, result).inc()

    def observe_extender(self, verb: str, seconds: float) -> None:
        """Record how long one answer to kube-scheduler took."""
        self._verb_seconds.labels(verb).observe(seconds)

    def count_nudge(self, written: bool) -> None:
        """Count one attempt to have refused pods tried again."""
        self._nudges.labels(str(written).lower()).inc()

    def count_hint(self, result: str) -> None:
        """Count one hint, or what came of one."""
        self._hints.labels(result).inc()

    def follow_refused(self, count: Callable[[], int]) -> None:
        """Read at each scrape how many pods were refused and wait."""
        self._refused.set_function(lambda: float(count()))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type.

        Args:
            accept: `Accept` header of the scraper, which chooses between the text formats.
        """
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type
