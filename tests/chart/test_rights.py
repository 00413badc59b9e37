"""Each role may do what it must, by name where a name can limit it, and nothing else."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.chart.rendering import Chart, Object, Rendered

Values = dict[str, Any]

VARIANTS: list[Values] = [
    {},
    {"certManager": {"enabled": True}},
    {"webhook": {"enabled": False}, "policies": {"enabled": False}},
    {"rbac": {"readableByAuthenticated": False, "aggregateClusterRoles": False}},
]


def rules(rendered: Rendered) -> Iterator[tuple[str, Object]]:
    for obj in (*rendered.all("ClusterRole"), *rendered.all("Role")):
        for rule in obj["rules"]:
            yield f"{obj['kind']}/{obj['metadata']['name']}", rule


def grants(rendered: Rendered, role: str) -> set[tuple[str, str, str, str]]:
    """(kind of role, resource, verb, name or "") of everything a role may do."""
    found = set()
    for kind in ("ClusterRole", "Role"):
        for rule in rendered.one(kind, f"rel-schedclass-{role}")["rules"]:
            names = rule.get("resourceNames", [""])
            found |= set(product([kind], rule["resources"], rule["verbs"], names))
    return found


@pytest.mark.parametrize("values", VARIANTS)
def test_no_rule_has_a_wildcard(chart: Chart, values: Values) -> None:
    for role, rule in rules(chart.render(values)):
        assert set(rule) <= {"apiGroups", "resources", "verbs", "resourceNames"}, role
        for part in rule.values():
            assert part, role
            assert not [word for word in part if "*" in word], role


@pytest.mark.parametrize("values", VARIANTS)
def test_secrets_are_reached_by_name_in_the_own_namespace_only(
    chart: Chart, values: Values
) -> None:
    for role, rule in rules(chart.render(values)):
        if "secrets" not in rule["resources"]:
            continue
        assert role.startswith("Role/"), "no Secret right reaches beyond the own namespace"
        if rule["verbs"] != ["create"]:
            assert set(rule["resourceNames"]) <= {
                "rel-schedclass-webhook-tls",
                "rel-schedclass-webhook-ca",
            }


@pytest.mark.parametrize("values", VARIANTS)
def test_nobody_may_widen_rights_or_reach_into_pods(chart: Chart, values: Values) -> None:
    forbidden = {"pods/exec", "serviceaccounts/token", "users", "groups", "bindings"}
    for role, rule in rules(chart.render(values)):
        if "pods" in rule["resources"]:
            assert (role, rule["verbs"]) == (
                "ClusterRole/rel-schedclass-controller",
                ["list", "watch"],
            )
        assert not forbidden & set(rule["resources"]), role
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"], role
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_webhook_writes_nothing_but_events(chart: Chart) -> None:
    written = {
        (resource, verb)
        for _, resource, verb, _ in grants(chart.render(), "webhook")
        if verb not in {"get", "list", "watch"}
    }
    assert written == {("events", "create"), ("events", "patch")}


def test_the_webhook_cannot_read_the_key_of_the_ca(chart: Chart) -> None:
    names = {n for _, resource, _, n in grants(chart.render(), "webhook") if resource == "secrets"}
    assert names == {"rel-schedclass-webhook-tls"}


def test_the_controller_writes_only_what_it_keeps(chart: Chart) -> None:
    written = {
        grant
        for grant in grants(chart.render(), "controller")
        if grant[2] not in {"get", "list", "watch"}
    }
    name = "rel-schedclass"
    assert written == {
        ("ClusterRole", "namespaces", "patch", ""),
        ("ClusterRole", "schedulingclasses", "patch", ""),
        ("ClusterRole", "schedulingclasses/status", "patch", ""),
        ("ClusterRole", "events", "create", ""),
        ("ClusterRole", "events", "patch", ""),
        ("ClusterRole", "mutatingwebhookconfigurations", "patch", name),
        ("ClusterRole", "validatingwebhookconfigurations", "patch", name),
        ("Role", "leases", "create", ""),
        ("Role", "leases", "update", f"{name}-controller"),
        ("Role", "secrets", "create", ""),
        ("Role", "secrets", "patch", f"{name}-webhook-tls"),
        ("Role", "secrets", "patch", f"{name}-webhook-ca"),
    }


def test_with_cert_manager_the_controller_writes_no_secret_and_no_configuration(
    chart: Chart,
) -> None:
    written = {
        resource
        for _, resource, verb, _ in grants(
            chart.render({"certManager": {"enabled": True}}), "controller"
        )
        if verb not in {"get", "list", "watch"}
    }
    assert "secrets" not in written
    assert not [resource for resource in written if "webhook" in resource]


def test_every_binding_binds_an_existing_role_to_an_existing_account(chart: Chart) -> None:
    rendered = chart.render()
    accounts = {a["metadata"]["name"] for a in rendered.all("ServiceAccount")}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in rendered.all(kind):
            reference = binding["roleRef"]
            if not reference["name"].startswith("system:"):  # the cluster's own
                assert rendered.one(reference["kind"], reference["name"])
            for subject in binding["subjects"]:
                if subject["kind"] == "ServiceAccount":
                    assert subject["name"] in accounts
                    assert subject["namespace"] == "ops"


def test_every_workload_runs_as_the_account_of_its_own_role(chart: Chart) -> None:
    accounts = {
        name: spec["serviceAccountName"] for name, spec in chart.render().pod_specs().items()
    }
    assert accounts == {
        "Deployment/rel-schedclass-webhook": "rel-schedclass-webhook",
        "Deployment/rel-schedclass-controller": "rel-schedclass-controller",
        "Deployment/rel-schedclass-scheduler": "rel-schedclass-scheduler",
        "Job/rel-schedclass-cleanup": "rel-schedclass-cleanup",
    }


def test_every_user_can_read_classes_and_change_none(chart: Chart) -> None:
    rendered = chart.render()
    binding = rendered.one("ClusterRoleBinding", "rel-schedclass-authenticated")
    assert [s["name"] for s in binding["subjects"]] == ["system:authenticated"]
    role = rendered.one("ClusterRole", binding["roleRef"]["name"])
    assert [rule["verbs"] for rule in role["rules"]] == [["get", "list", "watch"]]


def test_reading_by_every_user_can_be_switched_off(chart: Chart) -> None:
    rendered = chart.render({"rbac": {"readableByAuthenticated": False}})
    assert "system:authenticated" not in rendered.text


def test_tenants_roles_only_ever_gain_reading(chart: Chart) -> None:
    for role in chart.render().all("ClusterRole"):
        labels = role["metadata"]["labels"]
        gaining = [key for key in labels if "aggregate-to-" in key and not key.endswith("-admin")]
        if gaining:
            verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
            assert verbs <= {"get", "list", "watch"}, gaining


def test_existing_accounts_can_be_used(chart: Chart) -> None:
    rendered = chart.render({"serviceAccount": {"create": False, "name": "ours"}})
    assert {a["metadata"]["name"] for a in rendered.all("ServiceAccount")} == {
        "rel-schedclass-cleanup"
    }
    for role in ("webhook", "controller", "scheduler"):
        spec = rendered.pod_specs()[f"Deployment/rel-schedclass-{role}"]
        assert spec["serviceAccountName"] == f"ours-{role}"
    assert "system:serviceaccount:ops:ours-controller" in rendered.text
    assert "system:serviceaccount:ops:rel-schedclass-controller" not in rendered.text
