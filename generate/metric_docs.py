"""docs/metrics.md, from the metrics that the processes make."""

from collections.abc import Iterable

from generate.console import ROOT
from generate.output import settle
from schedclass.observability.definitions import Definition, Role
from schedclass.observability.metrics import Metrics

TARGET = ROOT / "docs/metrics.md"

HEAD = """\
# Metrics

Every process serves these at `/metrics` of its probe port (`probes.port` of the chart, 8081). Each
role exposes only what it measures; the extender's process runs in the pods of cozystack-scheduler.
"leader" stands for series that only the leading replica of the controller moves: those of classes
exist there alone, and end with their class.

A label comes from a fixed set, or from an object that is deleted with its series; the reasons are
those of [reasons.md](reasons.md). What alerts rest on is 0 from the start rather than absent; a
certificate or a sync that is not there yet is `NaN`, which meets no comparison. A
histogram also has `_bucket` (with the label `le`), `_sum` and `_count`. The usual `process_*` and
`python_info` metrics are served beside them.

`grafanaDashboard.enabled` of the chart installs a dashboard of them.

<!-- generated from the code: python -m generate.metric_docs -->

| Metric | Type | Labels | Exposed by | Meaning |
|---|---|---|---|---|
"""


def row(metric: Definition) -> str:
    """One line of the table."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return (
        f"| `{metric.name}` | {metric.kind} | {labels} | {exposed_by(metric)} | {metric.text} |\n"
    )


def exposed_by(metric: Definition) -> str:
    """Which processes show it."""
    if set(metric.roles) == set(Role):
        return "every replica of every role"
    names = " and ".join(metric.roles)
    return f"{names}, leader" if metric.leader else f"every replica of {names}"


def page(metrics: Iterable[Definition]) -> str:
    """The whole page."""
    return HEAD + "".join(row(metric) for metric in metrics)


if __name__ == "__main__":
    renewed = page(Metrics(process=False).definitions)
    raise SystemExit(settle({TARGET: renewed}, "python -m generate.metric_docs"))
