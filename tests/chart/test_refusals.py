"""Values that cannot work are refused before anything is installed, in one sentence."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controlplane.paths import CHART
from tests.chart.rendering import Chart

Values = dict[str, Any]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"certManager": {"enabled": True}, "selfSigned": {"enabled": True}},
            "certManager.enabled and selfSigned.enabled are both true",
        ),
        ({"selfSigned": {"enabled": False}}, "the webhook needs a certificate"),
        (
            {"certManager": {"issuerRef": {"name": "x"}}},
            "certManager.issuerRef is set, but certManager.enabled is false",
        ),
        (
            {"certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer"}}},
            "certManager.issuerRef has no name",
        ),
        (
            {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}},
            "minAvailable and podDisruptionBudget.maxUnavailable are both set",
        ),
        ({"webhook": {"port": 8081}}, "webhook.port and probes.port are both 8081"),
        ({"metrics": {"port": 9443}}, "webhook.port and metrics.port are both 9443"),
        ({"metrics": {"port": 8888}}, "metrics.port, scheduler.kubeScheduler.port and"),
        (
            {"metrics": {"enabled": False}, "serviceMonitor": {"enabled": True}},
            "serviceMonitor.enabled is true, but metrics.enabled is false",
        ),
        (
            {"metrics": {"enabled": False}, "prometheusRule": {"enabled": True}},
            "prometheusRule.enabled is true, but metrics.enabled is false",
        ),
        (
            {"deployments": {"enabled": False}},
            "deployments.enabled is false and webhook.url is empty",
        ),
        (
            {"serviceAccount": {"create": False}},
            "serviceAccount.create is false and serviceAccount.name is empty",
        ),
        (
            {"scheduler": {"enabled": False}},
            "no pod of a pinned namespace could be bound, name the user of the scheduler",
        ),
        (
            {"webhook": {"enabled": False}},
            "webhook.enabled is false and policies.pods.action is Deny",
        ),
        ({"terminationGracePeriodSeconds": 20}, "the server may take 30 seconds to drain"),
    ],
)
def test_contradictions_are_told_in_a_sentence(chart: Chart, values: Values, sentence: str) -> None:
    refusal = chart.refusal(values)
    assert sentence in refusal
    assert "nil pointer" not in refusal


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"webhook": {"url": "http://plain:1"}}, "/webhook/url"),
        ({"webhook": {"url": "https://host/path"}}, "/webhook/url"),
        ({"webhook": {"timeoutSeconds": 31}}, "/webhook/timeoutSeconds"),
        ({"webhook": {"failurePolicy": "ignore"}}, "/webhook/failurePolicy"),
        ({"webhook": {"port": 0}}, "/webhook/port"),
        ({"replicaCount": 0}, "/replicaCount"),
        ({"excludedNamespaces": ["kube-'*"]}, "/excludedNamespaces/0"),
        ({"logging": {"level": "loud"}}, "/logging/level"),
        ({"classDeletion": {"action": "Allow"}}, "/classDeletion/action"),
        ({"image": {"digest": "abc"}}, "/image"),
        ({"scheduler": {"kubeScheduler": {"image": ""}}}, "/scheduler/kubeScheduler/image"),
        ({"webhook": {"namespaceSelector": "a=b"}}, "/webhook/namespaceSelector"),
        ({"metrics": {"port": "http"}}, "/metrics/port"),
        ({"networkPolicy": {"metricsFrom": [{"namespace": "x"}]}}, "/networkPolicy/metricsFrom/0"),
        (
            {"networkPolicy": {"egress": {"apiServerPorts": []}}},
            "/networkPolicy/egress/apiServerPorts",
        ),
        ({"prometheusRule": {"runbookUrl": "docs/runbooks"}}, "/prometheusRule/runbookUrl"),
        ({"crds": {"enabled": "yes"}}, "/crds/enabled"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_field(
    chart: Chart, values: Values, field: str
) -> None:
    assert f"at '{field}'" in chart.refusal(values)


def defaults() -> Values:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))


FREE_FORM = {
    # Fields of the pod API and maps of anyone's own; the API server judges them.
    "resources", "podAnnotations", "podLabels", "podSecurityContext", "securityContext",
    "nodeSelector", "affinity", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe",
    "serviceAccount.annotations", "service.annotations", "scheduler.kubeScheduler.resources",
}  # fmt: skip


def own_sections(values: Values, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if ".".join(path) in FREE_FORM:
        return
    yield path
    for key, value in values.items():
        if isinstance(value, dict):
            yield from own_sections(value, (*path, key))


@pytest.mark.parametrize("path", sorted(own_sections(defaults())))
def test_a_misspelt_key_is_refused_in_every_section(chart: Chart, path: tuple[str, ...]) -> None:
    values = copy.deepcopy(defaults())
    section = values
    for key in path:
        section = section[key]
    section["misspelt"] = True
    assert "misspelt" in chart.refusal(values)


def test_every_value_is_described_and_known_to_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert set(schema["properties"]) == {*defaults(), "global"}
    lines = (CHART / "values.yaml").read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        is_leaf = ":" in line and not line.lstrip().startswith(("#", "-")) and line[0] != " "
        if is_leaf and not line.endswith(":"):
            assert lines[number - 1].startswith("#"), line
