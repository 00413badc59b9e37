"""The chart on a real API server, with nobody behind the webhook: what holds all the same."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import Api, ApiError, Cluster, eventually
from controlplane.helm import Release
from controlplane.paths import CHART
from tests.cluster.chart.conftest import CLASSES, NAMESPACE

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/rel-schedclass"
POLICY = f"{ADMISSION}/validatingadmissionpolicies/rel-schedclass-class-deletion"
IN_USE = "scheduler.cozystack.io/in-use"
CLASS = {"apiVersion": "cozystack.io/v1alpha1", "kind": "SchedulingClass", "spec": {}}
POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods?dryRun=All"


def create_class(admin: Api, name: str, *, in_use: bool, **metadata: Any) -> str:
    labels = {IN_USE: "true"} if in_use else {}
    admin.create(CLASSES, {**CLASS, "metadata": {"name": name, "labels": labels, **metadata}})
    return f"{CLASSES}/{name}"


def delete_when_policy_holds(admin: Api, path: str) -> ApiError:
    """The refusal of a DELETE. A new policy takes a moment to be enforced (KEP-3488)."""
    refused: list[ApiError] = []

    def is_refused() -> bool:
        try:
            admin.delete(f"{path}?dryRun=All")
        except ApiError as error:
            refused.append(error)
        return bool(refused)

    eventually("the deletion is refused", is_refused)
    return refused[0]


# --- deletion of a class in use ---------------------------------------------------------------


def test_a_class_in_use_is_not_deleted_and_the_answer_says_where_it_is_used(
    installed: Cluster,
) -> None:
    path = create_class(installed.admin, "used", in_use=True)
    installed.admin.merge_patch(f"{path}/status", {"status": {"boundNamespaces": 2}})
    refused = delete_when_policy_holds(installed.admin, path)
    assert refused.status == 403
    assert (
        'SchedulingClass "used" is in use by 2 namespaces; take it off them first. They are listed '
        "by: kubectl get namespaces -l scheduler.cozystack.io/scheduling-class=used"
    ) in str(refused)


def test_one_namespace_and_an_unknown_number_read_well(installed: Cluster) -> None:
    path = create_class(installed.admin, "used", in_use=True)
    assert "is in use by namespaces;" in str(delete_when_policy_holds(installed.admin, path))
    installed.admin.merge_patch(f"{path}/status", {"status": {"boundNamespaces": 1}})
    assert "is in use by 1 namespace;" in str(delete_when_policy_holds(installed.admin, path))


def test_deleting_all_classes_spares_those_in_use(installed: Cluster) -> None:
    used = create_class(installed.admin, "used", in_use=True)
    delete_when_policy_holds(installed.admin, used)
    unused = create_class(installed.admin, "unused", in_use=False)
    done = installed.kubectl.attempt("delete", "sclass", "--all", "--timeout=20s")
    assert "is in use by" in done.stderr
    assert installed.admin.find(unused) is None
    assert installed.admin.find(used) is not None
    with pytest.raises(ApiError, match="is in use by"):
        installed.admin.delete(CLASSES)
    assert installed.admin.find(used) is not None


def test_a_class_in_use_can_be_changed(installed: Cluster) -> None:
    path = create_class(installed.admin, "used", in_use=True)
    delete_when_policy_holds(installed.admin, path)
    changed = installed.admin.merge_patch(path, {"spec": {"nodeSelector": {"a": "b"}}})
    assert changed["metadata"]["generation"] == 2


def test_a_class_already_being_deleted_may_be_deleted_again_and_finished(
    installed: Cluster,
) -> None:
    admin = installed.admin
    delete_when_policy_holds(admin, create_class(admin, "used", in_use=True))
    path = create_class(admin, "leaving", in_use=False, finalizers=[IN_USE])
    admin.delete(path)
    admin.merge_patch(path, {"metadata": {"labels": {IN_USE: "true"}}})
    admin.delete(path)
    admin.merge_patch(path, {"metadata": {"finalizers": None}})
    assert admin.find(path) is None


def test_the_api_server_finds_nothing_wrong_with_the_policies_expressions(
    installed: Cluster,
) -> None:
    def checked() -> list[Any]:
        path = f"{ADMISSION}/validatingadmissionpolicies"
        policies: list[Any] = installed.admin.get(path)["items"]
        for policy in policies:
            observed = policy.get("status", {}).get("observedGeneration")
            assert (policy["metadata"]["name"], observed) == (
                policy["metadata"]["name"],
                policy["metadata"]["generation"],
            )
        return policies

    policies = eventually("the policies are type-checked", checked)
    assert len(policies) == 5
    for policy in policies:
        assert "expressionWarnings" not in policy["status"].get("typeChecking", {})


# --- what never waits for the webhook ---------------------------------------------------------


@pytest.fixture
def failing(installed: Cluster, release: Release, values: dict[str, Any]) -> Iterator[Cluster]:
    """Fail-closed and nobody answers: what the rules match, nobody can create."""
    closed = {
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "namespaces": {"failurePolicy": "Fail"},
        "classes": {"failurePolicy": "Fail"},
    }
    admin = installed.admin
    release.install({**values, "webhook": {**values["webhook"], **closed}})

    def holds() -> bool:
        try:
            admin.create(pods("tenant-a"), POD)
        except ApiError as error:
            return "failed calling webhook" in str(error)
        return False

    eventually("the webhook is called", holds)
    yield installed
    release.install(values)
    eventually("the webhook is ignored", lambda: not holds())


def test_an_outage_never_holds_back_what_the_cluster_lives_on(failing: Cluster) -> None:
    admin = failing.admin
    label = {"metadata": {"labels": {"scheduler.cozystack.io/scheduling-class": "x"}}}
    for namespace in ("kube-system", "kube-public", "default", "cozy-cilium", NAMESPACE):
        admin.create(pods(namespace), POD)
        admin.merge_patch(f"/api/v1/namespaces/{namespace}?dryRun=All", label)
    for name in ("kube-other", "cozy-other"):
        admin.create("/api/v1/namespaces?dryRun=All", {"metadata": {"name": name}})


def test_tenants_namespaces_and_classes_are_what_the_rules_match(failing: Cluster) -> None:
    admin = failing.admin
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("/api/v1/namespaces?dryRun=All", {"metadata": {"name": "tenant-b"}}),
        ("/api/v1/namespaces?dryRun=All", {"metadata": {"generateName": "kube-"}}),
        (f"{CLASSES}?dryRun=All", {**CLASS, "metadata": {"name": "x"}}),
    ]
    for path, body in attempts:
        with pytest.raises(ApiError, match="failed calling webhook"):
            admin.create(path, body)


def test_no_label_of_a_pod_or_a_namespace_escapes_the_rules(failing: Cluster) -> None:
    forged = {"kubernetes.io/metadata.name": "kube-system", "control-plane": "true"}
    path = "/api/v1/namespaces/tenant-a"
    with pytest.raises(ApiError, match="failed calling webhook"):
        failing.admin.merge_patch(path, {"metadata": {"labels": forged}})
    with pytest.raises(ApiError, match="failed calling webhook"):
        failing.admin.create(pods("tenant-a"), {**POD, "metadata": {"name": "p", "labels": forged}})


def test_the_controllers_own_writes_never_wait_for_the_webhook(failing: Cluster) -> None:
    controller = failing.identities.service_account_kubeconfig(
        NAMESPACE, "rel-schedclass-controller"
    )
    failing.kubectl.as_user(controller)(
        "label", "namespace", "tenant-a", "scheduler.cozystack.io/enforced=true", "--overwrite"
    )
    found = failing.admin.get("/api/v1/namespaces/tenant-a")
    assert found["metadata"]["labels"]["scheduler.cozystack.io/enforced"] == "true"


# --- certificates and releases ----------------------------------------------------------------


def bundles(admin: Api) -> list[str]:
    return [w["clientConfig"].get("caBundle", "") for w in admin.get(MUTATING)["webhooks"]]


def test_an_upgrade_keeps_the_published_ca(
    installed: Cluster, release: Release, values: dict[str, Any]
) -> None:
    encoded = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    operations = [
        {"op": "add", "path": f"/webhooks/{n}/clientConfig/caBundle", "value": encoded}
        for n, _ in enumerate(bundles(installed.admin))
    ]
    kind = {"Content-Type": "application/json-patch+json"}
    installed.admin.request("PATCH", MUTATING, operations, headers=kind)
    release.install({**values, "webhook": {**values["webhook"], "timeoutSeconds": 2}})
    assert installed.admin.get(MUTATING)["webhooks"][0]["timeoutSeconds"] == 2
    assert set(bundles(installed.admin)) == {encoded}


def test_a_second_release_leaves_the_first_alone(
    installed: Cluster, values: dict[str, Any]
) -> None:
    before = installed.admin.get(MUTATING)["webhooks"]
    second = Release(installed, CHART, "other", "sched-y")
    second.install({**values, "crds": {"enabled": False}})
    assert installed.admin.get(MUTATING)["webhooks"] == before
    second.uninstall()
    assert installed.admin.get(MUTATING)["webhooks"] == before
    assert installed.admin.find(POLICY) is not None


def test_removing_the_chart_frees_everything_and_keeps_the_classes(
    installed: Cluster, release: Release, values: dict[str, Any]
) -> None:
    path = create_class(installed.admin, "used", in_use=True)
    delete_when_policy_holds(installed.admin, path)
    release.uninstall()
    assert installed.admin.find(MUTATING) is None
    assert installed.admin.find(POLICY) is None
    assert installed.admin.find(path) is not None

    def deletable() -> bool:
        try:
            installed.admin.delete(f"{path}?dryRun=All")
        except ApiError:
            return False
        return True

    eventually("the class can be deleted", deletable)
    release.install(values)  # takes the kept CRD over again
    assert installed.admin.find(path) is not None


# --- rights -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "question", "answer"),
    [
        ("webhook", "list namespaces", "yes"),
        ("webhook", "watch nodes", "yes"),
        ("webhook", "patch namespaces", "no"),
        ("webhook", "watch secret/rel-schedclass-webhook-tls -n sched-x", "yes"),
        ("webhook", "get secret/rel-schedclass-webhook-ca -n sched-x", "no"),
        ("webhook", "list secrets -n sched-x", "no"),
        ("webhook", "create events -n tenant-z", "yes"),
        ("webhook", "get pods -A", "no"),
        ("controller", "patch namespaces", "yes"),
        ("controller", "delete namespaces", "no"),
        ("controller", "patch schedulingclasses --subresource=status", "yes"),
        ("controller", "delete schedulingclasses", "no"),
        ("controller", "get secret/rel-schedclass-webhook-ca -n sched-x", "yes"),
        ("controller", "get secret/anything-else -n sched-x", "no"),
        ("controller", "get secret/rel-schedclass-webhook-ca -n kube-system", "no"),
        ("controller", "update lease/rel-schedclass-controller -n sched-x", "yes"),
        ("controller", "update lease/kube-scheduler -n kube-system", "no"),
        ("controller", "patch mutatingwebhookconfiguration/rel-schedclass", "yes"),
        ("controller", "patch mutatingwebhookconfiguration/other", "no"),
        ("controller", "create pods -n tenant-z", "no"),
    ],
)
def test_a_role_may_do_its_work_and_no_more(
    installed: Cluster, role: str, question: str, answer: str
) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:rel-schedclass-{role}"
    groups = f"--as-group=system:serviceaccounts:{NAMESPACE}"
    done = installed.kubectl.attempt(
        "auth", "can-i", *question.split(), f"--as={account}", groups, "--quiet"
    )
    assert ("no" if done.returncode else "yes") == answer, done.stderr


# --- pods -------------------------------------------------------------------------------------


def test_the_pods_are_admitted_where_pod_security_is_restricted(
    installed: Cluster, release: Release, values: dict[str, Any]
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    name = installed.create_namespace(labels=labels)
    objects = release.render(
        {**values, "deployments": {"enabled": True}, "cleanup": {"enabled": True}}
    )
    templates = [o["spec"]["template"] for o in objects if o["kind"] in {"Deployment", "Job"}]
    assert len(templates) == 4
    for template in templates:
        spec = {**template["spec"], "serviceAccountName": "default"}
        installed.admin.create(pods(name), {"metadata": {"name": "p"}, "spec": spec})


def test_every_object_passes_strict_decoding(
    installed: Cluster, release: Release, values: dict[str, Any]
) -> None:
    extra = {
        "deployments": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "cleanup": {"enabled": True},
    }
    objects = release.render({**values, **extra})
    installed.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "--force-conflicts",
        f"--namespace={NAMESPACE}",
        "-f",
        "-",
        input=objects,
    )
