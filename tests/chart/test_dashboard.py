"""The dashboard of the chart: asks only for metrics that exist, in a form that Grafana imports."""

import json
import re
from typing import Any

import pytest
from prometheus_client import Histogram

from controlplane.paths import CHART
from schedclass.observability.definitions import Definition
from schedclass.observability.metrics import Metrics
from tests.chart.rendering import Chart

ENABLED = {"grafanaDashboard": {"enabled": True}}
TARGET_LABELS = {"namespace", "pod"}
"""What the Prometheus operator writes on every series that it scrapes of a pod."""
PARTS = {"histogram": ("_bucket", "_sum", "_count")}
SELECTOR = re.compile(r"(schedclass_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")

Object = dict[str, Any]


def dashboard() -> Object:
    loaded: Object = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    return loaded


def charts() -> list[Object]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in charts() for target in panel["targets"]]


def labels_by_series() -> dict[str, set[str]]:
    """What each series that the code exposes can be asked by, without those of the target."""
    found: dict[str, set[str]] = {}
    for metric in Metrics(process=False).definitions:
        for name in exposed(metric):
            le = {"le"} if name.endswith("_bucket") else set()
            found[name] = {*metric.labels, *le}
    return found


def exposed(metric: Definition) -> list[str]:
    return [f"{metric.name}{part}" for part in PARTS.get(metric.kind, ("",))]


def unknown(expression: str) -> set[str]:
    """Series and labels of an expression that nothing exposes."""
    known = labels_by_series()
    wrong: set[str] = set()
    had: set[str] = set(TARGET_LABELS)
    for name, matchers in SELECTOR.findall(expression):
        if name not in known:
            wrong.add(name)
            continue
        had |= known[name]
        asked = set(MATCHER.findall(matchers))
        wrong |= {f"{name}.{label}" for label in asked - known[name] - TARGET_LABELS}
    for group in GROUPING.findall(expression):
        wrong |= {label.strip() for label in group.split(",")} - had
    return wrong


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ('sum(schedclass_leader{pod="a"})', set()),
        ("schedclass_leaders", {"schedclass_leaders"}),
        ("schedclass_admission_duration_seconds", {"schedclass_admission_duration_seconds"}),
        ('schedclass_leader{class=~"a"}', {"schedclass_leader.class"}),
        ("max by (class, kind) (schedclass_class_ready)", {"kind"}),
    ],
)
def test_a_wrong_name_would_be_found(expression: str, wrong: set[str]) -> None:
    assert unknown(expression) == wrong


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_that_is_asked_for_exists(expression: str) -> None:
    assert SELECTOR.search(expression)
    assert unknown(expression) == set()


def test_legends_show_labels_that_the_expression_leaves() -> None:
    for panel in charts():
        for target in panel["targets"]:
            left = {
                label.strip()
                for group in GROUPING.findall(target["expr"])
                for label in group.split(",")
            }
            assert set(LEGEND.findall(target["legendFormat"])) <= left - {"le"}, panel["title"]


def test_variables_ask_for_series_that_exist() -> None:
    known = labels_by_series()
    queries = [
        variable["query"]["query"]
        for variable in dashboard()["templating"]["list"]
        if variable["type"] == "query"
    ]
    assert queries
    for query in queries:
        inner = re.fullmatch(r"label_values\((schedclass_\w+)(?:\{[^}]*\})?, (\w+)\)", query)
        assert inner, query
        assert inner[2] in known[inner[1]] | TARGET_LABELS


def test_every_metric_of_classes_admission_and_extender_is_shown() -> None:
    text = "\n".join(expressions())
    missing = {
        metric.name
        for metric in Metrics(process=False).definitions
        if metric.name.startswith(
            ("schedclass_class_", "schedclass_admission", "schedclass_extender")
        )
        and not any(name in text for name in exposed(metric))
    }
    assert missing == set()


def test_a_histogram_has_the_parts_that_are_checked() -> None:
    histogram = Histogram("h", "h", registry=None)
    names = {sample.name for family in histogram.collect() for sample in family.samples}
    assert {f"h{part}" for part in PARTS["histogram"]} <= names


def test_grafana_can_import_it() -> None:
    board = dashboard()
    assert board["uid"] == "schedclass"
    assert isinstance(board["schemaVersion"], int)
    assert board["title"]
    assert "id" not in board  # is the database's to give
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles)


def test_panels_lie_beside_each_other_within_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(column for column, _ in cells) < 24, panel["title"]
        taken |= cells


def test_every_query_goes_to_the_data_source_that_is_chosen() -> None:
    board = dashboard()
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    asked = [
        *charts(),
        *(target for panel in charts() for target in panel["targets"]),
        *(variable for variable in variables.values() if variable["type"] == "query"),
    ]
    assert all(part["datasource"] == chosen for part in asked)
    for panel in charts():
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0, panel["title"]
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(board)))
    assert used == set(variables)


def test_the_chart_installs_it_as_it_is_where_it_is_enabled(chart: Chart) -> None:
    assert not chart.render().all("ConfigMap", lambda obj: "dashboard" in obj["metadata"]["name"])
    found = chart.render(ENABLED).one("ConfigMap", "rel-schedclass-dashboard")
    assert json.loads(found["data"]["schedclass.json"]) == dashboard()
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["namespace"] == "ops"
    assert "annotations" not in found["metadata"]


def test_labels_and_annotations_are_those_that_the_sidecar_looks_for(chart: Chart) -> None:
    values = {"labels": {"boards": "yes"}, "annotations": {"grafana_folder": "Platform"}}
    rendered = chart.render({"grafanaDashboard": {"enabled": True, **values}})
    metadata = rendered.one("ConfigMap", "rel-schedclass-dashboard")["metadata"]
    assert metadata["labels"]["boards"] == "yes"
    assert metadata["annotations"] == {"grafana_folder": "Platform"}


@pytest.mark.parametrize(
    "values", [{"enabled": "yes"}, {"folder": "x"}, {"labels": {"grafana_dashboard": 1}}]
)
def test_values_that_cannot_be_meant_are_refused(chart: Chart, values: Object) -> None:
    assert "grafanaDashboard" in chart.refusal({"grafanaDashboard": values})
