"""The table of pod admission against the real API server, row by row."""

import copy
from typing import Any

import pytest

from controlplane import Api, ApiError, Cluster, Kubectl, eventually
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CONTAINERS,
    REGION,
    Json,
    annotations,
    owner_reference,
    pinned_to,
    pod,
    pods_path,
)
from tests.cluster.replicas import Replica
from tests.cluster.tenants import Tenants

WEST = "dc-west"
SKIP_LABEL = "internal.cozystack.io/managed-by-cozystack"


@pytest.fixture
def pinned(tenants: Tenants) -> str:
    """A namespace with the class dc-west, ready for pods."""
    return tenants.create(wants=WEST, with_account=True)


@pytest.fixture
def unpinned(tenants: Tenants) -> str:
    return tenants.create(with_account=True)


def create(api: Api, namespace: str, body: Json) -> Json:
    return api.create(pods_path(namespace), body)


def as_sent(created: Json) -> Json:
    """A created pod without what the API server gives each of its own."""
    rest = copy.deepcopy(created)
    for key in ("uid", "resourceVersion", "creationTimestamp", "namespace", "managedFields"):
        rest["metadata"].pop(key, None)
    rest["spec"]["volumes"] = [{**v, "name": "token"} for v in rest["spec"].get("volumes", [])]
    for container in rest["spec"]["containers"]:
        for mount in container.get("volumeMounts", []):
            mount["name"] = "token"
    return rest


def admitted(replicas: list[Replica], reason: Reason) -> float:
    name = "schedclass_admission_requests_total"
    return sum(replica.metric(name, operation="CREATE", reason=reason) for replica in replicas)


# --- a class that exists --------------------------------------------------------------------------


def test_a_pod_gets_scheduler_and_annotation_and_nothing_else_changes(
    api: Api, pinned: str, unpinned: str
) -> None:
    body = pod(
        metadata={"annotations": {"example.com/a": "1"}, "labels": {"app": "web"}},
        tolerations=[{"key": "k", "operator": "Exists"}],
        nodeSelector={"disk": "ssd"},
        priority=0,
    )
    usual, changed = create(api, unpinned, body), create(api, pinned, body)
    expected = as_sent(usual)
    expected["spec"]["schedulerName"] = names.SCHEDULER_NAME
    expected["metadata"]["annotations"][names.CLASS_KEY] = WEST
    assert as_sent(changed) == expected


def test_a_pod_of_a_namespace_without_a_class_stays_as_it_is(api: Api, unpinned: str) -> None:
    assert pinned_to(create(api, unpinned, pod())) is None
    other = create(api, unpinned, pod("other", schedulerName="volcano"))
    assert other["spec"]["schedulerName"] == "volcano"
    assert api.warnings == []


@pytest.mark.parametrize(
    "scheduler", [None, "", "default-scheduler", "volcano", "stork", "linstor-scheduler"]
)
def test_any_other_scheduler_is_overwritten(api: Api, pinned: str, scheduler: str | None) -> None:
    assert pinned_to(create(api, pinned, pod(schedulerName=scheduler))) == WEST


FORGED: dict[str, Json | None] = {
    "another class": {names.CLASS_KEY: "dc-east"},
    "no class": {names.CLASS_KEY: ""},
    "other keys": {"example.com/a": "1", "scheduler.cozystack.io/scheduling-classes": "x"},
    "empty": {},
    "null": None,
}


@pytest.mark.parametrize("written", FORGED.values(), ids=FORGED)
def test_whatever_annotations_an_author_writes_the_class_is_the_namespaces(
    api: Api, pinned: str, written: Json | None
) -> None:
    created = create(api, pinned, pod(metadata={"annotations": written}))
    assert annotations(created) == {**(written or {}), names.CLASS_KEY: WEST}


@pytest.mark.parametrize("author", ["own label", "skip label", "our labels"])
def test_no_label_of_a_pod_exempts_it(api: Api, pinned: str, author: str) -> None:
    written = {
        "own label": {"app": "web"},
        "skip label": {SKIP_LABEL: "true"},
        "our labels": {names.ENFORCED: "false", names.CLASS_KEY: "dc-east"},
    }[author]
    assert pinned_to(create(api, pinned, pod(metadata={"labels": written}))) == WEST


def test_a_pod_that_is_already_right_is_not_patched(
    api: Api, replicas: list[Replica], pinned: str
) -> None:
    right = create(api, pinned, pod())
    for replica in replicas:
        assert replica.review_pod(right, pinned).patch is None
    again = {**right, "metadata": {"name": "again", "annotations": annotations(right)}}
    assert pinned_to(create(api, pinned, again)) == WEST


def test_a_generated_name_is_kept(api: Api, pinned: str) -> None:
    created = create(api, pinned, pod(metadata={"name": None, "generateName": "web-"}))
    assert created["metadata"]["name"].startswith("web-")
    assert pinned_to(created) == WEST


def test_the_requests_namespace_counts_not_the_bodys(
    api: Api, replicas: list[Replica], pinned: str, unpinned: str
) -> None:
    assert "namespace" not in pod()["metadata"]
    assert pinned_to(create(api, pinned, pod())) == WEST
    claims_unpinned = pod(metadata={"namespace": unpinned})
    claims_pinned = pod(metadata={"namespace": pinned})
    for replica in replicas:
        assert pinned_to(replica.review_pod(claims_unpinned, pinned).applied_to(claims_unpinned))
        assert replica.review_pod(claims_pinned, unpinned).patch is None


@pytest.mark.parametrize("key", ["a/b", "a~b", "a~1b", "~0/~1", names.CLASS_KEY + "/x", "ä/ö"])
def test_keys_with_slashes_and_tildes_survive(
    replicas: list[Replica], pinned: str, key: str
) -> None:
    body = pod(metadata={"annotations": {key: "kept"}}, schedulerName="default-scheduler")
    result = replicas[0].review_pod(body, pinned).applied_to(body)
    assert annotations(result) == {key: "kept", names.CLASS_KEY: WEST}
    assert result["spec"] == {**body["spec"], "schedulerName": names.SCHEDULER_NAME}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": "web", "annotations": None, "labels": None}},
        {"metadata": {"name": "web"}, "spec": None},
        {"metadata": {"uid": None}, "spec": {}},
    ],
    ids=str,
)
def test_a_body_without_the_usual_keys_is_pinned_all_the_same(
    replicas: list[Replica], pinned: str, body: Json
) -> None:
    result = replicas[0].review_pod(body, pinned).applied_to(body)
    assert annotations(result)[names.CLASS_KEY] == WEST
    assert result["spec"]["schedulerName"] == names.SCHEDULER_NAME


def test_a_pod_of_1_4_megabytes_is_pinned(api: Api, pinned: str) -> None:
    env = [{"name": f"V{n}", "value": "x" * 10_000} for n in range(140)]
    big = pod(containers=[{**CONTAINERS[0], "env": env}])
    created = create(api, pinned, big)
    assert pinned_to(created) == WEST
    assert created["spec"]["containers"][0]["env"] == env


def test_a_server_dry_run_shows_the_scheduler_and_stores_nothing(
    kubectl: Kubectl, api: Api, pinned: str
) -> None:
    run = ("run", "web", "--image=web", "--dry-run=server", "-o", "yaml")
    shown = kubectl("-n", pinned, *run)
    assert f"schedulerName: {names.SCHEDULER_NAME}" in shown
    assert f"{names.CLASS_KEY}: {WEST}" in shown
    assert api.get(pods_path(pinned))["items"] == []


# --- a class that does not exist ------------------------------------------------------------------


def test_an_absent_class_leaves_the_pod_alone_with_a_warning_an_event_and_a_count(
    api: Api, tenants: Tenants, replicas: list[Replica]
) -> None:
    namespace = tenants.create(wants="dc-nowhere", with_account=True)
    before = admitted(replicas, Reason.CLASS_NOT_FOUND)
    assert pinned_to(create(api, namespace, pod())) is None
    (warning,) = api.warnings
    assert warning == (
        'ClassNotFound: scheduling class "dc-nowhere" does not exist, so pods are not pinned'
    )
    event = tenants.wait_event(namespace, Reason.CLASS_NOT_FOUND)
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Namespace")
    assert '"dc-nowhere"' in event["message"]
    assert admitted(replicas, Reason.CLASS_NOT_FOUND) == before + 1


def test_whoever_names_an_absent_class_is_told_before_any_pod_is_made(tenants: Tenants) -> None:
    parent = tenants.create(wants="dc-nowhere")
    child = tenants.create(below=parent)
    event = tenants.wait_event(parent, Reason.CLASS_NOT_FOUND)
    assert '"dc-nowhere" does not exist' in event["message"]
    tenants.settle({child: "dc-nowhere"})
    assert tenants.events(child, Reason.CLASS_NOT_FOUND) == []


def test_an_absent_class_of_an_ancestor_is_named_with_the_ancestor(
    api: Api, tenants: Tenants
) -> None:
    parent = tenants.create(wants="dc-nowhere")
    child = tenants.create(below=parent, with_account=True)
    create(api, child, pod())
    assert f'"dc-nowhere", set by {parent}, does not exist' in api.warnings[0]


def test_a_dry_run_warns_but_leaves_no_event(tenants: Tenants, replicas: list[Replica]) -> None:
    parent = tenants.create(wants="dc-nowhere")  # there the controller tells of it
    tried, real = (tenants.create(below=parent, with_account=True) for _ in range(2))
    for replica in replicas:
        assert replica.review_pod(pod(), tried, dryRun=True).response["warnings"]
        assert replica.review_pod(pod(), real).response["warnings"]

    def told() -> bool:
        # Events of a replica are written in order, so one of the dry run would be there by now.
        events = tenants.events(real, Reason.CLASS_NOT_FOUND)
        return bool(sum(event["count"] for event in events) == len(replicas))

    eventually("each replica has told of the real pod", told)
    assert len(tenants.events(real, Reason.CLASS_NOT_FOUND)) == 1
    assert tenants.events(tried, Reason.CLASS_NOT_FOUND) == []


def test_pods_are_pinned_as_soon_as_the_class_is_there(api: Api, tenants: Tenants) -> None:
    namespace = tenants.create(wants="dc-later", with_account=True)
    assert pinned_to(create(api, namespace, pod("early"))) is None
    tenants.create_class("dc-later")
    tried = "?dryRun=All"
    path = pods_path(namespace) + tried
    eventually("pods are pinned", lambda: pinned_to(api.create(path, pod())) == "dc-later")
    tenants.settle({namespace: "dc-later"})


# --- a class whose selectors a pod does not fill --------------------------------------------------


@pytest.mark.usefixtures("known_scheduler")
def test_rules_of_the_class_that_do_not_apply_are_told_in_a_warning_and_one_event(
    api: Api, tenants: Tenants, replicas: list[Replica]
) -> None:
    spread = {"topologyKey": REGION, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    class_name = tenants.create_class(topologySpreadConstraints=[spread])
    namespace = tenants.create(wants=class_name, with_account=True)
    group, kind, name = names.LINEAGE_LABELS
    job = {"labels": {kind: "Job"}}
    told = (
        "the pod lacks labels apps.cozystack.io/application.{group,name} to fill a labelSelector "
        f'of class "{class_name}" from; add them, or a labelSelector to the class; it counts '
        "no pods for its topologySpreadConstraints"
    )
    for number in range(3):
        assert pinned_to(create(api, namespace, pod(f"job-{number}", metadata=job))) == class_name
        assert api.warnings == [f"SelectorNotFilled: {told}"]
    event = tenants.wait_event(namespace, Reason.SELECTOR_NOT_FILLED)
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Namespace")
    assert event["message"] == told

    for replica in replicas:
        tried = replica.review_pod(pod(), namespace, dryRun=True)
        assert "application.{group,kind,name}" in tried.response["warnings"][0]
        replica.review_pod(pod(metadata=job), namespace)

    def counted() -> bool:
        # Events of a replica are written in order, so one of the dry run would be there by now. Two
        # replicas that count at once may write over each other's number.
        events = tenants.events(namespace, Reason.SELECTOR_NOT_FILLED)
        return bool(sum(event["count"] for event in events) > 1)

    eventually("further pods are counted", counted)
    assert len(tenants.events(namespace, Reason.SELECTOR_NOT_FILLED)) == 1
    whole = {"labels": {group: "g", kind: "Job", name: "n"}}
    assert pinned_to(create(api, namespace, pod("whole", metadata=whole))) == class_name
    assert api.warnings == []


# --- a preset node --------------------------------------------------------------------------------

AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity_to(node_name: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    return {"nodeAffinity": {AFFINITY: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


def test_a_preset_node_that_the_class_allows_is_accepted(api: Api, pinned: str) -> None:
    created = create(api, pinned, pod(nodeName="node-1"))
    assert (created["spec"]["nodeName"], pinned_to(created)) == ("node-1", WEST)


@pytest.mark.parametrize(("node", "why"), [("node-3", "outside"), ("no-such-node", "not exist")])
def test_a_preset_node_outside_the_class_is_refused_with_the_reason(
    api: Api, pinned: str, node: str, why: str
) -> None:
    with pytest.raises(ApiError) as refused:
        create(api, pinned, pod(nodeName=node))
    assert refused.value.status == 403
    message = str(refused.value)
    assert f'NodeNotAllowed: spec.nodeName: node "{node}"' in message
    assert why in message
    assert "leave nodeName to the scheduler" in message
    assert api.get(pods_path(pinned))["items"] == []


def test_required_node_affinity_of_a_class_counts_for_preset_nodes(
    api: Api, tenants: Tenants
) -> None:
    only = tenants.create_class(**_affinity_to("node-2"))
    namespace = tenants.create(wants=only, with_account=True)
    assert create(api, namespace, pod("in", nodeName="node-2"))
    with pytest.raises(ApiError, match='node "node-1" is outside'):
        create(api, namespace, pod("out", nodeName="node-1"))


def test_a_preset_node_is_nobodys_business_without_a_class(api: Api, unpinned: str) -> None:
    assert create(api, unpinned, pod(nodeName="node-3"))["spec"]["nodeName"] == "node-3"


# --- mirror pods and DaemonSets -------------------------------------------------------------------

MIRROR = {names.MIRROR_POD: "hash"}


def test_the_mirror_annotation_alone_exempts_nothing(
    api: Api, replicas: list[Replica], pinned: str
) -> None:
    fake = pod("fake", metadata={"annotations": MIRROR}, nodeName="node-1")
    assert pinned_to(create(api, pinned, fake)) == WEST
    with pytest.raises(ApiError, match='node "node-3" is outside'):
        create(api, pinned, pod("out", metadata={"annotations": MIRROR}, nodeName="node-3"))
    # The API server itself refuses this one later, so it is shown to the replica alone.
    unbound = pod("unbound", metadata={"annotations": MIRROR}, schedulerName="default-scheduler")
    assert pinned_to(replicas[0].review_pod(unbound, pinned).applied_to(unbound)) == WEST


def test_one_node_cannot_speak_for_another(replicas: list[Replica], pinned: str) -> None:
    foreign = pod(metadata={"annotations": MIRROR}, nodeName="node-3")
    kubelet: dict[str, Any] = {"user": "system:node:node-1", "groups": ["system:nodes"]}
    assert not replicas[0].review_pod(foreign, pinned, **kubelet).response["allowed"]
    without_group: dict[str, Any] = {"user": "system:node:node-3", "groups": []}
    assert not replicas[0].review_pod(foreign, pinned, **without_group).response["allowed"]


def test_a_nodes_own_mirror_pod_is_left_alone_wherever_the_node_is(
    cluster: Cluster, api: Api, pinned: str
) -> None:
    node = api.get("/api/v1/nodes/node-3")
    kubelet = cluster.identities.api("system:node:node-3", ["system:nodes"])
    owner = {**owner_reference(node), "kind": "Node", "controller": True}
    metadata = {"annotations": MIRROR, "ownerReferences": [owner]}
    created = create(kubelet, pinned, pod(metadata=metadata, nodeName="node-3"))
    assert pinned_to(created) is None


def daemon_set(name: str) -> Json:
    match = {"app": name}
    template = {"metadata": {"labels": match}, "spec": {"containers": CONTAINERS}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": match}, "template": template},
    }


def test_pods_of_a_daemon_set_are_pinned_like_any_other(
    kubectl: Kubectl, api: Api, pinned: str
) -> None:
    kubectl("-n", pinned, "create", "-f", "-", input=daemon_set("agent"))

    def all_there() -> list[Json]:
        items: list[Json] = api.get(pods_path(pinned))["items"]
        return items if len(items) == 3 else []

    created = eventually("a pod per node", all_there)
    assert [pinned_to(item) for item in created] == [WEST] * 3


def test_a_namespace_that_no_watch_has_told_of_is_looked_up(replicas: list[Replica]) -> None:
    """Absent by the API server's own word is known, so the pod is left to whoever refuses it."""
    for replica in replicas:
        reply = replica.review_pod(pod(), f"{replica.name}-was-never-created")
        assert reply.response["allowed"]
        assert reply.patch is None
