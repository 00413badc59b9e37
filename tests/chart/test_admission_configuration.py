"""What the API server sends to the webhook, and what it must never wait for the webhook with."""

import ast
import re
from typing import Any

import pytest

from tests.chart.rendering import Chart, Object

Values = dict[str, Any]

# All that the API server says of a webhook that does not answer is its name.
TENANTS = "namespaces-of-tenants-wait-for-the-operator"
PRESET_NODES = "pods-that-name-their-node-wait-for-the-operator"
AGAIN = "pods-that-got-no-answer"

NOT_EXCLUDED = "not-an-excluded-namespace"


def webhooks(chart: Chart, values: Values | None = None, **render: str) -> dict[str, Object]:
    rendered = chart.render(values, **render)
    configurations = (
        *rendered.all("MutatingWebhookConfiguration"),
        *rendered.all("ValidatingWebhookConfiguration"),
    )
    return {hook["name"].split(".")[0]: hook for c in configurations for hook in c["webhooks"]}


def excluded_names(hook: Object) -> list[str]:
    if "namespaces" in hook["rules"][0]["resources"]:
        # A selector would go by what the author of a namespace without a name yet has written.
        assert "namespaceSelector" not in hook
        listed = re.search(r"request\.name in (\[.*?\])", conditions(hook)[NOT_EXCLUDED])
        assert listed is not None
        return list(ast.literal_eval(listed[1]))
    (expression,) = hook["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    return list(expression["values"])


def conditions(hook: Object) -> dict[str, str]:
    return {c["name"]: c["expression"] for c in hook.get("matchConditions", ())}


@pytest.mark.parametrize("hook", ["pods", AGAIN, "namespaces", TENANTS, PRESET_NODES])
def test_namespaces_the_cluster_lives_on_never_wait_for_the_webhook(
    chart: Chart, hook: str
) -> None:
    names = excluded_names(webhooks(chart, namespace="sched-x")[hook])
    assert set(names) >= {"kube-system", "kube-public", "kube-node-lease", "default", "sched-x"}


@pytest.mark.parametrize("hook", ["pods", AGAIN, "namespaces", TENANTS, PRESET_NODES])
def test_the_floor_of_exclusions_cannot_be_configured_away(chart: Chart, hook: str) -> None:
    names = excluded_names(webhooks(chart, {"excludedNamespaces": []})[hook])
    assert names == ["kube-node-lease", "kube-public", "kube-system", "ops"]


FAIL: Values = {"webhook": {"failurePolicy": "Fail"}}


def test_patterns_of_excluded_namespaces_become_conditions(chart: Chart) -> None:
    patterns = ["kube-*", "a?c", "*-infra", "plain"]
    hooks = webhooks(chart, {"excludedNamespaces": patterns, **FAIL})
    tests = [
        "{}.startsWith('kube-')",
        "{}.matches('^a.c$')",
        "{}.matches('^.*-infra$')",
    ]
    pods = " || ".join(test.format("request.namespace") for test in tests)
    assert conditions(hooks["pods"])[NOT_EXCLUDED] == f"!({pods})"
    # A name that is yet to be generated is absent.
    namespaces = " || ".join(test.format("request.name") for test in tests)
    expression = conditions(hooks["namespaces"])[NOT_EXCLUDED]
    assert expression.startswith("!(has(request.name) && (request.name in [")
    assert expression.endswith(f"] || {namespaces}))")
    for hook in ("pods", "namespaces", TENANTS, PRESET_NODES):
        assert NOT_EXCLUDED in conditions(hooks[hook])
        assert "plain" in excluded_names(hooks[hook])


def test_pods_that_nobody_holds_back_are_not_converted_for_a_condition(chart: Chart) -> None:
    hooks = webhooks(chart, {"excludedNamespaces": ["x-*"]})
    assert hooks["pods"]["failurePolicy"] == "Ignore"
    assert "matchConditions" not in hooks["pods"]
    assert NOT_EXCLUDED in conditions(hooks[PRESET_NODES])


def test_the_processes_exclude_the_same_namespaces(chart: Chart) -> None:
    rendered = chart.render({"excludedNamespaces": ["x-*", "y"]})
    for name, spec in rendered.pod_specs().items():
        env = {e["name"]: e.get("value") for e in spec["containers"][0]["env"]}
        assert env["SCHEDCLASS_EXCLUDED_NAMESPACES"] == (
            "x-*,y,kube-system,kube-public,kube-node-lease"
        ), name


def test_no_pod_is_exempt_by_anything_its_author_writes(chart: Chart) -> None:
    pods = webhooks(chart)["pods"]
    assert "objectSelector" not in pods
    pods = webhooks(chart, FAIL)["pods"]
    assert "objectSelector" not in pods
    assert "object." not in "".join(conditions(pods).values()).replace("request.", "")


def test_pods_are_sent_at_creation_only(chart: Chart) -> None:
    pods = webhooks(chart)["pods"]
    (rule,) = pods["rules"]
    assert rule["operations"] == ["CREATE"]
    assert rule["resources"] == ["pods"]
    assert pods["failurePolicy"] == "Ignore"
    assert pods["timeoutSeconds"] == 3
    assert pods["reinvocationPolicy"] == "IfNeeded"
    assert pods["matchPolicy"] == "Equivalent"
    assert pods["sideEffects"] == "NoneOnDryRun"


def test_the_controllers_own_writes_to_namespaces_are_not_sent(chart: Chart) -> None:
    expression = conditions(webhooks(chart)["namespaces"])["not-the-controller"]
    user = "system:serviceaccount:ops:rel-schedclass-controller"
    assert expression == f"request.userInfo.username != '{user}'"
    specs = chart.render().pod_specs().values()
    users = {
        e["value"]
        for spec in specs
        for e in spec["containers"][0]["env"]
        if e["name"] == "SCHEDCLASS_CONTROLLER_USER"
    }
    assert users == {user}


def test_only_what_would_be_a_way_out_waits_for_an_answer(chart: Chart) -> None:
    hooks = webhooks(chart)
    policies = {name: hook["failurePolicy"] for name, hook in hooks.items()}
    assert policies == {
        "pods": "Ignore",
        AGAIN: "Ignore",
        "namespaces": "Ignore",
        "schedulingclasses": "Ignore",
        TENANTS: "Fail",
        PRESET_NODES: "Fail",
    }
    selector = hooks[PRESET_NODES]["namespaceSelector"]["matchLabels"]
    assert selector == {"scheduler.cozystack.io/enforced": "true"}
    assert {"names-a-node", "not-by-a-node"} <= conditions(hooks[PRESET_NODES]).keys()


def test_each_namespace_goes_to_one_of_the_two_entries(chart: Chart) -> None:
    hooks = webhooks(chart)
    can_wait, cannot = conditions(hooks["namespaces"]), conditions(hooks[TENANTS])
    needed = cannot["needs-an-answer"]
    assert "".join(can_wait["can-do-without-an-answer"].split()) == "".join(f"!({needed})".split())
    for field in ("rules", "clientConfig"):
        assert hooks["namespaces"][field] == hooks[TENANTS][field]


@pytest.mark.parametrize(
    ("values", "hook"),
    [
        ({"tenantNamespaces": {"failurePolicy": "Ignore"}}, TENANTS),
        ({"presetNodes": {"failurePolicy": "Ignore"}}, PRESET_NODES),
    ],
)
def test_nothing_needs_to_wait(chart: Chart, values: Values, hook: str) -> None:
    assert webhooks(chart, {"webhook": values})[hook]["failurePolicy"] == "Ignore"


def test_the_api_server_calls_the_service_of_the_release(chart: Chart) -> None:
    values = {"service": {"port": 8443}}
    for hook, path in (
        ("pods", "/mutate-pods"),
        (PRESET_NODES, "/validate-pods"),
        ("namespaces", "/mutate-namespaces"),
        (TENANTS, "/mutate-namespaces"),
        ("schedulingclasses", "/validate-schedulingclasses"),
    ):
        assert webhooks(chart, values, namespace="sched-x")[hook]["clientConfig"] == {
            "service": {
                "namespace": "sched-x",
                "name": "rel-schedclass-webhook",
                "port": 8443,
                "path": path,
            }
        }


@pytest.mark.parametrize("url", ["https://127.0.0.1:9443", "https://127.0.0.1:9443/"])
def test_a_url_takes_the_place_of_the_service(chart: Chart, url: str) -> None:
    hooks = webhooks(chart, {"webhook": {"url": url}})
    assert {hook["clientConfig"]["url"] for hook in hooks.values()} == {
        "https://127.0.0.1:9443/mutate-pods",
        "https://127.0.0.1:9443/validate-pods",
        "https://127.0.0.1:9443/mutate-namespaces",
        "https://127.0.0.1:9443/validate-schedulingclasses",
    }


def test_no_ca_is_rendered_so_that_an_upgrade_resets_none(chart: Chart) -> None:
    for values in ({}, {"certManager": {"enabled": True}}):
        assert not [h for h in webhooks(chart, values).values() if "caBundle" in h["clientConfig"]]


def test_cert_manager_fills_in_the_ca_of_the_certificate_that_is_served(chart: Chart) -> None:
    rendered = chart.render(
        {"certManager": {"enabled": True}, "certificate": {"hosts": ["10.0.0.1", "a.b"]}}
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = rendered.one(kind, "rel-schedclass")["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == "ops/rel-schedclass-webhook"
    spec = rendered.one("Certificate", "rel-schedclass-webhook")["spec"]
    assert spec["secretName"] == "rel-schedclass-webhook-tls"
    assert spec["dnsNames"][2:] == [
        "rel-schedclass-webhook.ops.svc",
        "rel-schedclass-webhook.ops.svc.cluster.local",
        "a.b",
    ]
    assert spec["ipAddresses"] == ["10.0.0.1"]
    issuer = rendered.one("Issuer", spec["issuerRef"]["name"])
    ca = rendered.one("Certificate", "rel-schedclass-ca")["spec"]
    assert issuer["spec"]["ca"]["secretName"] == ca["secretName"]


def test_an_issuer_of_ones_own_replaces_the_ca_of_the_release(chart: Chart) -> None:
    issuer = {"name": "corp", "kind": "ClusterIssuer"}
    rendered = chart.render({"certManager": {"enabled": True, "issuerRef": issuer}})
    assert not rendered.all("Issuer")
    (certificate,) = rendered.all("Certificate")
    assert certificate["spec"]["issuerRef"] == {**issuer, "group": "cert-manager.io"}


def test_without_the_webhook_nothing_is_sent_and_nothing_serves(chart: Chart) -> None:
    rendered = chart.render({"webhook": {"enabled": False}, "policies": {"enabled": False}})
    kinds = {obj["kind"] for obj in rendered}
    assert not [kind for kind in kinds if "WebhookConfiguration" in kind]
    assert "Service" not in kinds
    assert set(rendered.pod_specs()) == {
        "Deployment/rel-schedclass-controller",
        "Deployment/rel-schedclass-scheduler",
        "Job/rel-schedclass-cleanup",
    }


def test_a_pod_that_got_no_answer_is_asked_about_again_only_where_it_would_be_refused(
    chart: Chart,
) -> None:
    hooks = webhooks(chart)
    # In this order: a later entry sees what an earlier one has made of the pod.
    assert list(hooks)[:2] == ["pods", AGAIN]
    assert hooks[AGAIN]["namespaceSelector"]["matchLabels"] == {
        "scheduler.cozystack.io/enforced": "true"
    }
    assert "not-pinned-yet" in conditions(hooks[AGAIN])
    assert hooks[AGAIN]["clientConfig"] == hooks["pods"]["clientConfig"]
    # Where the first entry is waited for, there is nothing to ask again.
    assert AGAIN not in webhooks(chart, FAIL)
    # Nor where the API server itself pins before.
    assert AGAIN not in webhooks(chart, {"policies": {"mutating": {"enabled": True}}})


def test_more_conditions_narrow_what_is_sent(chart: Chart) -> None:
    condition = {"name": "mine", "expression": "true"}
    expression = {"key": "team", "operator": "Exists"}
    values = {"webhook": {"matchConditions": [condition], "namespaceSelector": [expression]}}
    pods = webhooks(chart, values)["pods"]
    assert condition in pods["matchConditions"]
    assert pods["namespaceSelector"]["matchExpressions"][1:] == [expression]
    assert pods["matchConditions"] == [condition]
    again = webhooks(chart, values)[AGAIN]
    assert condition in again["matchConditions"]
    assert expression in again["namespaceSelector"]["matchExpressions"]
    strict = webhooks(chart, {"webhook": {**values["webhook"], **FAIL["webhook"]}})["pods"]
    assert [c["name"] for c in strict["matchConditions"]] == [NOT_EXCLUDED, "mine"]
