import math
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from generate.metric_docs import exposed_by
from schedclass.domain.compliance import COUNTED_KINDS, ViolationKind
from schedclass.domain.compliance_index import PodCounts
from schedclass.observability.definitions import Role
from schedclass.observability.metrics import Metrics
from schedclass.scheduler.bindapi import BindOutcome
from schedclass.scheduler.hints import HintResult


@dataclass
class Cache:
    synced: bool = False
    last_activity: float | None = None
    size: int = 0
    rejected: int = 0
    swept: int = 0
    listener_errors: int = 0

    def __len__(self) -> int:
        return self.size


def series(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = metrics.render()[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return series(metrics)[f"schedclass_{name}", frozenset(labels.items())]


def labelled(metrics: Metrics, label: str, wanted: str) -> list[str]:
    return [name for name, labels in series(metrics) if (label, wanted) in labels]


def test_errors_are_zero_rather_than_absent_from_the_start() -> None:
    metrics = Metrics()
    count = value(
        metrics,
        "admission_requests_total",
        operation="CREATE",
        decision="error",
        reason="InternalError",
    )
    assert count == 0


def test_answers_are_counted_and_timed() -> None:
    metrics = Metrics()
    for seconds in (0.0004, 0.003):
        metrics.observe_admission("CREATE", "patched", "ClassApplied", seconds)
    labels = {"operation": "CREATE", "decision": "patched", "reason": "ClassApplied"}
    assert value(metrics, "admission_requests_total", **labels) == 2
    assert value(metrics, "admission_duration_seconds_count", operation="CREATE") == 2
    bucket = value(metrics, "admission_duration_seconds_bucket", operation="CREATE", le="0.001")
    assert bucket == 1


def test_series_of_a_class_end_with_it() -> None:
    metrics = Metrics()
    status = {
        "conditions": [
            {"type": "Accepted", "status": "True"},
            {"type": "Ready", "status": "False"},
        ],
        "matchingNodes": 3,
        "boundNamespaces": 2,
    }
    metrics.set_class("west", status)
    metrics.set_class("east", {"conditions": [{"type": "Ready", "status": "True"}]})
    assert value(metrics, "class_ready", **{"class": "west"}) == 0
    assert value(metrics, "class_nodes", **{"class": "west"}) == 3
    assert value(metrics, "class_namespaces", **{"class": "west"}) == 2
    assert value(metrics, "class_ready", **{"class": "east"}) == 1
    metrics.forget_class("west")
    assert labelled(metrics, "class", "west") == []
    assert len(labelled(metrics, "class", "east")) == 3
    metrics.forget_class("never seen")


def test_pods_of_a_class_are_shown_by_kind_once_known_and_end_with_it() -> None:
    metrics = Metrics()
    metrics.set_class("west", {})
    assert ("schedclass_class_pods", frozenset({("class", "west")})) not in series(metrics)
    by_kind = dict.fromkeys(COUNTED_KINDS, 0) | {ViolationKind.SPREAD: 2}
    metrics.set_class_pods("west", PodCounts(9, 2, by_kind))
    assert value(metrics, "class_pods", **{"class": "west"}) == 9
    assert value(metrics, "violating_pods", **{"class": "west", "kind": "spread"}) == 2
    for kind in ("node", "affinity", "bypass"):
        assert value(metrics, "violating_pods", **{"class": "west", "kind": kind}) == 0
    metrics.set_class_pods("west", None)
    assert len(labelled(metrics, "class", "west")) == 3
    metrics.set_class_pods("west", PodCounts())
    metrics.forget_class("west")
    assert labelled(metrics, "class", "west") == []


def test_index_is_read_at_each_scrape() -> None:
    metrics = Metrics()
    cache = Cache()
    metrics.follow_index("namespaces", cache, monotonic=lambda: 100.0, wall=lambda: 5000.0)
    assert value(metrics, "index_synced", resource="namespaces") == 0
    assert math.isnan(value(metrics, "last_sync_timestamp_seconds", resource="namespaces"))
    faults = {"rejected": 1, "missed": 2, "unfollowed": 3}
    for fault in faults:
        assert value(metrics, "index_faults_total", resource="namespaces", fault=fault) == 0
    cache.synced, cache.last_activity, cache.size = True, 90.0, 7
    cache.rejected, cache.swept, cache.listener_errors = faults.values()
    for fault, count in faults.items():
        assert value(metrics, "index_faults_total", resource="namespaces", fault=fault) == count
    assert value(metrics, "index_synced", resource="namespaces") == 1
    assert value(metrics, "index_objects", resource="namespaces") == 7
    assert value(metrics, "last_sync_timestamp_seconds", resource="namespaces") == 4990


def test_certificate_expiry_follows_the_one_in_use() -> None:
    metrics = Metrics()
    moments: list[datetime | None] = [None]
    metrics.follow_certificate(lambda: moments[-1])
    assert math.isnan(value(metrics, "certificate_expiry_timestamp_seconds"))
    moments.append(datetime(2027, 1, 1, tzinfo=UTC))
    assert value(metrics, "certificate_expiry_timestamp_seconds") == moments[-1].timestamp()  # type: ignore[union-attr]
    metrics.count_certificate_error()
    assert value(metrics, "certificate_reload_errors_total") == 1


def test_controller_shows_leadership_errors_and_durations() -> None:
    metrics = Metrics()
    assert value(metrics, "leader") == 0
    metrics.set_leader(True)
    assert value(metrics, "leader") == 1
    metrics.observe_reconcile("classes", 0.2)
    metrics.count_reconcile_error("classes")
    assert value(metrics, "reconcile_errors_total", controller="classes") == 1
    assert value(metrics, "reconcile_duration_seconds_sum", controller="classes") == 0.2
    metrics.count_dropped_event()
    assert value(metrics, "events_dropped_total") == 1


def test_sets_of_metrics_are_independent() -> None:
    first, second = Metrics(), Metrics()
    first.set_leader(True)
    assert value(second, "leader") == 0


def test_process_and_build_are_shown() -> None:
    metrics = Metrics(revision="abc")
    assert ("schedclass_build_info", "abc") in {
        (name, dict(labels).get("revision")) for name, labels in series(metrics)
    }
    assert any(name == "process_resident_memory_bytes" for name, _ in series(metrics))


def test_format_is_the_one_the_scraper_asks_for() -> None:
    body, content_type = Metrics().render("application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in content_type
    assert body.endswith(b"# EOF\n")
    assert "text/plain" in Metrics().render()[1]


@pytest.mark.parametrize("role", list(Role))
def test_a_process_shows_what_its_role_measures_and_nothing_else(role: Role) -> None:
    metrics = Metrics(role, process=False)
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(metrics.render()[0].decode())
    }
    created = {name for name in families if name.endswith("_created")}
    assert families - created == {
        definition.name for definition in metrics.definitions if role in definition.roles
    }


def test_no_process_but_a_webhook_has_a_certificate_that_could_expire() -> None:
    name = "schedclass_certificate_expiry_timestamp_seconds"
    shown = {role: (name, frozenset()) in series(Metrics(role)) for role in Role}
    assert shown == {Role.WEBHOOK: True, Role.CONTROLLER: False, Role.EXTENDER: False}
    assert math.isnan(value(Metrics(Role.WEBHOOK), "certificate_expiry_timestamp_seconds"))


def test_counters_with_fixed_labels_are_zero_from_the_start() -> None:
    metrics = Metrics()
    for hint in HintResult:
        assert value(metrics, "extender_hints_total", result=hint.value) == 0
    for bound in BindOutcome:
        labels = {"verb": "bind", "result": bound.value}
        assert value(metrics, "extender_requests_total", **labels) == 0
    for controller in ("inheritance", "classes", "compliance"):
        assert value(metrics, "reconcile_errors_total", controller=controller) == 0
    for written in ("true", "false"):
        assert value(metrics, "extender_nudges_total", written=written) == 0


def test_documents_tell_the_leader_from_every_replica() -> None:
    told = {metric.name: exposed_by(metric) for metric in Metrics(process=False).definitions}
    assert told["schedclass_class_ready"] == "controller, leader"
    assert told["schedclass_leader"] == "every replica of controller"
    assert told["schedclass_index_synced"] == "every replica of every role"
