"""A tenant with every right inside its namespace, and on it, cannot leave its class.

Everything is tried twice: while our replicas answer, and while all of them are down, so that only
what acts in the API server itself is left.
"""

import re
from collections.abc import Iterator

import pytest

from controlplane import ApiError, Cluster, Installation, eventually
from controlplane.installation import SERVICE
from schedclass.domain import names
from tests.cluster.attempts import (
    ADMITTED_PODS,
    FOREIGN_NAMESPACES,
    NEW_NAMESPACES,
    NEW_PODS,
    OWN_NAMESPACE,
    WAIT,
)
from tests.cluster.hostile import EAST, WEST, Attempt, HostileTenant, Outcome, ids, outcome_of
from tests.cluster.objects import (
    CONTAINERS,
    Json,
    annotations,
    labels,
    namespace_path,
    pinned_to,
    pod,
    pods_path,
    workload,
)
from tests.cluster.tenants import unique

ANSWERED, ALONE = "answered", "alone"
SIZED: list[Json] = [{**CONTAINERS[0], "resources": {"requests": {"cpu": "100m"}}}]
RUNNING = ("debugged", "evicted", "deleted", "changed", "finalized")


@pytest.fixture(scope="module", params=[ANSWERED, ALONE])
def mode(
    request: pytest.FixtureRequest, session_cluster: Cluster, session_operator: Installation
) -> str:
    """Whether our replicas answer; all of them are killed for the second half of the module."""
    session_cluster.heal()
    session_operator.heal()
    return str(request.param)


@pytest.fixture(scope="module")
def tenant(mode: str, session_operator: Installation) -> Iterator[HostileTenant]:
    """The tenant, with a pod that waits for a scheduler and pods that run."""
    made = HostileTenant(session_operator)
    made.create_pod(pod("waiting", containers=SIZED, nodeSelector={"no": "such-node"}))
    for name in RUNNING:
        made.create_pod(pod(name))
    for name in RUNNING:
        made.wait_running(name)
    if mode == ALONE:
        for name in (*session_operator.replicas, SERVICE):
            session_operator.process(name).kill()
    yield made
    # What it wrote during the outage is put right once we are back.
    session_operator.heal()
    made.tenants.settle({made.namespace: WEST})
    made.clean_up()


while_answered = pytest.mark.parametrize("mode", [ANSWERED], indirect=True, scope="module")


def check(attempt: Attempt, mode: str, tenant: HostileTenant) -> None:
    outcome, refusal = outcome_of(attempt, tenant)
    assert outcome is (attempt.answered if mode == ANSWERED else attempt.alone), refusal
    if outcome is Outcome.REFUSED:
        assert re.search(attempt.says, refusal), refusal
    assert tenant.protection() == tenant.before
    assert tenant.escaped() == []


@pytest.mark.parametrize("attempt", NEW_PODS, ids=ids(NEW_PODS))
def test_no_new_pod_escapes(attempt: Attempt, mode: str, tenant: HostileTenant) -> None:
    check(attempt, mode, tenant)


@pytest.mark.parametrize("attempt", ADMITTED_PODS, ids=ids(ADMITTED_PODS))
def test_no_admitted_pod_escapes(attempt: Attempt, mode: str, tenant: HostileTenant) -> None:
    check(attempt, mode, tenant)
    assert pinned_to(tenant.api.get(tenant.pod_path("waiting"))) == WEST


@pytest.mark.parametrize("attempt", OWN_NAMESPACE, ids=ids(OWN_NAMESPACE))
def test_the_namespace_cannot_be_taken_out(
    attempt: Attempt, mode: str, tenant: HostileTenant
) -> None:
    check(attempt, mode, tenant)
    if mode == ANSWERED:
        assert pinned_to(tenant.create_pod(query="?dryRun=All")) == WEST
        tenant.tenants.settle({tenant.namespace: WEST})


@pytest.mark.parametrize("attempt", FOREIGN_NAMESPACES, ids=ids(FOREIGN_NAMESPACES))
def test_no_child_is_born_outside(attempt: Attempt, mode: str, tenant: HostileTenant) -> None:
    check(attempt, mode, tenant)


@pytest.mark.parametrize("name", NEW_NAMESPACES)
def test_a_child_is_born_pinned_or_not_at_all(name: str, mode: str, tenant: HostileTenant) -> None:
    metadata = NEW_NAMESPACES[name]
    metadata = {key: v(tenant) if callable(v) else v for key, v in metadata.items()}
    child = unique(tenant.namespace)
    if mode == ANSWERED:
        born = tenant.create_namespace(child, **metadata)
        assert labels(born)[names.CLASS_KEY] == WEST
        assert labels(born)[names.ENFORCED] == "true"
        assert annotations(born)[names.INHERITED_FROM] == tenant.parent
    else:
        with pytest.raises(ApiError, match=WAIT):
            tenant.create_namespace(child, **metadata)
        assert tenant.admin.find(namespace_path(child)) is None


def test_a_name_like_a_child_of_another_tenant_changes_nothing_there(
    mode: str, tenant: HostileTenant
) -> None:
    before = tenant.tenants.get(tenant.other)
    child = unique(tenant.other)
    if mode == ANSWERED:
        assert labels(tenant.create_namespace(child))[names.CLASS_KEY] == EAST
    else:
        with pytest.raises(ApiError, match=WAIT):
            tenant.create_namespace(child)
    assert tenant.tenants.get(tenant.other) == before
    with pytest.raises(ApiError, match="forbidden"):
        tenant.patch(namespace_path(tenant.other), {"metadata": {"labels": {"a": "b"}}})


def test_a_namespace_that_belongs_to_nobody_is_created_as_ever(
    mode: str, tenant: HostileTenant
) -> None:
    name = unique("ns")
    tenant.create_namespace(name)
    account = f"{namespace_path(name)}/serviceaccounts/default"
    eventually("its ServiceAccount", lambda: tenant.admin.find(account))
    assert pinned_to(tenant.admin.create(pods_path(name), pod(nodeName="node-3"))) is None


@while_answered  # without us no tenant is born, see above
def test_deleting_and_making_the_namespace_anew_is_no_way_out(
    tenant: HostileTenant, session_operator: Installation
) -> None:
    victim = HostileTenant(session_operator)
    victim.api.delete(namespace_path(victim.namespace))
    gone = namespace_path(victim.namespace)
    eventually("it is gone", lambda: victim.admin.find(gone) is None)
    # Its own ServiceAccount went with it.
    born = tenant.create_namespace(victim.namespace)
    assert labels(born)[names.ENFORCED] == "true"
    assert annotations(born)[names.INHERITED_FROM] == victim.parent


# --- what is no attack works as ever -------------------------------------------------------------


def test_debug_containers_are_added(tenant: HostileTenant) -> None:
    arguments = ("debugged", "--image=busybox", "--attach=false", "--quiet")
    tenant.kubectl("-n", tenant.namespace, "debug", *arguments)
    found = tenant.api.get(tenant.pod_path("debugged"))
    assert [c["image"] for c in found["spec"]["ephemeralContainers"]] == ["busybox"]


def test_pods_are_resized(tenant: HostileTenant) -> None:
    # One that runs nowhere yet: the fake nodes do not say that they can resize.
    size = {"name": "main", "resources": {"requests": {"cpu": "200m"}}}
    tenant.patch(
        tenant.pod_path("waiting", "resize"),
        {"spec": {"containers": [size]}},
        "strategic-merge-patch+json",
    )
    found = tenant.api.get(tenant.pod_path("waiting"))
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}


def test_pods_are_labelled_annotated_and_reported_about(tenant: HostileTenant) -> None:
    path = tenant.pod_path("changed")
    tenant.patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    tenant.patch(tenant.pod_path("changed", "status"), {"status": {"message": "seen"}})
    found = tenant.api.get(path)
    assert (labels(found)["a"], annotations(found)["c"]) == ("b", "d")
    assert found["status"]["message"] == "seen"
    tenant.apply(path, {**pod("changed"), "metadata": {"labels": {"e": "f"}}})


def test_pods_are_evicted_and_deleted(tenant: HostileTenant) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    tenant.api.create(tenant.pod_path("evicted", "eviction"), body)
    tenant.api.delete(tenant.pod_path("deleted"))
    path = tenant.pod_path("finalized")
    tenant.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    tenant.api.delete(path)
    tenant.patch(path, {"metadata": {"finalizers": None}})

    def gone() -> bool:
        left = {item["metadata"]["name"] for item in tenant.pods()}
        assert not left & {"evicted", "deleted", "finalized"}
        return True

    eventually("they are gone", gone)


def test_the_namespace_takes_labels_and_annotations(tenant: HostileTenant) -> None:
    tenant.patch_namespace({"labels": {"team": "x"}, "annotations": {"a": "b"}})
    tenant.patch_namespace({"labels": {"team": None}}, kind="strategic-merge-patch+json")
    found = tenant.tenants.get(tenant.namespace)
    assert annotations(found)["a"] == "b"


@while_answered  # without us new pods wait: see test_outage.py
def test_workloads_roll_scale_and_complete(tenant: HostileTenant) -> None:
    run = ("-n", tenant.namespace)
    tenant.kubectl(*run, "create", "-f", "-", input=workload("Deployment", "web", replicas=3))
    tenant.kubectl(*run, "rollout", "status", "deployment/web", "--timeout=30s")
    tenant.kubectl(*run, "set", "image", "deployment/web", "main=web:2")
    tenant.kubectl(*run, "rollout", "status", "deployment/web", "--timeout=30s")
    tenant.kubectl(*run, "scale", "deployment/web", "--replicas=1")
    tenant.kubectl(*run, "create", "job", "once", "--image=job")
    tenant.kubectl(*run, "wait", "job/once", "--for=condition=Complete", "--timeout=30s")
    tenant.kubectl(*run, "delete", "deployment/web", "--cascade=foreground", "--timeout=30s")
    tenant.kubectl(*run, "delete", "job/once", "--cascade=foreground", "--timeout=30s")
    assert tenant.escaped() == []


def test_all_pods_are_deleted_at_once(tenant: HostileTenant) -> None:
    tenant.kubectl("-n", tenant.namespace, "delete", "deployment,daemonset,job", "--all")
    tenant.api.delete(pods_path(tenant.namespace))
    eventually("no pod is left", lambda: tenant.pods() == [])
