"""Pods that break or escape their class: counted, told, and forgotten once they are healed."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controlplane import Api, ApiError, Cluster, Installation, Kubectl, eventually, nodes
from schedclass.domain import names
from schedclass.domain.compliance import COUNTED_KINDS
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CLASSES,
    NODES,
    WEBHOOKS,
    Json,
    class_path,
    conditions,
    pod,
    pods_path,
)
from tests.cluster.tenants import Tenants, unique

POOL = "example.com/pool"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def counted(api: Api, name: str) -> tuple[Any, Any, str]:
    """Pods, violating pods and the reason of Compliant, as the status of a class has them."""
    cls = api.get(class_path(name))
    reason = conditions(cls).get("Compliant", {}).get("reason", "")
    return cls["status"].get("pods"), cls["status"].get("violatingPods"), reason


def wait_counted(api: Api, name: str, pods: int, violating: int) -> None:
    reason = Reason.PODS_VIOLATING if violating else Reason.NO_VIOLATIONS
    expected = (pods, violating, reason.value)

    def matches() -> bool:
        found = counted(api, name)
        assert found == expected
        return True

    eventually(f"{name} is {expected}", matches)


def series(operator: Installation, process: str, class_name: str) -> dict[tuple[str, str], float]:
    """Metric and kind of all that a process shows of a class."""
    url = f"http://127.0.0.1:{operator.probe_port(process)}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix("schedclass_"), sample.labels.get("kind", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("class") == class_name
    }


def shown(operator: Installation, class_name: str) -> dict[tuple[str, str], float]:
    """What all controllers together show of a class; only the leader shows anything."""
    each = [series(operator, name, class_name) for name in operator.controllers]
    assert sum(map(bool, each)) <= 1
    return {key: value for found in each for key, value in found.items()}


@pytest.fixture
def pool(api: Api, tenants: Tenants) -> Iterator[tuple[str, list[str], str]]:
    """A class for two nodes of the test's own, these nodes, and the value of their label."""
    value = unique("pool")
    made = [unique("node"), unique("node")]
    tenants.cluster.add_nodes(nodes.node(name, "a", labels={POOL: value}) for name in made)
    tenants.cluster.wait_nodes_ready(made)
    yield tenants.create_class(nodeSelector={POOL: value}), made, value
    for node in made:
        api.delete(f"{NODES}/{node}")


def node_of(api: Api, namespace: str, name: str) -> str:
    found = api.get(f"{pods_path(namespace)}/{name}")["spec"].get("nodeName")
    assert found, "it waits"
    return str(found)


def test_a_pod_whose_node_is_relabelled_is_counted_and_told_until_it_is_healed(
    operator: Installation,
    api: Api,
    kubectl: Kubectl,
    tenants: Tenants,
    pool: tuple[str, list[str], str],
) -> None:
    name, made, value = pool
    namespace = tenants.create(wants=name, with_account=True)
    tenants.settle({namespace: name})
    api.create(pods_path(namespace), pod("web"))
    node = eventually("the pod is placed", lambda: node_of(api, namespace, "web"))
    assert node in made
    wait_counted(api, name, 1, 0)
    kubectl("label", "node", node, f"{POOL}=other", "--overwrite")
    wait_counted(api, name, 1, 1)
    cls = api.get(class_path(name))
    assert conditions(cls)["Compliant"]["status"] == "False"
    assert conditions(cls)["Ready"]["status"] == "True"
    row = kubectl("get", "sclass", name, "--no-headers").split()
    assert row[:6] == [name, "True", "1", "1", "1", "1"]
    told = tenants.wait_event(namespace, Reason.PLACEMENT_VIOLATION, about="web")
    assert f'node "{node}" has "other"' in told["message"]
    about_class = tenants.wait_event("default", Reason.PLACEMENT_VIOLATION, about=name)
    assert "kubectl schedclass check" in about_class["message"]
    kinds = {("violating_pods", kind.value): 0.0 for kind in COUNTED_KINDS}
    found = eventually("the leader shows it", lambda: shown(operator, name))
    assert kinds | {("violating_pods", "node"): 1, ("class_pods", ""): 1} == {
        key: count for key, count in found.items() if "pods" in key[0]
    }
    kubectl("label", "node", node, f"{POOL}={value}", "--overwrite")
    wait_counted(api, name, 1, 0)
    assert conditions(api.get(class_path(name)))["Compliant"]["status"] == "True"


@pytest.fixture
def unguarded(api: Api, cluster: Cluster) -> Iterator[None]:
    """Neither webhook nor policy looks at pods for the time of the test."""
    webhook = f"{WEBHOOKS}/mutatingwebhookconfigurations/schedclass"
    binding = f"{WEBHOOKS}/validatingadmissionpolicybindings/schedclass-pods"
    before = api.get(webhook)["webhooks"]
    actions = api.get(binding)["spec"]["validationActions"]
    never = [{"name": "never", "expression": "false"}]
    silenced = [
        {**hook, "matchConditions": never} if hook["name"].startswith("pods") else hook
        for hook in before
    ]

    def set_webhooks(hooks: list[Json]) -> None:
        patch = [{"op": "replace", "path": "/webhooks", "value": hooks}]
        api.request("PATCH", webhook, patch, headers=JSON_PATCH)

    set_webhooks(silenced)
    api.merge_patch(binding, {"spec": {"validationActions": ["Warn"]}})
    yield
    set_webhooks(before)
    api.merge_patch(binding, {"spec": {"validationActions": actions}})


def test_a_pod_that_came_past_admission_is_found_by_the_sweep(
    request: pytest.FixtureRequest, operator: Installation, api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class()
    namespace = tenants.create(wants=name, with_account=True)
    tenants.settle({namespace: name})
    wait_counted(api, name, 0, 0)
    request.getfixturevalue("unguarded")

    def created_unpinned() -> bool:
        """Both take a moment to be heeded; until then the pod is pinned, or refused."""
        try:
            made = api.create(f"{pods_path(namespace)}?dryRun=All", pod("escaped"))
        except ApiError as error:
            if error.status != 403:
                raise
            return False
        return names.CLASS_KEY not in (made["metadata"].get("annotations") or {})

    eventually("pods come past admission", created_unpinned)
    api.create(pods_path(namespace), pod("escaped"))
    wait_counted(api, name, 1, 1)
    told = tenants.wait_event(namespace, Reason.BYPASS_DETECTED, about="escaped")
    assert 'scheduled by "default-scheduler"' in told["message"]
    found = shown(operator, name)
    assert found["violating_pods", "bypass"] == 1
    api.request("DELETE", f"{pods_path(namespace)}/escaped", {"gracePeriodSeconds": 0})
    wait_counted(api, name, 0, 0)


def test_what_runs_already_when_a_class_comes_is_never_taken_for_nothing(
    api: Api, tenants: Tenants
) -> None:
    """Nobody watches pods of other schedulers, and the next search for them may be far off."""
    name = tenants.create_class()
    wait_counted(api, name, 0, 0)
    namespace = tenants.create(with_account=True)
    api.create(pods_path(namespace), pod("old"))
    version = api.get(CLASSES)["metadata"]["resourceVersion"]
    tenants.ask(namespace, name)
    wait_counted(api, name, 1, 1)
    # The API server tells once more all that was written since.
    since = f"watch=1&timeoutSeconds=1&resourceVersion={version}"
    told = api.text(f"{CLASSES}?{since}&fieldSelector=metadata.name%3D{name}").splitlines()
    written = [json.loads(line)["object"] for line in told]
    bound = [cls for cls in written if cls["status"]["boundNamespaces"]]
    assert bound
    assert not [cls for cls in bound if conditions(cls)["Compliant"]["status"] == "True"]
    api.request("DELETE", f"{pods_path(namespace)}/old", {"gracePeriodSeconds": 0})


def test_nothing_is_shown_of_a_class_that_is_gone(
    operator: Installation, api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    namespace = tenants.create(wants=name, with_account=True)
    tenants.settle({namespace: name})
    api.create(pods_path(namespace), pod("waits"))
    wait_counted(api, name, 1, 0)
    assert ("class_pods", "") in shown(operator, name)
    tenants.ask(namespace, None)
    tenants.settle({namespace: None})
    eventually("nobody uses it", lambda: not api.get(class_path(name))["status"]["boundNamespaces"])
    api.delete(class_path(name))
    eventually("nothing of it is shown", lambda: not shown(operator, name))


def test_what_was_said_of_pods_outlives_the_leader(
    operator: Installation, api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class()
    namespace = tenants.create(wants=name, with_account=True)
    tenants.settle({namespace: name})
    api.create(pods_path(namespace), pod("web"))
    wait_counted(api, name, 1, 0)
    eventually("it is placed", lambda: node_of(api, namespace, "web"))
    before = api.get(class_path(name))["metadata"]["resourceVersion"]
    operator.rolling_restart(operator.controllers)
    eventually("a new leader shows it", lambda: ("class_pods", "") in shown(operator, name))
    assert api.get(class_path(name))["metadata"]["resourceVersion"] == before
