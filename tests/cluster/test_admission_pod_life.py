"""Pods after their creation, and beside other admission: nothing of ours stands in their way."""

from collections.abc import Iterator

import pytest

from controlplane import Api, Kubectl, eventually
from schedclass.domain import names
from tests.cluster.mutator import OtherMutator
from tests.cluster.objects import CONTAINERS, Json, labels, pinned_to, pod, pods_path
from tests.cluster.replicas import PODS, Replica, review
from tests.cluster.tenants import Tenants

WEST = "dc-west"
SUBRESOURCES = ("binding", "eviction", "status", "resize", "ephemeralcontainers", "exec", "log")


@pytest.fixture
def namespace(tenants: Tenants) -> str:
    """A namespace that has no class yet, ready for pods."""
    return tenants.create(with_account=True)


def path_of(namespace: str, name: str, subresource: str = "") -> str:
    return "/".join(filter(None, (pods_path(namespace), name, subresource)))


def pin(tenants: Tenants, namespace: str) -> None:
    tenants.ask(namespace, WEST)
    tenants.settle({namespace: WEST})


# --- pods older than the class of their namespace ------------------------------------------------


def test_an_older_pod_can_be_changed_and_lose_its_finalizers(
    api: Api, tenants: Tenants, namespace: str
) -> None:
    api.create(pods_path(namespace), pod("old", metadata={"finalizers": ["example.com/hold"]}))
    pin(tenants, namespace)
    path = path_of(namespace, "old")
    api.merge_patch(path, {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    api.delete(path)
    assert api.get(path)["metadata"]["deletionTimestamp"]
    changed = api.merge_patch(path, {"metadata": {"finalizers": None}})
    assert (labels(changed)["a"], pinned_to(changed)) == ("b", None)
    eventually("the pod is gone", lambda: api.find(path) is None)


def test_every_subresource_of_an_older_pod_works(
    api: Api, scheduler: Api, tenants: Tenants, namespace: str
) -> None:
    # Taken by no scheduler, so that the test itself can bind it.
    container = {**CONTAINERS[0], "resources": {"requests": {"cpu": "100m"}}}
    api.create(pods_path(namespace), pod("old", containers=[container], schedulerName="nobody"))
    pin(tenants, namespace)
    api.request(
        "PATCH",
        path_of(namespace, "old", "resize"),
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}]}},
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )
    binding = {"metadata": {"name": "old"}, "target": {"kind": "Node", "name": "node-3"}}
    scheduler.create(path_of(namespace, "old", "binding"), binding)
    api.merge_patch(path_of(namespace, "old", "status"), {"status": {"message": "seen"}})
    debugger = {**CONTAINERS[0], "name": "debugger", "terminationMessagePolicy": "File"}
    api.request(
        "PATCH",
        path_of(namespace, "old", "ephemeralcontainers"),
        {"spec": {"ephemeralContainers": [debugger]}},
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )
    stored = api.get(path_of(namespace, "old"))
    assert (stored["spec"]["nodeName"], stored["spec"]["schedulerName"]) == ("node-3", "nobody")
    assert [c["name"] for c in stored["spec"]["ephemeralContainers"]] == ["debugger"]
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "old"}}
    api.create(path_of(namespace, "old", "eviction"), eviction)
    eventually("the pod is evicted", lambda: api.find(path_of(namespace, "old")) is None)


def test_kubectl_debug_works_on_an_older_pod(
    kubectl: Kubectl, api: Api, tenants: Tenants, namespace: str
) -> None:
    kubectl("-n", namespace, "run", "old", "--image=web")
    kubectl("-n", namespace, "wait", "pod/old", "--for=condition=Ready", "--timeout=30s")
    pin(tenants, namespace)
    kubectl("-n", namespace, "debug", "old", "--image=busybox", "--attach=false", "--quiet")
    stored = api.get(path_of(namespace, "old"))
    assert [c["image"] for c in stored["spec"]["ephemeralContainers"]] == ["busybox"]
    assert stored["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_only_creations_are_changed(
    replicas: list[Replica], tenants: Tenants, operation: str
) -> None:
    pinned = tenants.create(wants=WEST)
    for replica in replicas:
        reply = replica.review_pod(pod(), pinned, operation=operation, oldObject=pod())
        assert (reply.response["allowed"], reply.patch) == (True, None)


@pytest.mark.parametrize("subresource", SUBRESOURCES)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_no_subresource_is_changed(
    replicas: list[Replica], tenants: Tenants, operation: str, subresource: str
) -> None:
    pinned = tenants.create(wants=WEST)
    body = review(PODS, pod(), operation=operation, namespace=pinned, subResource=subresource)
    reply = replicas[0].send("/mutate-pods", body)
    assert (reply.response["allowed"], reply.patch) == (True, None)


# --- owners ---------------------------------------------------------------------------------------


def bind_pending(scheduler: Api, namespace: str) -> list[Json]:
    """Does the scheduler's work for each pod that waits for one."""
    items: list[Json] = scheduler.get(pods_path(namespace))["items"]
    for item in items:
        if not item["spec"].get("nodeName"):
            name = item["metadata"]["name"]
            target = {"kind": "Node", "name": "node-1"}
            body = {"metadata": {"name": name}, "target": target}
            scheduler.create(path_of(namespace, name, "binding"), body)
    return items


def job(name: str, **pod_spec: object) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS, **pod_spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": 2, "parallelism": 2, "template": template},
    }


@pytest.mark.parametrize("born", ["before", "after"])
def test_a_job_completes_and_its_pods_lose_the_tracking_finalizer(
    api: Api, scheduler: Api, kubectl: Kubectl, tenants: Tenants, namespace: str, born: str
) -> None:
    if born == "after":
        pin(tenants, namespace)
    # No scheduler has this name, so pods that keep it wait until the test binds them.
    kubectl("-n", namespace, "create", "-f", "-", input=job("once", schedulerName="nobody"))
    path = pods_path(namespace)
    created = eventually(
        "both pods", lambda: i if len(i := api.get(path)["items"]) == 2 else [], seconds=30
    )
    assert all("batch.kubernetes.io/job-tracking" in p["metadata"]["finalizers"] for p in created)
    if born == "before":
        pin(tenants, namespace)
        bind_pending(scheduler, namespace)
    kubectl("-n", namespace, "wait", "job/once", "--for=condition=Complete", "--timeout=60s")
    done = api.get(path)["items"]
    schedulers = {p["spec"]["schedulerName"] for p in done}
    assert schedulers == {names.SCHEDULER_NAME if born == "after" else "nobody"}
    assert not any(p["metadata"].get("finalizers") for p in done)


def workload(kind: str, name: str) -> Json:
    match = {"app": name}
    template = {"metadata": {"labels": match}, "spec": {"containers": CONTAINERS}}
    extra = {"serviceName": name} if kind == "StatefulSet" else {}
    spec = {"replicas": 1, "selector": {"matchLabels": match}, "template": template, **extra}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_pods_of_every_controller_are_pinned(
    api: Api, kubectl: Kubectl, tenants: Tenants, namespace: str
) -> None:
    pin(tenants, namespace)
    manifests = [workload(k, k.lower()) for k in ("Deployment", "StatefulSet", "ReplicaSet")]
    kubectl("-n", namespace, "create", "-f", "-", input=[*manifests, job("job")])
    path = pods_path(namespace)
    items = eventually(
        "all five pods", lambda: i if len(i := api.get(path)["items"]) == 5 else [], seconds=30
    )
    assert [pinned_to(item) for item in items] == [WEST] * 5


def test_quota_defaults_and_foreground_deletion_go_together_with_a_class(
    api: Api, kubectl: Kubectl, tenants: Tenants, namespace: str
) -> None:
    pin(tenants, namespace)
    limits = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
    kubectl(
        *("-n", namespace, "create", "-f", "-"),
        input=[
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "defaults"},
                "spec": {"limits": [limits]},
            },
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "quota"},
                "spec": {"hard": {"requests.cpu": "250m", "pods": "5"}},
            },
        ],
    )
    quota_path = f"/api/v1/namespaces/{namespace}/resourcequotas/quota"
    eventually("the quota counts", lambda: api.get(quota_path)["status"].get("used"))
    kubectl("-n", namespace, "create", "-f", "-", input=workload("ReplicaSet", "web"))
    (item,) = eventually("its pod", lambda: api.get(pods_path(namespace))["items"])
    assert item["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "100m"},
    }
    assert pinned_to(item) == WEST
    assert api.get(quota_path)["status"]["used"]["requests.cpu"] == "100m"
    kubectl("-n", namespace, "delete", "rs/web", "--cascade=foreground", "--timeout=60s")
    assert api.get(pods_path(namespace))["items"] == []


# --- other webhooks -------------------------------------------------------------------------------


@pytest.fixture(params=["aa-before-us", "zz-after-us"])
def other(request: pytest.FixtureRequest, api: Api, namespace: str) -> Iterator[OtherMutator]:
    """Another mutating webhook for the pods of the namespace, called before or after ours."""
    with OtherMutator(api, request.param, namespace) as mutator:
        yield mutator


def test_a_webhook_that_takes_default_pods_does_not_take_ours(
    api: Api, tenants: Tenants, namespace: str, other: OtherMutator
) -> None:
    other.only_if = "default-scheduler"
    path = pods_path(namespace)
    assert api.create(path, pod("before"))["spec"]["schedulerName"] == other.scheduler
    pin(tenants, namespace)
    assert pinned_to(api.create(path, pod("after"))) == WEST


def test_a_webhook_that_insists_on_its_scheduler_does_not_win(
    api: Api, tenants: Tenants, namespace: str, other: OtherMutator
) -> None:
    pin(tenants, namespace)
    assert pinned_to(api.create(pods_path(namespace), pod())) == WEST
    assert other.calls > 0


def test_a_second_call_changes_nothing(replicas: list[Replica], tenants: Tenants) -> None:
    pinned = tenants.create(wants=WEST)
    once = replicas[0].review_pod(pod(), pinned).applied_to(pod())
    assert pinned_to(once) == WEST
    for replica in replicas:
        assert replica.review_pod(once, pinned).patch is None
        reset = {**once, "spec": {**once["spec"], "schedulerName": "stork"}}
        assert replica.review_pod(reset, pinned).patch == [
            {"op": "add", "path": "/spec/schedulerName", "value": names.SCHEDULER_NAME}
        ]
