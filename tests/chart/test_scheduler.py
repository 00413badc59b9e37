"""cozystack-scheduler: the stock kube-scheduler with our extender in the same pod."""

import json
from typing import Any

import pytest
import yaml

from tests.chart.rendering import Chart, Object
from tests.chart.test_rights import grants

Values = dict[str, Any]

NAME = "rel-schedclass-scheduler"


def configuration(chart: Chart, scheduler: Values | None = None) -> Object:
    rendered = chart.render({"scheduler": scheduler or {}})
    return dict(yaml.safe_load(rendered.one("ConfigMap", NAME)["data"]["config.yaml"]))


def containers(chart: Chart, values: Values | None = None) -> dict[str, Object]:
    spec = chart.render(values).pod_specs()[f"Deployment/{NAME}"]
    return {container["name"]: container for container in spec["containers"]}


def test_the_extender_is_asked_at_each_step_and_nothing_is_decided_without_it(chart: Chart) -> None:
    (extender,) = configuration(chart)["extenders"]
    assert extender == {
        "urlPrefix": "http://127.0.0.1:8888",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": "10s",
    }


def test_it_schedules_under_one_name_only_and_looks_at_every_node(chart: Chart) -> None:
    found = configuration(chart)
    assert found["profiles"] == [{"schedulerName": "cozystack-scheduler"}]
    assert found["percentageOfNodesToScore"] == 100


def test_it_elects_by_a_lease_of_its_own(chart: Chart) -> None:
    election = configuration(chart)["leaderElection"]
    assert (election["resourceName"], election["resourceNamespace"]) == (
        "cozystack-scheduler",
        "ops",
    )
    other = configuration(chart, {"lease": {"name": "blue"}})["leaderElection"]
    assert other["resourceName"] == "blue"


def test_both_containers_agree_on_the_port_between_them(chart: Chart) -> None:
    scheduler = {"extenderPort": 9999}
    (extender,) = configuration(chart, scheduler)["extenders"]
    env = containers(chart, {"scheduler": scheduler})["extender"]["env"]
    assert extender["urlPrefix"] == "http://127.0.0.1:9999"
    assert {"name": "SCHEDCLASS_EXTENDER_PORT", "value": "9999"} in env


def test_that_port_is_no_port_of_the_pod(chart: Chart) -> None:
    ports = [p["containerPort"] for c in containers(chart).values() for p in c["ports"]]
    assert sorted(ports) == [8081, 10259]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "registry.k8s.io/kube-scheduler:v1.36.3"),
        ({"tag": "v1.31.4"}, "registry.k8s.io/kube-scheduler:v1.31.4"),
        ({"registry": "local:5000/"}, "local:5000/kube-scheduler:v1.36.3"),
        ({"registry": "", "repository": "ks"}, "ks:v1.36.3"),
        (
            {"digest": f"sha256:{'a' * 64}"},
            f"registry.k8s.io/kube-scheduler:v1.36.3@sha256:{'a' * 64}",
        ),
        ("r.example/ks:v1.36.1@sha256:abc", "r.example/ks:v1.36.1@sha256:abc"),
    ],
)
def test_the_stock_scheduler_has_the_version_of_the_cluster(
    chart: Chart, image: Values | str, expected: str
) -> None:
    values = {"scheduler": {"kubeScheduler": {"image": image}}}
    found = containers(chart, values)
    assert found["kube-scheduler"]["image"] == expected
    assert found["kube-scheduler"]["imagePullPolicy"] == "IfNotPresent"
    assert found["extender"]["image"] == "schedclass:0.1.0"


def test_each_image_has_its_own_pull_policy(chart: Chart) -> None:
    image = {"pullPolicy": "Always"}
    found = containers(chart, {"scheduler": {"kubeScheduler": {"image": image}}})
    policies = {name: container["imagePullPolicy"] for name, container in found.items()}
    assert policies == {"kube-scheduler": "Always", "extender": "IfNotPresent"}


def test_both_containers_are_restricted_and_probed(chart: Chart) -> None:
    for container in containers(chart).values():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()
        assert container["resources"]["requests"]


def test_its_pods_are_found_by_the_name_cozystack_documents(chart: Chart) -> None:
    template = chart.render().one("Deployment", NAME)["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "cozystack-scheduler"


def test_a_changed_configuration_starts_the_pods_anew(chart: Chart) -> None:
    def checksum(values: Values) -> str:
        template = chart.render(values).one("Deployment", NAME)["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    backoff = {"scheduler": {"kubeScheduler": {"podMaxBackoffSeconds": 3}}}
    assert checksum({}) == checksum({"logging": {"level": "debug"}})
    assert checksum({}) != checksum(backoff)


def test_no_pod_is_forgotten_for_longer_than_a_minute(chart: Chart) -> None:
    flag = "--pod-max-in-unschedulable-pods-duration"

    def given(**stock: Any) -> list[str]:
        arguments = containers(chart, {"scheduler": {"kubeScheduler": stock}})["kube-scheduler"]
        return [argument for argument in arguments["args"] if argument.startswith(flag)]

    assert given() == [f"{flag}=60s"]
    assert given(maxUnschedulableDuration="5m") == [f"{flag}=5m"]
    assert given(maxUnschedulableDuration="") == []


def test_the_keys_of_missing_selectors_reach_each_role_that_looks_at_pods(chart: Chart) -> None:
    values = {"scheduler": {"defaultLabelSelectorKeys": ["team", "example.org/app"]}}
    specs = chart.render(values).pod_specs()
    found = {
        container["name"]: {
            entry["value"]
            for entry in container.get("env", [])
            if entry["name"] == "SCHEDCLASS_DEFAULT_LABEL_SELECTOR_KEYS"
        }
        for name, spec in specs.items()
        if name.startswith("Deployment/")
        for container in spec["containers"]
    }
    assert {name for name, keys in found.items() if keys} == {"webhook", "controller", "extender"}
    assert set().union(*found.values()) == {"team,example.org/app"}


def test_decisions_are_logged_only_if_asked_for(chart: Chart) -> None:
    def env(values: Values) -> dict[str, str]:
        found = containers(chart, {"scheduler": values})["extender"]["env"]
        return {entry["name"]: entry.get("value", "") for entry in found}

    assert "SCHEDCLASS_LOG_DECISIONS" not in env({})
    assert env({"logDecisions": True})["SCHEDCLASS_LOG_DECISIONS"] == "true"


def test_further_extenders_are_asked_by_ours_and_run_in_the_pod(chart: Chart) -> None:
    linstor = {"urlPrefix": "http://127.0.0.1:8099", "filterVerb": "filter", "weight": 5}
    values = {
        "scheduler": {
            "extraExtenders": [linstor],
            "extraContainers": [{"name": "linstor", "image": "x"}],
        }
    }
    found = containers(chart, values)
    env = {entry["name"]: entry.get("value") for entry in found["extender"]["env"]}
    assert json.loads(env["SCHEDCLASS_EXTRA_EXTENDERS"] or "") == [linstor]
    assert found["linstor"] == {"name": "linstor", "image": "x"}
    assert len(configuration(chart, values["scheduler"])["extenders"]) == 1


def test_arguments_of_plugins_can_be_set(chart: Chart) -> None:
    arguments = [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}]
    (profile,) = configuration(chart, {"kubeScheduler": {"pluginConfig": arguments}})["profiles"]
    assert profile["pluginConfig"] == arguments


def test_beyond_what_the_cluster_gives_a_scheduler_it_writes_its_lease_and_one_inert_object(
    chart: Chart,
) -> None:
    written = {
        grant
        for grant in grants(chart.render(), "scheduler")
        if grant[2] not in {"get", "list", "watch"}
    }
    assert written == {
        ("Role", "leases", "update", "cozystack-scheduler"),
        ("Role", "csistoragecapacities", "create", ""),
        ("Role", "csistoragecapacities", "patch", NAME),
    }


def test_the_rest_are_the_rights_that_the_cluster_gives_its_own_scheduler(chart: Chart) -> None:
    bound = {
        binding["roleRef"]["name"]
        for binding in chart.render().all("ClusterRoleBinding")
        if binding["subjects"][0]["name"] == NAME
    }
    assert bound == {"system:kube-scheduler", "system:volume-scheduler", NAME}


def test_a_cluster_that_has_one_already_can_do_without(chart: Chart) -> None:
    other = {"bindings": {"allowedUsers": ["system:serviceaccount:kube-system:other"]}}
    rendered = chart.render({"scheduler": {"enabled": False}, "policies": other})
    assert not [o for o in rendered if o["metadata"]["name"].startswith(NAME)]
    for name, spec in rendered.pod_specs().items():
        env = {entry["name"] for entry in spec["containers"][0]["env"]}
        assert "SCHEDCLASS_SCHEDULER_LEASE" not in env, name


def test_the_other_roles_know_by_which_lease_it_is_seen_to_live(chart: Chart) -> None:
    specs = chart.render().pod_specs()
    for role in ("webhook", "controller"):
        env = specs[f"Deployment/rel-schedclass-{role}"]["containers"][0]["env"]
        assert {"name": "SCHEDCLASS_SCHEDULER_LEASE", "value": "cozystack-scheduler"} in env


@pytest.mark.parametrize(
    ("scheduler", "told"),
    [
        ({"extenderPort": 8081}, "not all different"),
        ({"kubeScheduler": {"port": 8888}}, "not all different"),
        ({"kubeScheduler": {"podInitialBackoffSeconds": 9}}, "above podMaxBackoffSeconds"),
        ({"defaultLabelSelectorKeys": ["no spaces"]}, "defaultLabelSelectorKeys"),
        ({"lease": {"name": "Upper"}}, "lease"),
    ],
)
def test_values_that_cannot_work_are_refused(chart: Chart, scheduler: Values, told: str) -> None:
    assert told in chart.refusal({"scheduler": scheduler})


def test_hints_are_given_unless_switched_off(chart: Chart) -> None:
    env = {entry["name"]: entry.get("value") for entry in containers(chart)["extender"]["env"]}
    assert env["SCHEDCLASS_NOMINATION"] == "true"
    assert env["SCHEDCLASS_NOMINATION_LEAST_NODES"] == "100"
    assert env["SCHEDCLASS_NOMINATION_LEAST_CANDIDATES"] == "100"
    off: Values = {"scheduler": {"nomination": {"enabled": False, "leastNodes": 5_000_000}}}
    assert "leastNodes" in chart.refusal(off)
    off["scheduler"]["nomination"]["leastNodes"] = 1_000_000
    env = {entry["name"]: entry.get("value") for entry in containers(chart, off)["extender"]["env"]}
    assert env["SCHEDCLASS_NOMINATION"] == "false"
    assert env["SCHEDCLASS_NOMINATION_LEAST_NODES"] == "1000000"
