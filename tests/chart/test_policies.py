"""The policies of the API server: where they apply, to whom they do not, and what they do."""

import re
from typing import Any

import pytest

from schedclass.domain.findings import Reason
from tests.chart.rendering import Chart, Object

Values = dict[str, Any]

ENFORCED = {"scheduler.cozystack.io/enforced": "true"}
ON_PODS = ("pods", "annotations", "bindings")
ALL = (*ON_PODS, "namespaces")
CONTROLLER = "system:serviceaccount:ops:rel-schedclass-controller"
SCHEDULER = "system:serviceaccount:ops:rel-schedclass-scheduler"
DAEMON_SETS = "system:serviceaccount:kube-system:daemon-set-controller"


def policy(chart: Chart, name: str, values: Values | None = None, **release: str) -> Object:
    rendered = chart.render(values, **release)
    return dict(rendered.one("ValidatingAdmissionPolicy", f"rel-schedclass-{name}")["spec"])


def mutation(chart: Chart, values: Values | None = None) -> Object:
    merged = {**(values or {}), "policies": {"mutating": {"enabled": True}}}
    return dict(chart.render(merged).one("MutatingAdmissionPolicy", "rel-schedclass-pods")["spec"])


def exemption(spec: Object, *called: str) -> str:
    """Whom a policy spares, be it by a condition or by a variable of its validations."""
    parts = (*spec.get("matchConditions", ()), *spec.get("variables", ()))
    (found,) = (part["expression"] for part in parts if part["name"] in called)
    return str(found)


def allowed(spec: Object) -> set[str]:
    """Every user and group that a policy spares."""
    identities = exemption(spec, "not-an-allowed-identity", "allowedIdentity")
    return set(re.findall(r'"([^"]+)"', identities))


@pytest.mark.parametrize("name", ON_PODS)
def test_only_pods_of_namespaces_whose_class_is_in_force_are_looked_at(
    chart: Chart, name: str
) -> None:
    selector = policy(chart, name, namespace="ops")["matchConstraints"]["namespaceSelector"]
    assert selector["matchLabels"] == ENFORCED
    assert selector == mutation(chart)["matchConstraints"]["namespaceSelector"]


@pytest.mark.parametrize("name", ALL)
def test_excluded_namespaces_are_never_looked_at_whatever_they_carry(
    chart: Chart, name: str
) -> None:
    spec = policy(chart, name, {"excludedNamespaces": ["infra", "x-*"]})
    condition = exemption(spec, "not-an-excluded-namespace", "excludedNamespace")
    assert "startsWith('x-')" in condition
    if name == "namespaces":  # see below
        assert "['infra', 'kube-node-lease', 'kube-public', 'kube-system', 'ops']" in condition
        return
    (names,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (names["key"], names["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert set(names["values"]) >= {"infra", "ops", "kube-system"}


def test_no_namespace_is_spared_for_a_label_that_its_author_wrote(chart: Chart) -> None:
    rendered = chart.render()
    spec = policy(chart, "namespaces")
    # On a namespace without a name yet, kubernetes.io/metadata.name is what its author wrote.
    assert "namespaceSelector" not in spec["matchConstraints"]
    condition = exemption(spec, "not-an-excluded-namespace")
    assert "request.name" in condition
    webhooks = rendered.one("MutatingWebhookConfiguration", "rel-schedclass")["webhooks"]
    on_namespaces = [w for w in webhooks if w["name"].startswith("namespaces")]
    assert len(on_namespaces) == 2
    for webhook in on_namespaces:
        assert exemption(webhook, "not-an-excluded-namespace") == condition


def test_both_ways_to_bind_a_pod_are_covered(chart: Chart) -> None:
    (rule,) = policy(chart, "bindings")["matchConstraints"]["resourceRules"]
    assert set(rule["resources"]) == {"pods/binding", "bindings"}


def test_every_way_to_write_metadata_is_covered(chart: Chart) -> None:
    (pods,) = policy(chart, "annotations")["matchConstraints"]["resourceRules"]
    subresources = ("status", "ephemeralcontainers", "resize")
    assert set(pods["resources"]) == {"pods", *(f"pods/{name}" for name in subresources)}
    rules = policy(chart, "namespaces")["matchConstraints"]["resourceRules"]
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "namespaces",
        "namespaces/status",
        "namespaces/finalize",
    }


def test_nobody_is_spared_but_whose_task_it_is(chart: Chart) -> None:
    assert {name: allowed(policy(chart, name)) for name in ALL} == {
        "pods": set(),
        "annotations": set(),
        "bindings": {SCHEDULER},
        "namespaces": {CONTROLLER, "system:masters"},
    }


@pytest.mark.parametrize("name", ALL)
def test_more_identities_can_be_spared(chart: Chart, name: str) -> None:
    before = allowed(policy(chart, name))
    lists = {"allowedUsers": ["jane's"], "allowedGroups": ["a", "b"]}
    found = allowed(policy(chart, name, {"policies": {name: lists}}))
    assert found == (before - {"system:masters"}) | {"jane's", "a", "b"}


def test_who_may_leave_pods_unpinned_is_spared_by_the_mutation_too(chart: Chart) -> None:
    lists = {"policies": {"pods": {"allowedUsers": ["jane"]}, "mutating": {"enabled": True}}}
    rendered = chart.render(lists)
    for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        assert allowed(rendered.one(kind, "rel-schedclass-pods")["spec"]) == {"jane"}


def test_exempt_daemon_sets_may_go_their_own_way_to_a_node(chart: Chart) -> None:
    exempt = {"exemptDaemonSets": True}
    assert allowed(policy(chart, "pods", exempt)) == {DAEMON_SETS}
    assert allowed(mutation(chart, exempt)) == {DAEMON_SETS}
    assert allowed(policy(chart, "bindings", exempt)) == {SCHEDULER, "system:kube-scheduler"}


def test_every_policy_refuses_by_default(chart: Chart) -> None:
    bindings = chart.render().all("ValidatingAdmissionPolicyBinding")
    assert {b["spec"]["policyName"].removeprefix("rel-schedclass-") for b in bindings} == {
        *ALL,
        "class-deletion",
    }
    for binding in bindings:
        assert binding["spec"]["validationActions"] == ["Deny", "Audit"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, {"policies": {name: {"action": "Warn"}}}) for name in ALL),
        ("class-deletion", {"classDeletion": {"action": "Warn"}}),
    ],
    ids=str,
)
def test_each_can_be_made_to_warn_only(chart: Chart, name: str, values: Values) -> None:
    for binding in chart.render(values).all("ValidatingAdmissionPolicyBinding"):
        warns = binding["metadata"]["name"] == f"rel-schedclass-{name}"
        actions = ["Warn", "Audit"] if warns else ["Deny", "Audit"]
        assert binding["spec"]["validationActions"] == actions


def test_every_refusal_is_one_line_that_fits(chart: Chart) -> None:
    for found in chart.render().all("ValidatingAdmissionPolicy"):
        for validation in found["spec"]["validations"]:
            assert validation["reason"] == "Forbidden"
            for text in (validation["message"], validation.get("messageExpression", "")):
                assert "\n" not in text
                assert len(text) < 500


def test_every_refusal_begins_with_a_word_of_the_one_vocabulary(chart: Chart) -> None:
    strict = {"policies": {"pods": {"requireNamespaceClass": True}}}
    known = {reason.value for reason in Reason}
    words = set()
    for found in chart.render(strict).all("ValidatingAdmissionPolicy"):
        for validation in found["spec"]["validations"]:
            word, separator, _ = validation["message"].partition(": ")
            assert separator
            assert word in known
            expression = validation.get("messageExpression")
            assert expression is None or expression.startswith(f"'{word}: ")
            words.add(word)
    assert len(words) > 3


def test_the_annotation_need_not_be_the_label_unless_told_so(chart: Chart) -> None:
    assert len(policy(chart, "pods")["validations"]) == 1
    strict = {"policies": {"pods": {"requireNamespaceClass": True}}}
    assert len(policy(chart, "pods", strict)["validations"]) == 2


def test_policies_can_be_left_out_and_the_mutation_is_by_default(chart: Chart) -> None:
    assert not chart.render().all("MutatingAdmissionPolicy")
    without = chart.render({"policies": {"enabled": False}})
    (left,) = without.all("ValidatingAdmissionPolicy")
    assert left["metadata"]["name"] == "rel-schedclass-class-deletion"


def test_the_mutation_never_stands_in_the_way(chart: Chart) -> None:
    spec = mutation(chart)
    assert spec["failurePolicy"] == "Ignore"
    assert spec["reinvocationPolicy"] == "IfNeeded"
    # There it is not known, and an error would skip the policy.
    assert not [c for c in spec["matchConditions"] if "namespaceObject" in c["expression"]]


@pytest.mark.parametrize("version", ["v1.30.0", "v1.35.2", "v1.35.9-eks-ab1", "v1.35.4+k3s1"])
def test_the_mutation_is_refused_by_a_sentence_where_the_cluster_has_none(
    chart: Chart, version: str
) -> None:
    told = chart.refusal({"policies": {"mutating": {"enabled": True}}}, kubernetes=version)
    plain = re.split(r"[-+]", version)[0]
    assert f"policies.mutating.enabled is true, but Kubernetes {plain}" in told
    assert not chart.render(kubernetes=version).all("MutatingAdmissionPolicy")


@pytest.mark.parametrize("version", ["v1.36.0", "v1.36.3-gke.1", "v1.36.1+k3s1", "v1.40.2-eks-ab1"])
def test_the_mutation_is_installed_whatever_a_vendor_calls_the_version(
    chart: Chart, version: str
) -> None:
    on = {"policies": {"mutating": {"enabled": True}}}
    assert chart.render(on, kubernetes=version).all("MutatingAdmissionPolicy")


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"pods": {"action": "Deny,Audit"}}, "policies/pods/action"),
        ({"bindings": {"allowedUser": []}}, "allowedUser"),
        ({"namespaces": {"allowedUsers": "flux"}}, "policies/namespaces/allowedUsers"),
        ({"mutating": {"enabled": "auto"}}, "policies/mutating/enabled"),
    ],
    ids=str,
)
def test_a_mistyped_value_is_named(chart: Chart, values: Values, path: str) -> None:
    assert path in chart.refusal({"policies": values}).replace(".", "/")
