"""Every process of ours killed: nothing is unpinned, and nothing is blocked that need not be."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from controlplane import Api, ApiError, Cluster, Installation, eventually
from controlplane.installation import SERVICE
from schedclass.domain import names
from tests.cluster.objects import (
    Json,
    annotations,
    class_path,
    labels,
    namespace_path,
    pinned_to,
    pod,
    pods_path,
    workload,
)
from tests.cluster.stream import PodStream
from tests.cluster.tenants import Tenants, unique

WEST, EAST = "dc-west", "dc-east"
REFUSED = "refused"
LATER = "create the pod again later"
APPS = "/apis/apps/v1/namespaces"
BEFORE, AFTER = "web", "web:2"
MUTATED = "apiserver_mutating_admission_policy_check_duration_seconds_count{"
ALL_AT_ONCE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}


@dataclass(frozen=True)
class Landscape:
    """Namespaces that exist before the outage."""

    pinned: dict[str, str]
    unpinned: str


@pytest.fixture
def landscape(tenants: Tenants) -> Landscape:
    """Two namespaces of each class, one of them by inheritance, and one without a class."""
    pinned: dict[str, str] = {}
    for class_name in (WEST, EAST):
        parent = tenants.create(wants=class_name, with_account=True)
        child = tenants.create(below=parent, with_account=True)
        pinned |= {parent: class_name, child: class_name}
    tenants.settle({**pinned})
    return Landscape(pinned, tenants.create(with_account=True))


@pytest.fixture
def mutation(operator: Installation, landscape: Landscape) -> Iterator[list[PodStream]]:
    """The pinning done by the API server itself, and what pods saw of that upgrade of the chart."""
    admin = operator.cluster.admin
    streams = [
        PodStream(admin, namespace, per_second=10)
        for namespace in (next(iter(landscape.pinned)), landscape.unpinned)
    ]
    with streams[0], streams[1]:
        operator.install_chart(policies={"mutating": {"enabled": True}})
        eventually("the API server pins", lambda: MUTATED in admin.text("/metrics"))
    yield streams
    operator.install_chart(policies={})


def kill_all(operator: Installation) -> None:
    for name in (*operator.replicas, SERVICE):
        operator.process(name).kill()


def new_pods(api: Api, namespaces: Sequence[str], image: str) -> list[Json]:
    selected = "?labelSelector=app%3Dweb"
    items = [item for name in namespaces for item in api.get(pods_path(name) + selected)["items"]]
    return [item for item in items if item["spec"]["containers"][0]["image"] == image]


def refusals(api: Api, namespaces: Sequence[str]) -> list[str]:
    """What controllers were told that could not create a pod."""
    events = [e for name in namespaces for e in api.get(f"{namespace_path(name)}/events")["items"]]
    return [event["message"] for event in events if event["reason"] == "FailedCreate"]


def escaped(pods: Sequence[Json], classes: dict[str, str]) -> list[Json]:
    return [
        item
        for item in pods
        if item["spec"]["schedulerName"] != names.SCHEDULER_NAME
        or annotations(item).get(names.CLASS_KEY) != classes[item["metadata"]["namespace"]]
    ]


def wait_pods(api: Api, namespaces: Sequence[str], count: int, image: str) -> None:
    def made() -> bool:
        assert len(new_pods(api, namespaces, image)) == count
        return True

    eventually(f"{count} pods of {image}", made, seconds=60, interval=0.3)


def roll_out(api: Api, namespace: str, image: str) -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    api.request(
        "PATCH",
        f"{APPS}/{namespace}/deployments/web",
        body,
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )


def test_with_the_mutation_a_rollout_of_200_pods_does_not_notice(
    cluster: Cluster,
    operator: Installation,
    landscape: Landscape,
    mutation: list[PodStream],
) -> None:
    for stream, expected in zip(mutation, ({WEST}, {None}), strict=True):
        assert stream.refused == []
        assert {pinned_to(created) for created in stream.created} == expected
    members = list(landscape.pinned)
    for name in members:
        body = workload("Deployment", "web", replicas=50, strategy=ALL_AT_ONCE)
        cluster.admin.create(f"{APPS}/{name}/deployments", body)
    wait_pods(cluster.admin, members, 200, BEFORE)
    since = cluster.audit.mark()
    for name in members[:2]:
        roll_out(cluster.admin, name, AFTER)
    eventually("the rollout is under way", lambda: new_pods(cluster.admin, members, AFTER))
    kill_all(operator)
    alive = len(new_pods(cluster.admin, members, AFTER))
    for name in members[2:]:
        roll_out(cluster.admin, name, AFTER)
    wait_pods(cluster.admin, members, 200, AFTER)
    pods = new_pods(cluster.admin, members, AFTER)
    codes = Counter(
        event["responseStatus"]["code"]
        for name in members
        for event in cluster.audit.events(since, verb="create", resource="pods", namespace=name)
    )
    found = {
        "created": codes[201],
        "with all of us dead": 200 - alive,
        "pinned": len(pods) - len(escaped(pods, landscape.pinned)),
        "refused": sum(codes.values()) - codes[201],
        "escaped": len(escaped(pods, landscape.pinned)),
    }
    print(json.dumps(found))
    assert refusals(cluster.admin, members) == []
    assert found["with all of us dead"] >= 100
    assert found == {**found, "created": 200, "pinned": 200, "refused": 0, "escaped": 0}


def test_without_it_pods_of_pinned_namespaces_wait_and_others_do_not_notice(
    cluster: Cluster, operator: Installation, landscape: Landscape
) -> None:
    held, free = list(landscape.pinned), landscape.unpinned
    kill_all(operator)
    for name in (*held, free):
        for kind, spec in (("Deployment", {"replicas": 5}), ("DaemonSet", {})):
            body = workload(kind, "web", **spec)
            cluster.admin.create(f"{APPS}/{name}/{kind.lower()}s", body)

    def told() -> bool:
        assert len(new_pods(cluster.admin, [free], BEFORE)) == 8
        assert all(len(refusals(cluster.admin, [name])) >= 2 for name in held)
        return True

    eventually("the free ones are made and the others say why not", told, seconds=30)
    assert {pinned_to(item) for item in new_pods(cluster.admin, [free], BEFORE)} == {None}
    assert all(LATER in message for message in refusals(cluster.admin, held))
    assert new_pods(cluster.admin, held, BEFORE) == []
    operator.heal()

    wait_pods(cluster.admin, held, 4 * 8, BEFORE)
    assert escaped(new_pods(cluster.admin, held, BEFORE), landscape.pinned) == []


# --- no instant unprotected, none blocked ---------------------------------------------------------


@pytest.fixture
def editor(cluster: Cluster) -> Iterator[Api]:
    """Somebody with all rights in the cluster, but none of the platform's own identities."""
    user, path = unique("editor"), "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    body = {
        "metadata": {"name": user},
        "roleRef": {**role, "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": role["apiGroup"]}],
    }
    cluster.admin.create(path, body)
    yield cluster.identities.api(user)
    cluster.admin.delete(f"{path}/{user}")


def test_a_wish_and_its_protection_come_and_go_in_one_request(
    editor: Api, tenants: Tenants
) -> None:
    namespace = tenants.create(with_account=True)
    pods = f"{pods_path(namespace)}?dryRun=All"
    for wish, enforced in ((WEST, "true"), (EAST, "true"), (None, None), ("dc-nowhere", None)):
        change = {"metadata": {"labels": {names.CLASS_KEY: wish}}}
        answer = editor.merge_patch(namespace_path(namespace), change)
        assert (labels(answer).get(names.CLASS_KEY), labels(answer).get(names.ENFORCED)) == (
            wish,
            enforced,
        )
        assert pinned_to(editor.create(pods, pod())) == (wish if enforced else None)


def test_an_update_by_anybody_passes_while_the_class_of_the_parent_changes(
    editor: Api, tenants: Tenants
) -> None:
    parent = tenants.create(wants=WEST)
    child = tenants.create(below=parent)
    for number in range(15):
        tenants.ask(parent, (EAST, WEST, None)[number % 3])
        editor.merge_patch(namespace_path(child), {"metadata": {"labels": {"n": str(number)}}})
    tenants.settle({parent: None, child: None})


def test_a_class_that_is_removed_by_force_and_made_anew_leaves_no_gap(
    editor: Api, tenants: Tenants
) -> None:
    class_name = tenants.create_class()
    namespace = tenants.create(wants=class_name, with_account=True)
    path = class_path(class_name)
    pods = f"{pods_path(namespace)}?dryRun=All"

    def attempt() -> str | None:
        try:
            return pinned_to(editor.create(pods, pod()))
        except ApiError as refusal:
            if LATER not in str(refusal):
                raise
            return REFUSED

    def removed() -> bool:
        found = tenants.api.find(path)
        if found is None:
            return True
        tenants.api.merge_patch(path, {"metadata": {"labels": None, "finalizers": None}})
        tenants.api.request("DELETE", path)
        return False

    def by_force() -> bool:
        try:
            return removed()
        except ApiError as refusal:  # the controller was quicker: it is marked as in use again
            raise AssertionError(refusal) from None

    assert attempt() == class_name
    eventually("the class is gone", by_force, seconds=20, interval=0)
    # Refused until the controller has seen it, pinned never again, unpinned from then on.
    seen: list[str | None] = []

    def let_through() -> bool:
        seen.append(attempt())
        return seen[-1] is None

    eventually("pods are let through", let_through)
    assert set(seen) <= {REFUSED, None}
    assert names.ENFORCED not in labels(tenants.get(namespace))
    tenants.create_class(class_name)
    eventually("pods are pinned again", lambda: attempt() == class_name)
    tenants.settle({namespace: class_name})
    assert attempt() == class_name
    print(json.dumps({"refused before the controller had seen it": len(seen) - 1}))
