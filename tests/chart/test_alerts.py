"""The alerts of the chart: judged by Prometheus' own test program, and each with its page."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram

from controlplane.paths import REPOSITORY
from schedclass.domain.admission import Outcome
from schedclass.domain.findings import Reason
from schedclass.observability.metrics import Metrics
from tests.chart import promtool
from tests.chart.alert_cases import CASES, Case
from tests.chart.rendering import Chart, Object

RUNBOOKS = REPOSITORY / "docs" / "runbooks"
SCHEDULER = REPOSITORY / "operator" / "schedclass" / "scheduler"
ENABLED = {"prometheusRule": {"enabled": True}}
TARGET_LABELS = {"namespace", "pod"}
"""What the Prometheus operator writes on every series that it scrapes of a pod."""


def spec(chart: Chart, **values: Any) -> Object:
    rule = {**ENABLED["prometheusRule"], **values.pop("prometheusRule", {})}
    (found,) = chart.render({**values, "prometheusRule": rule}).all("PrometheusRule")
    return dict(found["spec"])


def alerts(chart: Chart, **values: Any) -> dict[str, Object]:
    groups = spec(chart, **values)["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return promtool.ensure()
    except promtool.NoPromtool as error:
        pytest.fail(str(error))


def judge(program: Path, *arguments: str | Path) -> None:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")  # which is YAML too
    return path


def test_prometheus_accepts_the_rules(chart: Chart, program: Path, tmp_path: Path) -> None:
    extra = [{"record": "schedclass:classes", "expr": "count(schedclass_class_ready)"}]
    rules = spec(chart, prometheusRule={"additionalRules": extra})
    judge(program, "check", "rules", "--lint=all", write(tmp_path / "rules.yaml", rules))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}-{case.name}")
def test_an_alert_fires_when_it_has_to(
    chart: Chart, program: Path, tmp_path: Path, case: Case
) -> None:
    base = {"runbookUrl": "https://example.org"}
    write(tmp_path / "rules.yaml", spec(chart, **case.values, prometheusRule=base))
    url = {"runbook_url": f"https://example.org/{case.alert}.md"}
    expected = [
        {"exp_labels": alert.labels, "exp_annotations": {**alert.annotations, **url}}
        for alert in case.firing
    ]
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in case.series.items()],
                "alert_rule_test": [
                    {"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}
                ],
            }
        ],
    }
    judge(program, "test", "rules", write(tmp_path / "test.yaml", document))


def test_each_alert_is_shown_to_fire_and_not_to_fire(chart: Chart) -> None:
    names = set(alerts(chart))
    assert {case.alert for case in CASES if case.firing} == names
    assert {case.alert for case in CASES if not case.firing} == names


def test_there_is_a_page_for_each_alert_and_no_other(chart: Chart) -> None:
    pages = {path.stem: path.read_text("utf-8") for path in RUNBOOKS.glob("*.md")}
    index = pages.pop("README")
    assert set(pages) == set(alerts(chart))
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n")
        assert f"({name}.md)" in index
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Cause", "See", "Mend"], name


def test_each_alert_says_how_bad_it_is_and_where_to_read_on(chart: Chart) -> None:
    base = "https://example.org/runbooks/"
    for name, rule in alerts(chart, prometheusRule={"runbookUrl": base}).items():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"{base}{name}.md"


def test_no_alert_leads_to_a_page_that_nobody_has_published(chart: Chart) -> None:
    for rule in alerts(chart).values():
        assert set(rule["annotations"]) == {"summary", "description"}


def existing() -> dict[str, set[str]]:
    """Every series the operator can expose, with its labels."""
    found: dict[str, set[str]] = {}
    registry: CollectorRegistry = Metrics(process=False).registry
    for metric in registry._names_to_collectors.values():
        labels = set(metric._labelnames)  # type: ignore[attr-defined] # what no sample shows yet
        for described in metric.describe():  # type: ignore[attr-defined]
            names = [described.name]
            if described.type == "counter":
                names = [f"{described.name}_total"]
            elif isinstance(metric, Histogram):
                names = [f"{described.name}_{part}" for part in ("bucket", "sum", "count")]
            for name in names:
                found[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return found


def test_the_expressions_rest_on_what_the_operator_exposes(chart: Chart) -> None:
    known = existing()
    (endpoint,) = monitor(chart)["podMetricsEndpoints"]
    written = TARGET_LABELS | {rule["targetLabel"] for rule in endpoint["relabelings"]}
    for name, rule in alerts(chart).items():
        used = set(re.findall(r"\bschedclass_\w+", rule["expr"]))
        assert used, name
        assert used <= set(known), name
        matched = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", rule["expr"]))
        for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]):
            matched |= set(re.findall(r"\w+", names))
        shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert matched | shown <= written.union(*(known[metric] for metric in used)), name


def test_the_expressions_name_values_that_labels_can_have(chart: Chart) -> None:
    results = "".join(path.read_text("utf-8") for path in sorted(SCHEDULER.glob("*.py")))
    reasons, outcomes = {reason.value for reason in Reason}, {outcome.value for outcome in Outcome}
    seen = set()
    for rule in alerts(chart).values():
        for label, text in re.findall(r"(\w+)(?:=~|!~|!=|=)\"([^\"]*)\"", rule["expr"]):
            seen.add(label)
            for value in text.split("|"):
                known = {
                    "reason": value in reasons,
                    "decision": value in outcomes,
                    "result": f'"{value}"' in results,
                    "verb": f'"{value}"' in results,
                    "component": value in {"webhook", "controller", "scheduler"},
                }
                assert known[label], f"{label}={value}"
    assert seen == {"reason", "decision", "result", "verb", "component"}


def test_nothing_is_rendered_unless_it_is_asked_for(chart: Chart) -> None:
    kinds = {obj["kind"] for obj in chart.render()}
    assert not kinds & {"PrometheusRule", "PodMonitor", "ServiceMonitor"}


def test_labels_and_further_rules_are_taken_over(chart: Chart) -> None:
    extra = [{"alert": "Mine", "expr": "vector(1)", "for": "1m"}]
    values = {"enabled": True, "labels": {"release": "monitoring"}, "additionalRules": extra}
    (rule,) = chart.render({"prometheusRule": values}).all("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    assert rule["spec"]["groups"][-1] == {"name": "schedclass.additional", "rules": extra}


def test_what_is_not_installed_does_not_alert(chart: Chart) -> None:
    every = set(alerts(chart))
    scheduler = {"scheduler": {"enabled": False}, "policies": {"enabled": False}}
    assert every - set(alerts(chart, **scheduler)) == {"SchedulerUnavailable", "ExtenderErrors"}
    webhook = {"webhook": {"enabled": False}, "policies": {"enabled": False}}
    assert every - set(alerts(chart, **webhook)) == {
        *("WebhookUnavailable", "AdmissionErrorRate", "AdmissionLatencyP99"),
        "CertificateExpiresSoon",
    }


@pytest.mark.parametrize(("timeout", "limit"), [(1, "0.5"), (3, "1.5"), (8, "4"), (30, "4.9")])
def test_slow_is_half_the_timeout_and_never_more_than_the_histogram_can_tell(
    chart: Chart, timeout: int, limit: str
) -> None:
    rule = alerts(chart, webhook={"timeoutSeconds": timeout})["AdmissionLatencyP99"]
    assert rule["expr"].split()[-1] == limit
    assert f"more than {limit} s" in rule["annotations"]["description"]


def monitor(chart: Chart, **values: Any) -> Object:
    wanted = {"serviceMonitor": {"enabled": True, **values}}
    (found,) = chart.render(wanted).all("PodMonitor")
    return dict(found["spec"])


def test_the_pods_of_every_role_are_scraped(chart: Chart) -> None:
    found = monitor(chart, interval="15s")
    (endpoint,) = found["podMetricsEndpoints"]
    assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "15s")
    pods = [obj["spec"]["template"] for obj in chart.render().all("Deployment")]
    assert len(pods) == 3
    for pod in pods:
        labels = pod["metadata"]["labels"]
        for key, value in found["selector"]["matchLabels"].items():
            assert labels[key] == value
        for expression in found["selector"]["matchExpressions"]:
            assert expression["operator"] == "In"
            assert labels[expression["key"]] in expression["values"]
        ports = [port["name"] for c in pod["spec"]["containers"] for port in c.get("ports", [])]
        assert ports.count(endpoint["port"]) == 1


def test_the_pods_of_the_clean_up_are_not_scraped(chart: Chart) -> None:
    (by_component,) = (
        expression
        for expression in monitor(chart)["selector"]["matchExpressions"]
        if expression["key"] == "app.kubernetes.io/component"
    )
    for job in chart.render().all("Job"):
        labels = job["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] not in by_component["values"]


def test_the_index_of_pages_is_what_the_chart_says(chart: Chart) -> None:
    index = (RUNBOOKS / "README.md").read_text("utf-8")
    for name, rule in alerts(chart).items():
        row = f"| [{name}]({name}.md) | {rule['labels']['severity']} | {rule['for']} |"
        assert row in index


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"serviceMonitor": {"interval": "often"}}, "interval"),
        ({"serviceMonitor": {"labels": {"a": 1}}}, "labels"),
        ({"prometheusRule": {"additionalRules": [{"alert": "Mine"}]}}, "expr"),
        ({"prometheusRule": {"runbookURL": "https://example.org"}}, "runbookURL"),
    ],
)
def test_values_that_the_operator_would_refuse_are_refused(
    chart: Chart, values: dict[str, Any], field: str
) -> None:
    assert field in chart.refusal(values)
