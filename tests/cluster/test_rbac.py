"""The rights of each role: what it needs and nothing else, as the API server sees them."""

import pytest

from controlplane import Api, ApiError, Installation
from controlplane.installation import NAMESPACE, RELEASE
from schedclass.domain import names
from tests.cluster.objects import NODES, Json
from tests.cluster.refusals import refused_requests, refused_to
from tests.cluster.tenants import Tenants

REVIEWS = "/apis/authorization.k8s.io/v1"
CLASSES = f"{names.PLURAL}.{names.GROUP}"

ALLOWED = {
    "webhook": [
        ("list", "namespaces", ""),
        ("watch", "nodes", ""),
        ("get", CLASSES, ""),
        ("create", "events", ""),
        ("watch", "secrets", f"{RELEASE}-webhook-tls"),
    ],
    "controller": [
        ("patch", "namespaces", "tenant-x"),
        ("list", "nodes", ""),
        ("patch", CLASSES, "x"),
        ("patch", f"{CLASSES}/status", "x"),
        ("create", "events", ""),
        ("update", "leases.coordination.k8s.io", f"{RELEASE}-controller"),
        ("patch", "secrets", f"{RELEASE}-webhook-ca"),
        ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", RELEASE),
    ],
}
FORBIDDEN = {
    "webhook": [
        ("patch", "namespaces", "tenant-x"),
        ("patch", CLASSES, "x"),
        ("get", "secrets", f"{RELEASE}-webhook-ca"),
        ("get", "secrets", "other"),
        ("list", "secrets", ""),
        ("create", "secrets", ""),
        ("list", "pods", ""),
        ("get", "configmaps", "x"),
        ("update", "leases.coordination.k8s.io", f"{RELEASE}-controller"),
    ],
    "controller": [
        ("create", "namespaces", ""),
        ("delete", "namespaces", "tenant-x"),
        ("delete", CLASSES, "x"),
        ("create", CLASSES, ""),
        ("patch", "nodes", "node-1"),
        ("get", "secrets", "other"),
        ("list", "secrets", ""),
        ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "other"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", ""),
        ("impersonate", "users", "admin"),
        ("create", "serviceaccounts/token", "default"),
    ],
}
ESCALATING = {"*", "impersonate", "escalate", "bind"}


def rights(operator: Installation, role: str) -> Api:
    return operator.cluster.identities.service_account_api(NAMESPACE, f"{RELEASE}-{role}")


def may(account: Api, verb: str, resource: str, name: str, namespace: str) -> bool:
    """As `kubectl auth can-i VERB RESOURCE/NAME -n NAMESPACE`."""
    resource, _, subresource = resource.partition("/")
    plural, _, group = resource.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    attributes |= {"name": name, "namespace": namespace}
    body = {"spec": {"resourceAttributes": attributes}}
    answer = account.create(f"{REVIEWS}/selfsubjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def rules(account: Api, namespace: str) -> list[Json]:
    body = {"spec": {"namespace": namespace}}
    status = account.create(f"{REVIEWS}/selfsubjectrulesreviews", body)["status"]
    assert not status["incomplete"] or status.get("evaluationError")
    found: list[Json] = status["resourceRules"]
    return found


@pytest.mark.parametrize("role", ["webhook", "controller"])
def test_each_role_may_do_what_it_needs(operator: Installation, role: str) -> None:
    account = rights(operator, role)
    refused = [right for right in ALLOWED[role] if not may(account, *right, NAMESPACE)]
    assert refused == []


@pytest.mark.parametrize("role", ["webhook", "controller"])
def test_no_role_may_do_more(operator: Installation, tenants: Tenants, role: str) -> None:
    account = rights(operator, role)
    for namespace in (NAMESPACE, tenants.create()):
        allowed = [right for right in FORBIDDEN[role] if may(account, *right, namespace)]
        assert allowed == [], namespace


@pytest.mark.parametrize("role", ["webhook", "controller"])
def test_no_right_is_a_wildcard_and_none_reaches_secrets_elsewhere(
    operator: Installation, tenants: Tenants, role: str
) -> None:
    account = rights(operator, role)
    foreign = tenants.create()
    for namespace in (NAMESPACE, foreign):
        for rule in rules(account, namespace):
            assert ESCALATING.isdisjoint(rule["verbs"]), rule
            assert "*" not in rule.get("resources", []), rule
            assert "*" not in rule.get("apiGroups", []), rule
            if "secrets" in rule["resources"]:
                assert namespace == NAMESPACE
                assert rule.get("resourceNames") or rule["verbs"] == ["create"]


def test_the_operator_was_refused_nothing_so_far(operator: Installation) -> None:
    assert refused_requests(operator) == []
    # It would show: this one is refused to somebody else.
    stranger = operator.cluster.identities.api("stranger")
    with pytest.raises(ApiError):
        stranger.get(NODES)
    assert refused_to(operator.cluster, "stranger", of_tests=True) == [("list", NODES)]
