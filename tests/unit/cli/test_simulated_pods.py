"""Pods that `simulate` makes of templates, and how they fare: each as in a cluster."""

from typing import Any

import pytest

from schedclass.domain import names
from schedclass.domain.insight.wanted import MOST
from tests.unit.cli.running import NODES, Done, manifests, schedclass

WEST = {"topology.kubernetes.io/region": "west"}
EAST = {"topology.kubernetes.io/region": "east"}
HERE = {"kubernetes.io/hostname": "node-1"}
RUNNING = {"phase": "Running"}


def container(cpu: str = "", port: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "main", "image": "w"}
    if cpu:
        made["resources"] = {"requests": {"cpu": cpu}}
    if port:
        made["ports"] = [{"containerPort": port, "hostPort": port}]
    return made


def workload(kind: str = "Deployment", replicas: int | None = 1, **pod: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()], **pod}}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def daemons(**pod: Any) -> dict[str, Any]:
    return workload("DaemonSet", None, **pod)


def pod(name: str, *, uid: str = "", owner: Any = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop"}
    if uid:
        metadata["uid"] = uid
    if owner:
        metadata["ownerReferences"] = [{"controller": True, **owner}]
    spec = {"containers": [container()], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def priority_class(value: int = 1000, **more: Any) -> dict[str, Any]:
    version, kind = "scheduling.k8s.io/v1", "PriorityClass"
    metadata = {"name": "high"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "value": value, **more}


def namespace(**labels: str) -> dict[str, Any]:
    metadata = {"name": "shop", "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def east() -> tuple[dict[str, Any], dict[str, Any]]:
    """A class, and a namespace that has it."""
    cls = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": "east"}}
    return {**cls, "spec": {"nodeSelector": EAST}}, namespace(**{names.CLASS_KEY: "east"})


def simulate(*objects: dict[str, Any], more: tuple[str, ...] = (), table: bool = False) -> Done:
    output = () if table else ("-o", "json")
    given = (*objects, *(() if any(o["kind"] == "Namespace" for o in objects) else (namespace(),)))
    return schedclass("simulate", *more, *output, "-f", NODES, "-f", "-", stdin=manifests(*given))


def placements(done: Done, group: str = "") -> list[dict[str, Any]]:
    groups = done.document["groups"]
    return [
        {"node": "", **placement}
        for told in groups
        if group in told["name"]
        for placement in told["placements"]
    ]


def nodes(done: Done, group: str = "") -> list[str]:
    return [placement["node"] for placement in placements(done, group)]


@pytest.mark.parametrize("full", [container(port=80), container(cpu="5")])
def test_a_template_that_names_a_node_counts_there_until_the_kubelet_rejects_it(full: Any) -> None:
    done = simulate(workload(replicas=2, nodeName="node-1", containers=[full]))
    first, second = placements(done)
    assert first["node"] == "node-1"
    assert first["message"] == 'it names node "node-1" itself, so no scheduler is asked'
    assert second["node"] == ""
    assert "whose kubelet would reject it: " in second["message"]
    table = simulate(workload(replicas=2, nodeName="node-1", containers=[full]), table=True).out
    assert "=> 1 of 2 pods placed" in table
    assert "Nodes, as" not in table


def test_the_room_of_a_template_that_names_a_node_is_taken_once_and_kept() -> None:
    named = workload(replicas=1, nodeName="node-1", containers=[container("5")])
    other = pod("other", nodeSelector=HERE, containers=[container("4")])
    assert sorted(nodes(simulate(named, other))) == ["", "node-1"]


def test_no_scheduler_stands_between_a_named_node_and_its_pod() -> None:
    taint = {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp"}, "spec": taint}
    assert nodes(simulate(node, workload(nodeName="cp"))) == ["cp"]
    assert nodes(simulate(node, workload(nodeName="cp", nodeSelector=EAST))) == [""]


def test_a_template_that_names_an_unknown_node_is_placed_nowhere() -> None:
    (placed,) = placements(simulate(workload(nodeName="gone")))
    assert (placed["node"], placed["message"]) == (
        "",
        'it names node "gone" itself, which is not known',
    )


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_what_admission_refuses_is_not_placed(kind: str) -> None:
    done = simulate(*east(), workload(kind, nodeName="node-1"))
    (placed,) = placements(done)
    assert placed["node"] == ""
    assert placed["message"].startswith("admission would refuse it: spec.nodeName: ")
    assert nodes(simulate(*east(), workload(kind, nodeName="node-3"))) == ["node-3"]
    assert done.code == 1


def test_a_given_pod_that_admission_refuses_takes_no_place() -> None:
    class_, shop = east()
    big: dict[str, Any] = {"containers": [container("7")]}
    other = {**pod("other", nodeSelector=HERE, **big)}
    other["metadata"] = {**other["metadata"], "namespace": "free"}
    given = pod("given", nodeName="node-1", **big)
    first, second = placements(simulate(class_, shop, given, other))
    assert (first["pod"], first["node"]) == ("shop/given", "")
    assert first["message"].startswith("admission would refuse it: ")
    assert (second["pod"], second["node"]) == ("free/other", "node-1")
    for runs in (pod("given", uid="u", nodeName="node-1", **big), {**given, "status": RUNNING}):
        assert nodes(simulate(class_, shop, runs, other)) == [""]


def test_equal_pods_that_find_no_node_are_told_alike() -> None:
    done = simulate(workload(replicas=20, containers=[container("5")]))
    assert nodes(done) == ["node-1", "node-2", "node-3", *[""] * 17]
    assert {p["message"] for p in placements(done)[3:]} == {
        "0/3 nodes are available: 3 Insufficient cpu."
    }


def test_explain_says_that_no_node_suits_the_template_of_a_daemon_set() -> None:
    given = manifests(namespace(), daemons(nodeSelector={"no": "where"}))
    told = schedclass("explain", "ds", "web", "-n", "shop", "-f", NODES, "-f", "-", stdin=given)
    assert "DaemonSet shop/web: 0 pods exist, 0 nodes without one" in told.out
    assert "=> its template allows none of 3 nodes, so no pod is made" in told.out
    given = manifests(namespace(), daemons(nodeSelector=WEST))
    told = schedclass("explain", "ds", "web", "-n", "shop", "-f", NODES, "-f", "-", stdin=given)
    assert "=> 2 of 2 nodes without one take it: node-1, node-2" in told.out


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_no_more_replicas_are_placed_than_tell_something(kind: str) -> None:
    done = simulate(workload(kind, 2_000_000_000, containers=[container("1")]))
    assert done.document["summary"] == {"pods": MOST, "placed": 24}
    note = f"{kind} shop/web wants 2000000000 more pods: only the first {MOST} are placed"
    assert note in done.document["notModelled"]


def test_as_many_replicas_as_are_placed_need_no_note() -> None:
    done = simulate(workload(replicas=MOST))
    assert len(placements(done)) == MOST
    assert not any("only the first" in note for note in done.document["notModelled"])


def test_a_daemon_set_has_pods_where_its_template_allows_them() -> None:
    assert nodes(simulate(daemons(nodeSelector=WEST))) == ["node-1", "node-2"]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert nodes(simulate(daemons(affinity={"nodeAffinity": required}))) == ["node-3"]
    assert nodes(simulate(daemons(nodeName="node-2"))) == ["node-2"]


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule"])
@pytest.mark.parametrize("tolerated", [False, True])
def test_a_daemon_set_has_no_pods_behind_taints(effect: str, tolerated: bool) -> None:
    metadata, spec = {"name": "cp"}, {"taints": [{"key": "k", "effect": effect}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
    tolerations = [{"key": "k", "operator": "Exists"}] if tolerated else []
    there = "cp" in nodes(simulate(node, daemons(tolerations=tolerations)))
    assert there == (tolerated or effect == "PreferNoSchedule")


def test_a_daemon_set_tolerates_cordons_and_on_the_network_of_nodes_a_missing_network() -> None:
    key = "node.kubernetes.io/network-unavailable"
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [cordon, {"key": key, "effect": "NoSchedule"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp"}, "spec": spec}
    assert "cp" in nodes(simulate(node, daemons(hostNetwork=True)))
    assert "cp" not in nodes(simulate(node, daemons()))


def test_a_daemon_set_waits_where_only_its_class_forbids_it() -> None:
    assert nodes(simulate(*east(), daemons())) == ["", "", "node-3"]


def test_a_pod_that_never_preempts_waits() -> None:
    low = pod("low", nodeName="node-1", containers=[container("7")])
    spec: dict[str, Any] = {"nodeSelector": HERE, "containers": [container("7")]}
    high = {**spec, "priorityClassName": "high"}
    assert nodes(simulate(priority_class(), low, pod("hi", **high))) == ["node-1"]
    never = pod("hi", **high, preemptionPolicy="Never")
    assert nodes(simulate(priority_class(), low, never)) == [""]
    of_class = priority_class(preemptionPolicy="Never")
    assert nodes(simulate(of_class, low, pod("hi", **high))) == [""]
    assert nodes(simulate(of_class, low, workload(**high))) == [""]
    default = priority_class(preemptionPolicy="Never", globalDefault=True)
    low_too = {**low, "spec": {**low["spec"], "priority": 0}}
    assert nodes(simulate(default, low_too, pod("hi", **spec))) == [""]
    given = manifests(namespace(), of_class, low, pod("hi", **high))
    told = schedclass("explain", "pod", "hi", "-n", "shop", "-f", NODES, "-f", "-", stdin=given)
    assert "Preemption would free" not in told.out


def test_the_priority_of_an_unknown_class_is_never_silently_zero() -> None:
    wants = workload(priorityClassName="high", nodeSelector=HERE, containers=[container("7")])
    low = pod("low", uid="l", nodeName="node-1", priority=5, containers=[container("7")])
    done = simulate(low, wants)
    note = "PriorityClass high is not known: its pods are taken to have priority 0"
    assert nodes(done) == [""]
    assert note in done.document["notModelled"]
    tells = pod("tells", uid="t", nodeName="node-2", priority=1000, priorityClassName="high")
    done = simulate(low, tells, wants)
    assert nodes(done) == ["node-1"]
    assert note not in done.document["notModelled"]
    assert nodes(simulate(low, tells, priority_class(2), wants)) == [""]
    never = {**tells, "spec": {**tells["spec"], "preemptionPolicy": "Never"}}
    assert nodes(simulate(low, never, wants)) == [""]


def test_explain_says_that_a_priority_is_not_known() -> None:
    waits = pod("waits", priorityClassName="high", containers=[container("99")])
    given = manifests(namespace(), waits)
    told = schedclass("explain", "pod", "waits", "-n", "shop", "-f", NODES, "-f", "-", stdin=given)
    assert "PriorityClass high is not known: the pod is taken to have priority 0." in told.out


def test_a_change_gets_its_priority_from_what_it_is_put_into(tmp_path: Any) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(manifests(pod("hi", priorityClassName="high", nodeSelector=HERE)))
    for told in (priority_class(7), pod("t", uid="t", priority=7, priorityClassName="high")):
        done = simulate(told, more=("--change", str(change)))
        assert not any("PriorityClass" in note for note in done.document["notModelled"])


def test_what_a_node_runs_by_itself_ends_with_it() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "n1"}
    mirror = pod("api", uid="m1", owner=node, nodeName="node-1", priority=2_000_001_000)
    mirror["metadata"]["annotations"] = {names.MIRROR_POD: "abc"}
    for removed in (mirror, pod("api", uid="m1", owner=node, nodeName="node-1")):
        told = simulate(removed, more=("--remove-node", "node-1")).document
        (ending,) = told["impact"]["ending"]
        assert (ending["pod"], ending["before"]) == ("shop/api", "node-1")
        assert told["groups"] == []


def test_no_taint_drives_out_what_a_node_runs_by_itself() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "name": "cp", "uid": "n1"}
    mirror = pod("api", uid="m1", owner=node, nodeName="cp")
    mirror["metadata"]["annotations"] = {names.MIRROR_POD: "abc"}
    spec = {"taints": [{"key": "k", "effect": "NoExecute"}]}
    tainted = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp"}, "spec": spec}
    told = simulate(tainted, mirror, more=("--remove-node", "node-1")).document
    assert told["impact"]["ending"] == []


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    }
}


def test_workloads_of_one_name_have_pods_of_their_own() -> None:
    both = [workload(kind, 2, affinity=APART) for kind in ("Deployment", "StatefulSet")]
    done = simulate(*both)
    assert sorted(nodes(done)) == ["", "node-1", "node-2", "node-3"]
    done = simulate(*both, more=("--relabel", "node-1:a=b"))
    effects = done.document["impact"]
    assert not any(effects[part] for part in ("starting", "stopping", "moved", "ending"))
    gone = simulate(*both, more=("--remove-node", "node-3")).document["impact"]
    assert [outcome["pod"] for outcome in gone["stopping"]] == ["shop/web-0"]


def test_a_stateful_set_fills_its_gaps() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s"}
    there = [pod(f"web-{n}", uid=f"p{n}", owner=owner, nodeName="node-1") for n in (0, 2)]
    done = simulate(*there, workload("StatefulSet", 4))
    assert [placement["pod"] for placement in placements(done)] == ["shop/web-1", "shop/web-3"]


def rolled_out(image: str = "w", uid: str = "d1", **labels: str) -> list[dict[str, Any]]:
    """A Deployment of which one pod runs on each node, by a ReplicaSet."""
    term = APART["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    keyed = {**term, "matchLabelKeys": ["pod-template-hash"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [keyed]}
    deployment = workload(replicas=4, affinity={"podAntiAffinity": required})
    deployment["metadata"]["uid"] = "d1"
    hashed = {"app": "web", "pod-template-hash": "abc", **labels}
    template = deployment["spec"]["template"]
    spec = {**template["spec"], "containers": [{**container(), "image": image}]}
    replica_set = workload("ReplicaSet", 3)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}
    replica_set["metadata"].update(
        name="web-abc", uid="r1", ownerReferences=[{**owner, "controller": True}]
    )
    metadata = {"creationTimestamp": None, "labels": hashed}
    replica_set["spec"]["template"] = {"metadata": metadata, "spec": spec}
    made_by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "r1"}
    running = [
        pod(f"web-abc-{n}", uid=f"p{n}", owner=made_by, nodeName=f"node-{n}") for n in (1, 2, 3)
    ]
    for record in running:
        record["metadata"]["labels"] = hashed
    return [deployment, replica_set, *running]


def test_a_workload_that_is_only_scaled_keeps_its_hash() -> None:
    assert nodes(simulate(*rolled_out())) == [""]


@pytest.mark.parametrize("other", [{"image": "v2"}, {"tier": "x"}, {"uid": "d0"}])
def test_another_template_or_owner_gives_another_hash(other: dict[str, str]) -> None:
    assert nodes(simulate(*rolled_out(**other)), "Deployment") == ["node-1"]


def test_a_change_of_the_replicas_keeps_the_hash_too(tmp_path: Any) -> None:
    deployment, *others = rolled_out()
    change = tmp_path / "change.yaml"
    change.write_text(manifests(deployment))
    fewer = {**deployment, "spec": {**deployment["spec"], "replicas": 3}}
    assert nodes(simulate(fewer, *others)) == []
    done = simulate(fewer, *others, more=("--change", str(change)))
    assert nodes(done) == [""]
