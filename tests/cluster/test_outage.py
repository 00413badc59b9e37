"""Every process of ours killed: nothing is unpinned, and nothing is blocked that need not be."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from controlplane import Api, ApiError, Cluster, Installation, eventually
from controlplane.installation import SERVICE
from schedclass.domain import names
from tests.cluster.grants import wait_granted
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


@pytest.fixture(scope="module")
def landscape(session_cluster: Cluster, session_operator: Installation) -> Iterator[Landscape]:
    """Two namespaces of each class, one of them by inheritance, and one without a class."""
    session_cluster.heal()
    session_operator.heal()
    tenants = Tenants(session_cluster)
    pinned: dict[str, str] = {}
    for class_name in (WEST, EAST):
        parent = tenants.create(wants=class_name, with_account=True)
        child = tenants.create(below=parent, with_account=True)
        pinned |= {parent: class_name, child: class_name}
    tenants.settle({**pinned})
    yield Landscape(pinned, tenants.create(with_account=True))
    # The next module finds a controller that leads again.
    session_operator.heal()
    late = tenants.create(below=next(iter(pinned)))
    tenants.settle({late: WEST})
    tenants.clean_up()


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


@pytest.fixture
def dead(session_operator: Installation, landscape: Landscape) -> Installation:
    """The operator with all of its processes killed."""
    kill_all(session_operator)
    path = f"{pods_path(next(iter(landscape.pinned)))}?dryRun=All"

    def refused() -> bool:
        try:
            session_operator.cluster.admin.create(path, pod())
        except ApiError as refusal:
            return LATER in str(refusal)
        return False

    eventually("nobody pins any more", refused)
    return session_operator


def kill_all(operator: Installation) -> None:
    for name in (*operator.replicas, SERVICE):
        operator.process(name).kill()


@dataclass(frozen=True)
class Workloads:
    """All workloads of one name in some namespaces."""

    api: Api
    name: str
    namespaces: Sequence[str]

    def create(self, kind: str, **spec: Any) -> None:
        for namespace in self.namespaces:
            path = f"{APPS}/{namespace}/{kind.lower()}s"
            self.api.create(path, workload(kind, self.name, **spec))

    def pods(self, image: str = BEFORE) -> list[Json]:
        query = f"?labelSelector=app%3D{self.name}"
        lists = [self.api.get(pods_path(name) + query)["items"] for name in self.namespaces]
        items = [item for found in lists for item in found]
        return [item for item in items if item["spec"]["containers"][0]["image"] == image]

    def wait_pods(self, count: int, image: str = BEFORE) -> None:
        def made() -> bool:
            assert len(self.pods(image)) == count
            return True

        eventually(f"{count} pods of {image}", made, seconds=60, interval=0.3)

    def refusals(self) -> list[str]:
        """What their controllers were told when they could not create a pod."""
        lists = [self.api.get(f"{namespace_path(n)}/events")["items"] for n in self.namespaces]
        return [
            event["message"]
            for found in lists
            for event in found
            if event["reason"] == "FailedCreate"
            and event["involvedObject"]["name"].startswith(self.name)
        ]


def escaped(pods: Sequence[Json], classes: dict[str, str]) -> list[Json]:
    return [
        item
        for item in pods
        if item["spec"]["schedulerName"] != names.SCHEDULER_NAME
        or annotations(item).get(names.CLASS_KEY) != classes[item["metadata"]["namespace"]]
    ]


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
        assert not stream.refused
        assert {pinned_to(created) for created in stream.created} == expected
    admin, members = cluster.admin, list(landscape.pinned)
    web = Workloads(admin, "web", members)
    web.create("Deployment", replicas=50, strategy=ALL_AT_ONCE)
    web.wait_pods(200)
    since = cluster.audit.mark()
    for name in members[:2]:
        roll_out(admin, name, AFTER)
    eventually("the rollout is under way", lambda: web.pods(AFTER))
    kill_all(operator)
    alive = len(web.pods(AFTER))
    for name in members[2:]:
        roll_out(admin, name, AFTER)
    web.wait_pods(200, AFTER)
    pods = web.pods(AFTER)
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
    assert web.refusals() == []
    assert found["with all of us dead"] >= 100
    assert found == {**found, "created": 200, "pinned": 200, "refused": 0, "escaped": 0}


def test_without_it_pods_of_pinned_namespaces_wait_and_others_do_not_notice(
    dead: Installation, landscape: Landscape
) -> None:
    admin = dead.cluster.admin
    held = Workloads(admin, "held", list(landscape.pinned))
    free = Workloads(admin, "held", [landscape.unpinned])
    for workloads in (held, free):
        workloads.create("Deployment", replicas=5)
        workloads.create("DaemonSet")

    def told() -> bool:
        assert len({event for event in held.refusals() if LATER in event}) >= 2 * 4
        return True

    free.wait_pods(5 + 3)
    eventually("each of the others is told why not", told)
    assert {pinned_to(item) for item in free.pods()} == {None}
    assert all(LATER in message for message in held.refusals())
    assert held.pods() == []
    dead.heal()
    held.wait_pods(4 * (5 + 3))
    assert escaped(held.pods(), landscape.pinned) == []


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
    editor = cluster.identities.api(user)
    wait_granted(editor, "patch", "namespaces")
    yield editor
    cluster.admin.delete(f"{path}/{user}")


def test_a_wish_and_its_protection_come_and_go_in_one_request(
    editor: Api, tenants: Tenants
) -> None:
    namespace = tenants.create(with_account=True)
    pods = f"{pods_path(namespace)}?dryRun=All"

    def attempt() -> str | None:
        try:
            return pinned_to(editor.create(pods, pod()))
        except ApiError as refusal:
            if LATER not in str(refusal):
                raise
            return REFUSED

    def is_answered(expected: str | None) -> bool:
        return attempt() == expected

    for wish, enforced in ((WEST, "true"), (EAST, "true"), (None, None), ("dc-nowhere", None)):
        change = {"metadata": {"labels": {names.CLASS_KEY: wish}}}
        answer = editor.merge_patch(namespace_path(namespace), change)
        assert (labels(answer).get(names.CLASS_KEY), labels(answer).get(names.ENFORCED)) == (
            wish,
            enforced,
        )
        # Protected at once; a replica may hear of the change a moment after us.
        assert attempt() is not None or not enforced
        wanted = wish if enforced else None
        eventually(f"pods are pinned to {wanted}", partial(is_answered, wanted))


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
    eventually("the class is gone", by_force, interval=0)
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
