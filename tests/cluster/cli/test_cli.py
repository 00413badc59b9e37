"""Tree, explain, check and usage on a real cluster, as its admin and as a tenant."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import ApiError, Cluster, Installation, Kubectl, eventually
from schedclass.cli import manifests
from schedclass.domain import names
from schedclass.kube.client import PAGE_SIZE
from tests.cluster.cli.conftest import Cli
from tests.cluster.grants import wait_granted
from tests.cluster.leftovers import remove_workloads
from tests.cluster.objects import REGION, Json, class_path, pod, pods_path
from tests.cluster.tenants import Tenants
from tests.unit.cli.running import Done, schedclass

GOLDEN = Path(__file__).parent / "golden"
ROOT, CHILD = "tenant-cli", "tenant-cli-shop"
ALONE, CLASS = "tenant-alone", "cli-alone"


@pytest.fixture(scope="module")
def shop(session_cluster: Cluster, session_operator: Installation) -> Iterator[Cluster]:
    """`tenant-cli` in region west, and `tenant-cli-shop` below it that wishes for another class."""
    session_cluster.heal()
    session_operator.heal()
    remove_workloads(session_cluster)
    tenants = Tenants(session_cluster)
    tenants.create(ROOT, wants="dc-west")
    tenants.create(CHILD, wants="dc-east", with_account=True)
    # Its class is nobody else's, so that what is said of it does not depend on other tests.
    tenants.create_class(CLASS, nodeSelector={REGION: "west"})
    tenants.create(ALONE, wants=CLASS)
    tenants.settle({ROOT: "dc-west", CHILD: "dc-west", ALONE: CLASS})
    cluster = session_cluster
    cluster.admin.create(pods_path(CHILD), pod("impossible", nodeSelector={"none": "such"}))
    cluster.admin.create(pods_path(CHILD), pod("preset", nodeName="node-1"))
    eventually("the scheduler has spoken", lambda: _condition(cluster, "impossible"))
    events = f"/api/v1/namespaces/{CHILD}/events?fieldSelector=involvedObject.name%3Dimpossible"
    eventually("its Event is there", lambda: cluster.admin.get(events)["items"])
    yield cluster
    for name in ("impossible", "preset"):
        path = f"{pods_path(CHILD)}/{name}"
        cluster.admin.request("DELETE", path, {"gracePeriodSeconds": 0})
    tenants.clean_up()
    eventually("nobody has the class", lambda: _deleted(cluster, class_path(CLASS)))


def _deleted(cluster: Cluster, path: str) -> bool:
    with contextlib.suppress(ApiError):
        cluster.admin.delete(path)
    return cluster.admin.find(path) is None


def _condition(cluster: Cluster, name: str) -> Json | None:
    found = cluster.admin.get(f"{pods_path(CHILD)}/{name}")["status"].get("conditions") or ()
    return next((c for c in found if c["type"] == "PodScheduled" and c.get("message")), None)


def stable(text: str, cluster: Cluster) -> str:
    """Without what differs from run to run."""
    text = text.replace(cluster.url, "https://cluster")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UID", text)
    return re.sub(r"\(x\d+\)", "(xN)", text)


def expect_golden(name: str, done: Done, cluster: Cluster) -> None:
    text = stable(f"exit {done.code}\n{done.out}--- notes\n{done.err}", cluster)
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("tree", ROOT),
        ("tree", ROOT, "-o", "json"),
        ("check", "-n", CHILD),
        ("check", "-n", CHILD, "-o", "json"),
        ("explain", "namespace", CHILD),
        ("explain", "namespace", CHILD, "-o", "json"),
        ("explain", "pod", "impossible", "-n", CHILD),
        ("explain", "pod", "impossible", "-n", CHILD, "-o", "json"),
        ("explain", "class", CLASS),
        ("explain", "class", CLASS, "-o", "json"),
        ("usage", CLASS),
        ("usage", CLASS, "-o", "json"),
        ("simulate", "--set-class", f"{ROOT}=dc-east", "-n", CHILD),
        ("simulate", "--set-class", f"{ROOT}=dc-east", "-n", CHILD, "-o", "json"),
    ],
    ids=" ".join,
)
def test_the_output_on_a_cluster_is_as_it_was_read_and_approved(
    shop: Cluster, cli: Cli, arguments: tuple[str, ...]
) -> None:
    done = cli(*arguments)
    if "check" in arguments:
        done = Done(done.code, re.sub(r"\d+( |,|$)", r"N\1", done.out, flags=re.M), done.err)
    expect_golden(f"{'-'.join(arguments).replace('=', '_')}.txt", done, shop)


def test_explaining_a_pending_pod_shows_the_scheduler_s_own_word_beside_ours(
    shop: Cluster, cli: Cli
) -> None:
    done = cli("explain", "pod", "impossible", "-n", CHILD, "-o", "json")
    told = done.document["explanation"]
    real = _condition(shop, "impossible")
    assert real is not None
    assert told["schedulerSays"]["message"] == real["message"]
    # Both count the same nodes for the same reasons.
    assert told["judgement"]["message"].rstrip(".") in real["message"]
    assert any("FailedScheduling" in event for event in told["events"])


def test_a_pod_of_the_past_is_explained_where_it_runs(shop: Cluster, cli: Cli) -> None:
    done = cli("explain", "pod", "preset", "-n", CHILD, "-o", "json")
    told = done.document["explanation"]
    assert told["outcome"].startswith("it runs on node-1; 2 of 3 nodes would take it now")
    assert {v["node"]: v["passed"] for v in told["judgement"]["verdicts"]} == {
        "node-1": True,
        "node-2": True,
        "node-3": False,
    }


def test_usage_names_the_ancestor_through_whom_a_class_is_used(shop: Cluster, cli: Cli) -> None:
    done = cli("usage", "dc-west", "-o", "json")
    uses = {use["namespace"]: use for use in done.document["usage"]["uses"]}
    assert uses[ROOT]["through"] == ROOT
    assert uses[CHILD]["through"] == ROOT
    east = cli("usage", "dc-east", "-o", "json").document["usage"]
    assert CHILD in east["overridden"]


def test_nothing_is_written_to_the_cluster(shop: Cluster, cli: Cli) -> None:
    since = shop.audit.mark()
    for arguments in (
        ("tree",),
        ("check", "-A"),
        ("usage", "dc-west"),
        ("explain", "pod", "impossible", "-n", CHILD),
        ("simulate", "--set-class", f"{ROOT}=dc-east"),
        ("report", "-o", "-"),
    ):
        assert cli(*arguments).code in (0, 1)
    asked = [
        event for event in shop.audit.events(since) if "schedclass" in event.get("userAgent", "")
    ]
    ours = [event for event in asked if "(cli)" in event["userAgent"]]
    assert ours
    assert {event["verb"] for event in ours} == {"list"}
    assert all(f"limit={PAGE_SIZE}" in event["requestURI"] for event in ours)


def test_a_what_if_names_the_pods_that_would_break(shop: Cluster, cli: Cli) -> None:
    done = cli("simulate", "--set-class", f"{ROOT}=dc-east", "-o", "json")
    impact = done.document["impact"]
    assert {touched["namespace"] for touched in impact["tenants"]} == {ROOT, CHILD}
    broken = [violation["subject"] for violation in impact["breaking"]]
    assert broken == [{"kind": "Pod", "name": "preset", "namespace": CHILD}]
    assert done.code == 1


# --- a tenant with rights in its namespace only ------------------------------------------------


@pytest.fixture(scope="module")
def tenant_user(shop: Cluster) -> Path:
    """A user who may view pods and Events of `tenant-cli-shop`, and nothing else by itself."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{CHILD}"
    rules = [{"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    shop.admin.create(f"{rbac}/roles", {"metadata": {"name": "viewer"}, "rules": rules})
    shop.admin.create(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
            "subjects": [
                {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
            ],
        },
    )
    wait_granted(shop.identities.api("alice"), "list", "pods", namespace=CHILD)
    return shop.identities.kubeconfig("alice")


def test_a_tenant_sees_why_its_pod_waits_and_what_it_cannot_see(
    tenant_user: Path, cli: Cli
) -> None:
    done = cli("explain", "pod", "impossible", "-n", CHILD, kubeconfig=tenant_user)
    assert done.code == 0
    assert "note: nodes: not allowed to list nodes" in done.err
    assert f"note: namespaces: not allowed to list namespaces, nor to get {CHILD}" in done.err
    assert f"note: pods: not allowed to list pods of all namespaces; only those in {CHILD}" in (
        done.err
    )
    assert 'pinned to "dc-west"' in done.out or 'names class "dc-west"' in done.out
    assert "the scheduler says: PodScheduled=False Unschedulable: 0/3 nodes" in done.out
    assert "what each node says of it is not known" in done.out


def test_a_tenant_s_document_says_what_is_unknown(tenant_user: Path, cli: Cli) -> None:
    done = cli("check", "-n", CHILD, "-o", "json", kubeconfig=tenant_user)
    assert done.code == 0
    unknown = {entry["part"] for entry in done.document["unknown"]}
    assert unknown >= {"nodes", "namespaces", "pods"}
    assert done.document["notJudged"]


def test_a_page_shows_what_its_reader_may_see_and_says_what_not(
    shop: Cluster, tenant_user: Path, cli: Cli
) -> None:
    page = cli("report", "-o", "-").out
    assert f"<bdi>{shop.url}</bdi>, as of <time" in page
    assert f"inherited from <bdi>{ROOT}</bdi>" in page
    assert "wish for <bdi>dc-east</bdi> overridden" in page
    own = cli("report", "-o", "-", "-n", CHILD, kubeconfig=tenant_user)
    assert own.code == 0
    assert "<b>?</b> nodes" in own.out
    assert "Nodes are not all known: not allowed to list nodes" in own.out
    assert "None that can be seen." in own.out


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("tree",), ""),
        (("usage", "dc-west"), "no namespace that can be seen is bound to it"),
        (("explain", "class", "dc-west"), 'whether class "dc-west" exists is not known'),
        (("explain", "namespace", CHILD), ""),
    ],
)
def test_a_tenant_is_told_with_each_command_what_it_cannot_see(
    tenant_user: Path, cli: Cli, arguments: tuple[str, ...], shown: str
) -> None:
    done = cli(*arguments, "-n", CHILD, kubeconfig=tenant_user)
    assert "note: namespaces: not allowed to list namespaces" in done.err
    assert shown in done.out
    assert "does not exist" not in done.out + done.err
    assert "--all" not in done.err


def test_a_tenant_with_no_right_to_ask_gets_one_sentence(tenant_user: Path, cli: Cli) -> None:
    done = cli("simulate", "-n", CHILD, kubeconfig=tenant_user)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "error: nothing can be placed without nodes: not allowed to list nodes"
    )


def test_a_tenant_that_may_get_its_namespace_sees_its_class_as_it_is_written(
    shop: Cluster, tenant_user: Path, cli: Cli
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [CHILD], "verbs": ["get"]}
    ]
    shop.admin.create(f"{rbac}/clusterroles", {"metadata": {"name": "own-ns"}, "rules": rules})
    binding: dict[str, Any] = {
        "metadata": {"name": "own-ns"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "own-ns",
        },
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    shop.admin.create(f"{rbac}/clusterrolebindings", binding)
    try:
        wait_granted(shop.identities.api("alice"), "get", "namespaces", name=CHILD)
        done = cli("explain", "namespace", CHILD, "-n", CHILD, kubeconfig=tenant_user)
        assert f'class "dc-west" applies to namespace {CHILD}, inherited from {ROOT}' in done.out
        assert "ParentMissing" not in done.out
        rows = cli("tree", "-n", CHILD, "-o", "json", kubeconfig=tenant_user).document
        assert [row["name"] for row in rows["namespaces"]] == [CHILD]
    finally:
        shop.admin.delete(f"{rbac}/clusterrolebindings/own-ns")
        shop.admin.delete(f"{rbac}/clusterroles/own-ns")


# --- connection --------------------------------------------------------------------------------


def test_an_api_server_that_is_not_there_is_told_in_one_sentence(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    done = schedclass("tree", "--kubeconfig", path)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert done.err == (
        "error: the API server https://127.0.0.1:1 cannot be reached: connection refused\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--kubeconfig", "/nowhere"), "kubeconfig /nowhere does not exist"),
        (("--context", "other"), "other"),
    ],
)
def test_a_kubeconfig_that_does_not_fit_is_told_in_one_sentence(
    cluster: Cluster, arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    done = schedclass("tree", *arguments)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert sentence in done.err


def test_kubectl_finds_it_as_a_plugin(shop: Cluster, kubectl: Kubectl) -> None:
    here = Path(sys.executable).parent
    done = subprocess.run(
        ["kubectl", "schedclass", "usage", "dc-west", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(here), "KUBECONFIG": str(shop.kubeconfig), "HOME": str(shop.folder)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "ClassUsage"
    del kubectl


def test_manifests_are_read_as_kubectl_create_reads_them(kubectl: Kubectl, tmp_path: Path) -> None:
    """With a server, kubectl also knows kinds; our reading of scalars is the same."""
    text = """
apiVersion: v1
kind: ConfigMap
metadata: {name: x, namespace: default, annotations: &a {p: q}}
data: {t: "12:30", d: 2020-01-01, e: 1e3, y: y, o: 010, n: ~, m: {<<: *a, z: 0x1F}}
---
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}]}
"""
    file = tmp_path / "mixed.yaml"
    file.write_text(text)
    printed = kubectl(
        "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", str(file)
    )
    theirs: list[Json] = []
    decoder, position = json.JSONDecoder(), 0
    while position < len(printed.rstrip()):
        value, end = decoder.raw_decode(printed, position)
        position = end + len(printed[end:]) - len(printed[end:].lstrip())
        theirs += value["items"] if value["kind"] == "List" else [value]
    ours = [m.obj for m in manifests.read_all([str(file)], recursive=False, say=lambda _: None)]
    assert [dict(obj) for obj in ours] == theirs
    assert names.KIND not in {obj["kind"] for obj in ours}
