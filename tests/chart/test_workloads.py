"""The Deployments: restricted pods, probes, spread, and every value where it belongs."""

import re
from typing import Any

import pytest

from schedclass.settings import PREFIX, load_settings
from tests.chart.rendering import Chart, Object

WEBHOOK = "Deployment/rel-schedclass-webhook"
CONTROLLER = "Deployment/rel-schedclass-controller"
CLEANUP = "Job/rel-schedclass-cleanup"


def container(chart: Chart, workload: str, values: dict[str, Any] | None = None) -> Object:
    (found,) = chart.render(values).pod_specs()[workload]["containers"]
    return dict(found)


def env(found: Object) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for e in found["env"]}


@pytest.mark.parametrize("workload", [WEBHOOK, CONTROLLER, CLEANUP])
def test_pods_meet_the_restricted_pod_security_standard(chart: Chart, workload: str) -> None:
    spec = chart.render().pod_specs()[workload]
    pod = spec["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert (pod["runAsUser"], pod["runAsGroup"]) == (65532, 65532)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    (found,) = spec["containers"]
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPath" not in volume for volume in spec["volumes"])
    assert {"name": "tmp", "mountPath": "/tmp"} in found["volumeMounts"]  # noqa: S108


@pytest.mark.parametrize("workload", [WEBHOOK, CONTROLLER])
def test_each_process_is_probed_over_http(chart: Chart, workload: str) -> None:
    found = container(chart, workload, {"probes": {"port": 7000}})
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    assert ports["probes"] == 7000
    assert env(found)["SCHEDCLASS_PROBE_PORT"] == "7000"
    paths = {"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/healthz"}
    for probe, path in paths.items():
        assert found[probe]["httpGet"] == {"path": path, "port": "probes"}


def test_one_value_moves_the_port_everywhere(chart: Chart) -> None:
    values = {"webhook": {"port": 10250}, "networkPolicy": {"enabled": True}}
    rendered = chart.render(values)
    assert "9443" not in rendered.text
    found = container(chart, WEBHOOK, values)
    assert {"name": "webhook", "containerPort": 10250, "protocol": "TCP"} in found["ports"]
    assert env(found)["SCHEDCLASS_WEBHOOK_PORT"] == "10250"
    policy = rendered.one("NetworkPolicy", "rel-schedclass-webhook")
    assert [port["port"] for port in policy["spec"]["ingress"][0]["ports"]] == [10250]
    (port,) = rendered.one("Service", "rel-schedclass-webhook")["spec"]["ports"]
    assert port["targetPort"] == "webhook"


def test_the_port_of_the_probes_is_that_of_the_metrics(chart: Chart) -> None:
    values = {
        "probes": {"port": 7000},
        "metrics": {"port": 7001},
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": True},
    }
    rendered = chart.render(values)
    for spec in rendered.pod_specs().values():
        assert env(spec["containers"][0])["SCHEDCLASS_PROBE_PORT"] == "7001"
    assert not re.search(r"\b(7000|8081)\b", rendered.text)
    (monitor,) = rendered.all("PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {
        port["name"]: port["containerPort"] for port in container(chart, WEBHOOK, values)["ports"]
    }
    assert ports[endpoint["port"]] == 7001


def ingress(chart: Chart, role: str, values: dict[str, Any]) -> list[tuple[list[int], Any]]:
    """The ports that a role's NetworkPolicy opens, with those to whom; None for everybody."""
    on = {**values, "networkPolicy": {"enabled": True, **values.get("networkPolicy", {})}}
    spec = chart.render(on).one("NetworkPolicy", f"rel-schedclass-{role}")["spec"]
    return [
        ([port["port"] for port in rule["ports"]], rule.get("from"))
        for rule in spec["ingress"] or []
    ]


OWN_PORTS = {"webhook": [9443], "controller": [], "scheduler": []}
METRICS_PORTS = {"webhook": [8081], "controller": [8081], "scheduler": [8081, 10259]}


@pytest.mark.parametrize("role", sorted(OWN_PORTS))
def test_metrics_can_be_kept_to_those_who_scrape_and_the_webhook_is_open_to_all(
    chart: Chart, role: str
) -> None:
    own = [(ports, None) for ports in [OWN_PORTS[role]] if ports]
    scraper = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mon"}}}]
    some = {"networkPolicy": {"metricsFrom": scraper}}
    assert ingress(chart, role, {}) == [*own, (METRICS_PORTS[role], None)]
    assert ingress(chart, role, some) == [*own, (METRICS_PORTS[role], scraper)]
    assert ingress(chart, role, {**some, "metrics": {"enabled": False}}) == own


@pytest.mark.parametrize("role", sorted(OWN_PORTS))
def test_what_the_processes_may_reach_is_limited_only_if_asked_for(chart: Chart, role: str) -> None:
    def spec(egress: dict[str, Any]) -> Object:
        values = {"networkPolicy": {"enabled": True, "egress": egress}}
        rendered = chart.render(values)
        return dict(rendered.one("NetworkPolicy", f"rel-schedclass-{role}")["spec"])

    assert spec({})["policyTypes"] == ["Ingress"]
    assert "egress" not in spec({})
    more = {"ports": [{"port": 3370}]}
    limited = spec({"enabled": True, "apiServerPorts": [443, 16443], "extra": [more]})
    assert limited["policyTypes"] == ["Ingress", "Egress"]
    rule, extra = limited["egress"]
    ports = {(port["protocol"], port["port"]) for port in rule["ports"]}
    assert ports == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 16443)}
    assert rule.keys() == {"ports"}
    assert extra == more


def test_what_is_meant_for_all_pods_and_containers_reaches_all(chart: Chart) -> None:
    mount, volume = {"name": "v", "mountPath": "/v"}, {"name": "v", "emptyDir": {}}
    affinity: Object = {"podAntiAffinity": {"x": []}}
    values = {
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
        "extraEnv": [{"name": "A", "value": "b"}, {"name": "S", "valueFrom": {"secretKeyRef": {}}}],
        "podLabels": {"p": "q"},
        "podAnnotations": {"r": "s"},
        "affinity": affinity,
        "nodeSelector": {"n": "o"},
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "pull"}],
        "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
    }
    rendered = chart.render(values)
    workloads = [obj for obj in rendered if obj["kind"] in {"Deployment", "Job"}]
    assert len(workloads) == 4
    for workload in workloads:
        template = workload["spec"]["template"]
        assert template["metadata"]["labels"]["p"] == "q"
        assert template["metadata"]["annotations"]["r"] == "s"
        spec = template["spec"]
        stays = workload["kind"] == "Deployment"
        # What the release brought is gone when the Job runs, so it must not depend on any of it.
        assert (volume in spec["volumes"]) == stays
        assert (spec.get("affinity") == affinity) == stays
        assert (spec["nodeSelector"], spec["tolerations"]) == ({"n": "o"}, [{"operator": "Exists"}])
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        for found in spec["containers"]:
            assert (mount in found["volumeMounts"]) == stays
            is_ours = found["name"] != "kube-scheduler"
            assert not is_ours or env(found)["A"] == "b"
            assert not is_ours or ("S" in env(found)) == stays
            # Nothing runs before the Job's container ends, and nothing can run in the stock image.
            assert ("lifecycle" in found) == (is_ours and stays)


EXPRESSION = {"key": "k", "operator": "Exists"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, []),
        ([], []),
        ({}, []),
        ([EXPRESSION], [EXPRESSION]),
        ({"matchExpressions": [EXPRESSION]}, [EXPRESSION]),
        (
            {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]},
            [{"key": "a", "operator": "In", "values": ["b"]}, EXPRESSION],
        ),
    ],
    ids=str,
)
def test_a_selector_of_namespaces_may_be_a_whole_one_or_its_expressions(
    chart: Chart, selector: object, expected: list[Object]
) -> None:
    rendered = chart.render({"webhook": {"namespaceSelector": selector}})
    webhooks = rendered.one("MutatingWebhookConfiguration", "rel-schedclass")["webhooks"]
    on_pods = [w["namespaceSelector"] for w in webhooks if w["name"].startswith("pods")]
    assert len(on_pods) == 2
    for found in on_pods:
        names, *rest = found["matchExpressions"]
        assert names["key"] == "kubernetes.io/metadata.name"
        assert rest == expected


def test_arguments_are_settings_that_each_role_understands(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}NAMESPACE", "ops")
    values = {"extraArgs": ["--resync-seconds=600", "--sweep-seconds", "700"]}
    for name, spec in chart.render(values).pod_specs().items():
        role, *arguments = spec["containers"][0]["args"]
        assert (not arguments) == (name == CLEANUP), role
        loaded = load_settings(arguments)
        expected = (300, 300) if name == CLEANUP else (600, 700)
        assert (loaded.resync_seconds, loaded.sweep_seconds) == expected


def test_the_webhook_can_use_the_network_of_the_host(chart: Chart) -> None:
    rendered = chart.render({"webhook": {"hostNetwork": True}})
    spec = rendered.pod_specs()[WEBHOOK]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostNetwork" not in rendered.pod_specs()[CONTROLLER]
    strategy = rendered.one("Deployment", "rel-schedclass-webhook")["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_rollout_never_takes_a_serving_replica_first(chart: Chart) -> None:
    deployment = chart.render().one("Deployment", "rel-schedclass-webhook")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("role", ["webhook", "controller"])
def test_replicas_spread_over_zones_and_nodes_without_insisting(chart: Chart, role: str) -> None:
    spec = chart.render().pod_specs()[f"Deployment/rel-schedclass-{role}"]
    keys = [c["topologyKey"] for c in spec["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {c["whenUnsatisfiable"] for c in spec["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    (term,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels["app.kubernetes.io/component"] == role


def test_own_pods_never_need_the_webhook_or_its_scheduler(chart: Chart) -> None:
    for spec in chart.render().pod_specs().values():
        assert "schedulerName" not in spec
        assert spec["priorityClassName"] == "system-cluster-critical"


def test_a_role_can_differ_in_replicas_and_resources(chart: Chart) -> None:
    values = {
        "replicaCount": 3,
        "controller": {"replicaCount": 1, "resources": {"limits": {"memory": "1Gi"}}},
    }
    rendered = chart.render(values)
    assert rendered.one("Deployment", "rel-schedclass-webhook")["spec"]["replicas"] == 3
    assert rendered.one("Deployment", "rel-schedclass-controller")["spec"]["replicas"] == 1
    assert container(chart, CONTROLLER, values)["resources"] == {"limits": {"memory": "1Gi"}}
    # A budget on a single replica would only hold up the drain of its node.
    budgets = {b["metadata"]["name"] for b in rendered.all("PodDisruptionBudget")}
    assert budgets == {"rel-schedclass-webhook", "rel-schedclass-scheduler"}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"minAvailable": 1}, {"minAvailable": 1}),
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"maxUnavailable": 0}, {"maxUnavailable": 0}),
    ],
)
def test_the_disruption_budget_is_one_of_two_kinds(
    chart: Chart, budget: dict[str, Any], expected: dict[str, Any]
) -> None:
    spec = chart.render({"podDisruptionBudget": budget}).all("PodDisruptionBudget")[0]["spec"]
    found = {k: v for k, v in spec.items() if k in {"minAvailable", "maxUnavailable"}}
    assert found == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "schedclass:0.1.0"),
        ({"registry": "r.example", "repository": "a/b", "tag": "2"}, "r.example/a/b:2"),
        ({"digest": "sha256:" + "0" * 64}, "schedclass:0.1.0@sha256:" + "0" * 64),
        ("r.example/a:1@sha256:abc", "r.example/a:1@sha256:abc"),
    ],
)
def test_the_image_is_named_in_parts_or_as_a_whole(
    chart: Chart, image: object, expected: str
) -> None:
    for spec in chart.render({"image": image}).pod_specs().values():
        assert spec["containers"][0]["image"] == expected


def test_values_reach_the_processes(chart: Chart) -> None:
    values = {
        "logging": {"level": "debug", "format": "text"},
        "exemptDaemonSets": True,
        "clusterDomain": "k8s.example",
        "certificate": {"hosts": ["127.0.0.1", "localhost"]},
        "certManager": {"enabled": True},
        "extraEnv": [{"name": "A", "value": "b"}, {"name": "S", "valueFrom": {"secretKeyRef": {}}}],
        "extraArgs": ["--resync-seconds=600"],
    }
    for workload, role in ((WEBHOOK, "webhook"), (CONTROLLER, "controller")):
        found = container(chart, workload, values)
        assert found["args"] == [role, "--resync-seconds=600"]
        expected = {
            "SCHEDCLASS_RELEASE": "rel-schedclass",
            "SCHEDCLASS_LOG_LEVEL": "debug",
            "SCHEDCLASS_LOG_FORMAT": "text",
            "SCHEDCLASS_EXEMPT_DAEMON_SETS": "true",
            "SCHEDCLASS_CLUSTER_DOMAIN": "k8s.example",
            "SCHEDCLASS_CERTIFICATE_HOSTS": "127.0.0.1,localhost",
            "SCHEDCLASS_CERTIFICATE_MODE": "cert-manager",
            "A": "b",
        }
        assert expected.items() <= env(found).items()


def test_without_deployments_everything_else_is_installed(chart: Chart) -> None:
    url = {"webhook": {"url": "https://127.0.0.1:1"}}
    whole = {(o["kind"], o["metadata"]["name"]) for o in chart.render(url)}
    rest = {
        (o["kind"], o["metadata"]["name"])
        for o in chart.render({**url, "deployments": {"enabled": False}})
    }
    # The ConfigMap is what kube-scheduler's container reads.
    assert {kind for kind, _ in whole - rest} == {"Deployment", "PodDisruptionBudget", "ConfigMap"}
    assert rest < whole


def test_uninstalling_frees_the_classes_after_the_controller_is_gone(chart: Chart) -> None:
    rendered = chart.render()
    hooks = [o for o in rendered if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    assert {o["metadata"]["annotations"]["helm.sh/hook"] for o in hooks} == {"post-delete"}
    assert {o["kind"] for o in hooks} == {
        "Job",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    }
    assert rendered.pod_specs()[CLEANUP]["containers"][0]["args"] == ["release"]
    without = chart.render({"cleanup": {"enabled": False}})
    assert not [o for o in without if "cleanup" in o["metadata"]["name"]]


def test_objects_of_ones_own_are_installed_too(chart: Chart) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-extra'}\n"
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}
    rendered = chart.render({"extraObjects": [text, obj]})
    assert rendered.one("ConfigMap", "rel-extra")
    assert rendered.one("ConfigMap", "plain")
