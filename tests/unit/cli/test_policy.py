"""The command line leaves alone what the operator would, and fills selectors as it would."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedclass.domain import names
from tests.stubapi import StubApi, failure, page, stub_api
from tests.unit.cli.running import NODES, Done, manifests, schedclass

REPOSITORY = Path(__file__).resolve().parents[3]
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}"
TENANTS = f"/apis/{names.TENANT_API_VERSION}/tenants"


def namespace(name: str) -> dict[str, Any]:
    labels = {names.CLASS_KEY: "dc-west"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def scheduling_class(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "dc-west"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": spec or {"nodeSelector": {"topology.kubernetes.io/region": "west"}},
    }


def check(name: str, *arguments: str) -> Done:
    given = manifests(scheduling_class(), namespace(name))
    return schedclass("check", *arguments, "-f", NODES, "-f", "-", "-o", "json", stdin=given)


def excluded(done: Done) -> list[str]:
    return [
        found["subject"]["name"]
        for found in done.document["violations"]
        if found["finding"]["reason"] == "NamespaceExcluded"
    ]


@pytest.mark.parametrize("name", [*names.CLUSTER_NAMESPACES, names.INSTALL_NAMESPACE])
@pytest.mark.parametrize("patterns", ["", "--excluded-namespaces=infra-*"])
def test_what_the_cluster_and_the_operator_live_on_is_excluded_whatever_the_patterns_say(
    name: str, patterns: str
) -> None:
    assert excluded(check(name, *filter(None, [patterns]))) == [name]


def test_the_operators_own_namespace_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert excluded(check("placement")) == []
    assert excluded(check("placement", "--operator-namespace", "placement")) == ["placement"]
    monkeypatch.setenv("SCHEDCLASS_NAMESPACE", "placement")
    assert excluded(check("placement")) == ["placement"]


def test_a_name_that_no_namespace_can_have_is_refused_with_one_sentence() -> None:
    done = check("placement", "--operator-namespace", "cozy-*")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: --operator-namespace cozy-* must have")
    assert done.err.count("\n") == 1


def webhooks(installed_in: str) -> list[dict[str, Any]]:
    def configuration(*hooks: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": "any"}, "webhooks": list(hooks)}

    others = {"name": "pods.example.com", "clientConfig": {"service": {"namespace": "others"}}}
    ours = {
        "name": names.POD_WEBHOOK,
        "clientConfig": {"service": {"namespace": installed_in, "name": "schedclass-webhook"}},
    }
    return [configuration(), configuration(others), configuration(others, ours)]


def scripted(stub: StubApi, config: Path) -> None:
    """A cluster with two namespaces that have a class."""
    config.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "clusters": [{"name": "here", "cluster": {"server": stub.url}}],
                "users": [{"name": "me", "user": {"token": "t"}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            }
        )
    )
    found = [namespace("placement"), namespace(names.INSTALL_NAMESPACE)]
    for ns in found:
        ns["metadata"]["uid"] = f"uid-{ns['metadata']['name']}"
    stub.script("GET", "/api/v1/namespaces", page(found, "1"))
    stub.script("GET", CLASSES, page([scheduling_class()], "1"))
    for path in ("/api/v1/nodes", "/api/v1/pods", TENANTS):
        stub.script("GET", path, page([], "1"))


PATTERNS = "--excluded-namespaces=kube-*"


async def test_a_cluster_tells_where_its_operator_runs(tmp_path: Path) -> None:
    async with stub_api() as stub:
        scripted(stub, tmp_path / "config")
        stub.script("GET", WEBHOOKS, page(webhooks("placement"), "1"))
        arguments = ("check", PATTERNS, "-o", "json", "--kubeconfig", tmp_path / "config")
        done = await asyncio.to_thread(schedclass, *arguments)
        assert excluded(done) == ["placement"]
        told = (*arguments, "--operator-namespace", names.INSTALL_NAMESPACE)
        assert excluded(await asyncio.to_thread(schedclass, *told)) == [names.INSTALL_NAMESPACE]


async def test_who_may_not_read_where_the_operator_runs_gets_the_documented_place(
    tmp_path: Path,
) -> None:
    async with stub_api() as stub:
        scripted(stub, tmp_path / "config")
        stub.script("GET", WEBHOOKS, failure(403, "Forbidden", "no"))
        arguments = ("check", PATTERNS, "-o", "json", "--kubeconfig", tmp_path / "config")
        assert excluded(await asyncio.to_thread(schedclass, *arguments)) == [
            names.INSTALL_NAMESPACE
        ]


@pytest.mark.parametrize(
    ("option", "placed"),
    [([], False), (["--label-keys=app"], False), (["--label-keys="], True)],
    ids=["the default", "one", "none"],
)
def test_no_label_keys_fill_no_selector(option: list[str], *, placed: bool) -> None:
    labels = dict.fromkeys((*names.LINEAGE_LABELS, "app"), "web")
    term = {"topologyKey": "topology.kubernetes.io/region"}
    apart = scheduling_class(
        podAntiAffinity={"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    )

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": name, "namespace": "tenant-a", "labels": labels}
        if spec:
            metadata["uid"] = f"uid-{name}"
            metadata["annotations"] = {names.CLASS_KEY: "dc-west"}
        spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "c"}], **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    running = [pod("west", nodeName="node-1"), pod("east", nodeName="node-3")]
    given = manifests(apart, namespace("tenant-a"), *running, pod("next"))
    done = schedclass("simulate", *option, "-f", NODES, "-f", "-", "-o", "json", stdin=given)
    assert (done.code == 0) is placed, done.out


def test_names_that_the_chart_has_as_well_are_the_same_there() -> None:
    templates = REPOSITORY / "helm/templates"
    listed = " ".join(f'"{name}"' for name in names.CLUSTER_NAMESPACES)
    assert f"(list {listed})" in (templates / "_helpers.tpl").read_text()
    hooks = (templates / "webhook-configurations.yaml").read_text()
    assert f"  - name: {names.POD_WEBHOOK}\n" in hooks
    install = (REPOSITORY / "README.md").read_text()
    assert f"--namespace {names.INSTALL_NAMESPACE} " in install
