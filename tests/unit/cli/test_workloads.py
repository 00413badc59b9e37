"""What `explain` says of workloads whose pods do not exist, and of several pods at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from schedclass.domain import names
from tests.stubapi import Json, StubApi, page, stub_api
from tests.unit.cli.running import NODES, Done, manifests, schedclass

REFUSAL = (
    'spec.nodeName: node "node-3" is outside scheduling class "dc-west" of the namespace: '
    'spec.nodeSelector["topology.kubernetes.io/region"]: node "node-3" has "east", the class wants '
    '"west"; leave nodeName to the scheduler'
)
UNSERVED = "Nobody renews Lease cozy/lease; pinned pods stay Pending until a scheduler runs."


def namespace(name: str = "tenant-a", class_name: str = "dc-west") -> Json:
    labels = {names.CLASS_KEY: class_name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def dc_west(**condition: str) -> Json:
    obj: Json = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "dc-west", "uid": "c-1"},
        "spec": {"nodeSelector": {"topology.kubernetes.io/region": "west"}},
    }
    return {**obj, "status": {"conditions": [condition]}} if condition else obj


def unserved() -> Json:
    return dc_west(type="SchedulerAvailable", status="False", message=UNSERVED)


def workload(kind: str = "Deployment", pod: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "w"}], **(pod or {})}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": "w", "namespace": "tenant-a"}
    spec = {"template": template, **spec}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def running(name: str, node: str = "node-1") -> Json:
    metadata = {
        "name": name,
        "namespace": "tenant-a",
        "uid": f"uid-{name}",
        "annotations": {names.CLASS_KEY: "dc-west"},
        "ownerReferences": [{"kind": "StatefulSet", "name": "w", "controller": True}],
    }
    spec = {"schedulerName": names.SCHEDULER_NAME, "nodeName": node, "containers": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def explain(
    *objects: Json, what: tuple[str, ...] = ("deployment", "w"), nodes: bool = True
) -> Done:
    given = ("-f", NODES, "-f", "-") if nodes else ("-f", "-")
    return schedclass("explain", *what, "-n", "tenant-a", *given, stdin=manifests(*objects))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_pods_that_admission_refuses_are_said_not_to_exist(kind: str) -> None:
    done = explain(
        namespace(),
        dc_west(),
        workload(kind, {"nodeName": "node-3"}),
        what=(kind.lower(), "w"),
    )
    assert f"{kind} tenant-a/w: 0 of 1 pods exist" in done.out
    assert f"=> admission would refuse it: {REFUSAL}\n" in done.out
    assert "runs on" not in done.out
    assert "on a node" not in done.out


def test_a_daemon_set_whose_pods_are_refused_has_none() -> None:
    pinned = workload("DaemonSet", {"nodeName": "node-3"})
    done = explain(namespace(), dc_west(), pinned, what=("ds", "w"))
    assert "DaemonSet tenant-a/w: 0 pods exist, 1 node without one" in done.out
    assert REFUSAL in done.out
    assert "runs on" not in done.out


def test_an_application_is_told_of_pods_that_do_not_exist() -> None:
    group, kind, name = names.LINEAGE_LABELS
    labels = {group: "apps.cozystack.io", kind: "Web", name: "shop"}
    refused = workload(pod={"nodeName": "node-3"})
    refused["spec"]["template"]["metadata"] = {"labels": labels}
    done = explain(namespace(), dc_west(), refused, what=("app", "Web/shop"))
    assert "Application tenant-a/Web/shop: 0 of 1 pods exist" in done.out
    assert REFUSAL in done.out


def test_all_replicas_are_spoken_of() -> None:
    refused = explain(namespace(), dc_west(), workload(pod={"nodeName": "node-3"}, replicas=2))
    assert "Deployment tenant-a/w: 0 of 2 pods exist" in refused.out
    assert f"=> admission would refuse all 2 of them: {REFUSAL}" in refused.out
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "w"}},
                }
            ]
        }
    }
    spread = workload(pod={"affinity": apart}, replicas=3)
    spread["spec"]["template"]["metadata"] = {"labels": {"app": "w"}}
    done = explain(namespace(), dc_west(), spread)
    last = done.out.splitlines()[-1]
    assert "placed in turn, 2 of 3 find a node: " in last
    assert "for another: 0/3 nodes are available: " in last


def test_a_preset_node_inside_the_class_is_not_called_running() -> None:
    done = explain(namespace(), dc_west(), workload(pod={"nodeName": "node-1"}))
    assert "=> it names node-1 itself; 2 of 3 nodes would take it now, node-1 too" in done.out


def test_a_preset_node_is_not_judged_where_nodes_are_not_known() -> None:
    done = explain(namespace(), dc_west(), workload(pod={"nodeName": "node-3"}), nodes=False)
    assert "whether it lies outside is not known: no nodes among the manifests" in done.out
    assert "refuse it" not in done.out


def test_a_pod_of_a_manifest_is_refused_in_the_words_of_admission() -> None:
    pod = running("lone", "node-3")
    del pod["metadata"]["uid"]
    done = explain(namespace(), dc_west(), pod, what=("pod", "lone"))
    assert f"=> admission would refuse it: {REFUSAL}" in done.out


def test_a_job_that_is_over_wants_no_pods() -> None:
    done_job = workload("Job")
    done_job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    done = explain(namespace(), dc_west(), done_job, what=("job", "w"))
    assert "Job tenant-a/w: 0 of 0 pods exist" in done.out


def test_what_several_pods_share_is_said_once_with_their_names() -> None:
    pods = [running("w-0"), running("w-1"), running("w-2", "node-2")]
    maker = workload("StatefulSet", replicas=3)
    done = explain(namespace(), dc_west(), maker, *pods, what=("sts", "w"))
    assert "StatefulSet tenant-a/w: 3 of 3 pods exist, 3 on a node" in done.out
    assert done.out.count("Own request:") == 1
    assert "\nAll of them\n" in done.out
    assert "\nPods tenant-a/w-0, tenant-a/w-1\n" in done.out
    assert "\nPod tenant-a/w-2\n" in done.out
    assert done.out.count("it runs on node-1") == 1


def test_the_document_tells_existing_pods_from_missing_ones() -> None:
    text = manifests(namespace(), dc_west(), workload(pod={"nodeName": "node-3"}, replicas=2))
    arguments = ("explain", "deployment", "w", "-n", "tenant-a", "-f", NODES, "-f", "-")
    told = schedclass(*arguments, "-o", "json", stdin=text).document
    assert (told["existing"], told["wanted"], told["pods"]) == (0, 2, [])
    (missing,) = told["missing"]
    assert missing["count"] == 2
    finding = missing["explanation"]["steps"][-1]["findings"][0]
    assert finding["reason"] == "NodeNotAllowed"


# --- no scheduler ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        (("pod", "waits"), f"=> {UNSERVED} Then: 2 of 3 nodes take it"),
        (
            ("deployment", "w"),
            f"=> {UNSERVED} Then: 2 of 3 nodes take it; the best is node-1 (as good: node-2)",
        ),
        (("ns", "tenant-a"), f"applies to namespace tenant-a, its own; {UNSERVED}"),
        (("class", "dc-west"), f'"dc-west" is SchedulerMissing: 1 namespace and 1 pod; {UNSERVED}'),
    ],
)
def test_that_no_scheduler_lives_is_said_as_in_the_condition(
    what: tuple[str, ...], outcome: str
) -> None:
    waits = running("waits", "")
    waits["metadata"].pop("ownerReferences")
    done = explain(namespace(), unserved(), workload(), waits, what=what)
    assert f"SchedulerMissing: {UNSERVED}" in done.out
    assert outcome in done.out


def test_the_tree_shows_that_no_scheduler_lives() -> None:
    done = schedclass("tree", "-f", NODES, "-f", "-", stdin=manifests(namespace(), unserved()))
    assert "* dc-west   SchedulerMissing" in done.out


def test_a_pod_that_runs_is_not_said_to_wait_for_a_scheduler() -> None:
    pod = running("w-0")
    done = explain(namespace(), unserved(), pod, what=("pod", "w-0"))
    assert "=> it runs on node-1; 2 of 3 nodes would take it now, node-1 too" in done.out


# --- a cluster ---------------------------------------------------------------------------------


def kubeconfig(stub: StubApi, path: Path) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "here", "cluster": {"server": stub.url}}],
                "users": [{"name": "me", "user": {"token": "secret"}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            }
        )
    )
    return path


async def test_the_controller_s_own_word_is_told(tmp_path: Path) -> None:
    deployment = workload(pod={"nodeName": "node-3"})
    deployment["metadata"]["uid"] = "uid-w"
    replica_set = workload(pod={"nodeName": "node-3"})
    replica_set["metadata"] = {
        "name": "w-1",
        "namespace": "tenant-a",
        "uid": "uid-rs",
        "ownerReferences": [
            {"kind": "Deployment", "name": "w", "uid": "uid-w", "controller": True}
        ],
    }
    said = f"admission webhook denied the request: {REFUSAL}"
    event = {"type": "Warning", "reason": "FailedCreate", "message": said, "count": 12}
    empty = page([], "1")
    async with stub_api() as stub:
        for path, items in {
            "/api/v1/nodes": [
                {
                    "metadata": {
                        "name": "node-3",
                        "labels": {"topology.kubernetes.io/region": "east"},
                    }
                }
            ],
            "/api/v1/namespaces": [namespace()],
            f"/apis/{names.API_VERSION}/{names.PLURAL}": [dc_west()],
            "/api/v1/pods": [],
            "/apis/apps/v1/deployments": [deployment],
            "/apis/apps/v1/replicasets": [replica_set],
        }.items():
            stub.script("GET", path, page(items, "1"))
        stub.script("GET", "/api/v1/namespaces/tenant-a/events", empty, page([event], "1"))
        config = kubeconfig(stub, tmp_path / "kubeconfig")
        arguments = ("explain", "deploy", "w", "-n", "tenant-a", "--kubeconfig", config)
        done = await asyncio.to_thread(schedclass, *arguments)
        asked = stub.received("GET", "/api/v1/namespaces/tenant-a/events")
    assert "Deployment tenant-a/w: 0 of 1 pods exist" in done.out
    assert f"the controller says: ReplicaSet w-1: Warning FailedCreate (x12): {said}" in done.out
    selectors = [request.query["fieldSelector"] for request in asked]
    assert selectors == [
        "involvedObject.name=w,involvedObject.uid=uid-w,reason=FailedCreate",
        "involvedObject.name=w-1,involvedObject.uid=uid-rs,reason=FailedCreate",
    ]


# --- names as kubectl writes them --------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "head"),
    [
        (("pod/w-0",), "Pod tenant-a/w-0"),
        (("pods/w-0",), "Pod tenant-a/w-0"),
        (("pod", "pod/w-0"), "Pod tenant-a/w-0"),
        (("statefulset.apps/w",), "StatefulSet tenant-a/w: 1 of 1 pods exist"),
        (("statefulsets.v1.apps", "w"), "StatefulSet tenant-a/w: 1 of 1 pods exist"),
        (("sts/w",), "StatefulSet tenant-a/w: 1 of 1 pods exist"),
        (("namespace/tenant-a",), "Namespace tenant-a"),
        (("schedulingclass.cozystack.io/dc-west",), "SchedulingClass dc-west"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_objects_are_named_as_kubectl_prints_them(what: tuple[str, ...], head: str) -> None:
    done = explain(namespace(), dc_west(), workload("StatefulSet"), running("w-0"), what=what)
    assert done.code == 0
    assert done.out.startswith(head)


def test_several_objects_are_explained_one_after_the_other() -> None:
    given = (namespace(), dc_west(), workload("StatefulSet", replicas=2), running("w-0"))
    done = explain(*given, running("w-1"), what=("pod", "w-0", "nowhere", "w-1"))
    heads = [line for line in done.out.splitlines() if line.startswith("Pod ")]
    assert heads == ["Pod tenant-a/w-0", "Pod tenant-a/w-1"]
    assert "error: there is no pod tenant-a/nowhere" in done.err
    assert done.code == 2
    mixed = explain(*given, what=("ns/tenant-a", "sts/w"))
    assert "Namespace tenant-a\n" in mixed.out
    assert "StatefulSet tenant-a/w: 1 of 2 pods exist" in mixed.out


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (("pod",), "explain pod: which one? Write pod NAME or pod/NAME"),
        (("pod/",), "write KIND/NAME"),
        (("pod/w-0", "w-1"), "w-1: write KIND/NAME, for each of several too"),
        (("deployment.batch/w",), "cannot explain a deployment.batch; it can be one of pod, "),
        (("configmap/w",), "cannot explain a configmap; it can be one of pod, "),
        (("pod", "web"), "there is no pod tenant-a/web; use -n for another namespace"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_names_nothing_ends_with_one_sentence(what: tuple[str, ...], sentence: str) -> None:
    done = explain(namespace(), dc_west(), running("w-0"), what=what)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.splitlines()[-1]


@pytest.mark.parametrize("wish", ["DC-West", "dc-wset"])
def test_a_class_that_is_not_there_is_told_with_the_one_that_is(wish: str) -> None:
    given = (namespace(class_name=wish), dc_west())
    near = "; did you mean dc-west?"
    told = explain(*given, what=("ns", "tenant-a")).out
    assert f'class "{wish}" does not exist{near}' in told
    assert f"so new pods are not pinned{near}" in told
    assert near in explain(*given, what=("class", wish)).out
    assert near in explain(dc_west(), what=("class", wish)).err


def test_of_many_pods_the_first_are_explained_and_all_are_listed() -> None:
    pods = [running(f"w-{number:02}") for number in range(30)]
    maker = workload("StatefulSet", replicas=32)
    done = explain(namespace(), dc_west(), maker, *pods, what=("sts", "w"))
    assert "StatefulSet tenant-a/w: 30 of 32 pods exist, 30 on a node" in done.out
    assert "\nThe 2 pods that do not exist\n" in done.out
    assert "tenant-a/w-09 and 10 more\n" in done.out
    assert "\ntenant-a/w-29: node-1\n" in done.out
    assert done.out.count("Own request:") == 1


def test_check_fails_while_no_scheduler_lives_for_a_class_in_use() -> None:
    given = ("check", "-f", NODES, "-f", "-")
    used = schedclass(*given, stdin=manifests(namespace(), unserved()))
    assert used.code == 1
    (row,) = (line for line in used.out.splitlines() if "SchedulerMissing" in line)
    assert row.endswith(UNSERVED)
    assert schedclass(*given, stdin=manifests(unserved())).code == 0
