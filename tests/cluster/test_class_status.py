"""What a SchedulingClass says of itself, to people, `kubectl wait`, GitOps engines and consoles."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import Api, ApiError, Installation, Kubectl, KubectlError, eventually, nodes
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CLASSES,
    NODES,
    WEBHOOKS,
    Json,
    annotations,
    class_path,
    conditions,
    scheduling_class,
)
from tests.cluster.tenants import Tenants, unique

NO_MATCH: Json = {"nodeSelector": {"example.com/pool": "none"}}
ONLY_THE_WEBHOOK_SEES: Json = {"nodeSelector": {"not a key": "x"}}
"""Map keys are beyond what a CRD schema can judge."""


def ready(cls: Json) -> tuple[str, str]:
    condition = conditions(cls).get("Ready", {})
    return condition.get("status", ""), condition.get("reason", "")


def wait_ready(api: Api, name: str, status: str, reason: Reason) -> Json:
    """Waits until the class is observed as it stands and Ready says this; returns the class."""

    def observed() -> Json:
        cls = api.get(class_path(name))
        assert cls["status"]["observedGeneration"] == cls["metadata"]["generation"]
        assert ready(cls) == (status, reason.value)
        return cls

    return eventually(f"{name} is Ready={status}/{reason}", observed)


def counts(api: Api, name: str) -> tuple[Any, Any, Any]:
    status = api.get(class_path(name))["status"]
    keys = ("matchingNodes", "readyNodes", "boundNamespaces")
    return tuple(status.get(key) for key in keys)


# --- a valid class --------------------------------------------------------------------------------


def test_a_new_class_becomes_ready_and_waiters_see_it(
    api: Api, kubectl: Kubectl, tenants: Tenants
) -> None:
    name = tenants.create_class(nodeSelector={"topology.kubernetes.io/zone": "a"})
    kubectl("wait", f"sclass/{name}", "--for=condition=Ready", "--timeout=10s")
    cls = wait_ready(api, name, "True", Reason.AVAILABLE)
    shown = {kind: (c["status"], c["reason"]) for kind, c in conditions(cls).items()}
    assert (
        shown.items()
        >= {
            "Ready": ("True", "Available"),
            "Accepted": ("True", "Valid"),
            "NodesAvailable": ("True", "NodesMatched"),
            "InUse": ("False", "Unreferenced"),
        }.items()
    )
    assert {c["observedGeneration"] for c in conditions(cls).values()} == {1}
    assert counts(api, name) == (1, 1, 0)


def test_a_class_is_born_unobserved(api: Api, tenants: Tenants) -> None:
    born = api.create(CLASSES, scheduling_class(unique("class")))
    assert born["status"] == {"observedGeneration": -1}
    sent = scheduling_class(unique("class")) | {"status": {"observedGeneration": 1}}
    assert api.create(CLASSES, sent)["status"] == {"observedGeneration": -1}


def test_columns_short_name_and_categories(kubectl: Kubectl, api: Api, tenants: Tenants) -> None:
    name = tenants.create_class()
    tenants.create(wants=name)
    eventually("it is bound", lambda: counts(api, name) == (3, 3, 1))
    table = kubectl("get", "sclass", name, "-o", "wide").splitlines()
    head = "NAME READY NODES NAMESPACES PODS VIOLATIONS REASON MESSAGE AGE"
    assert table[0].split() == head.split()
    assert table[1].split()[:4] == [name, "True", "3", "1"]
    assert "Available" in table[1]
    for category in ("cozystack", "scheduling"):
        assert f"schedulingclass.cozystack.io/{name}" in kubectl("get", category, "-o", "name")


def test_the_message_of_in_use_gives_the_command_that_lists_the_namespaces(
    kubectl: Kubectl, api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class()
    namespaces = {tenants.create(wants=name), tenants.create(wants=name)}
    eventually("it is bound", lambda: counts(api, name)[2] == 2)
    message = conditions(api.get(class_path(name)))["InUse"]["message"]
    command = message.partition("list them with: kubectl ")[2].split()
    listed = kubectl(*command, "-o", "jsonpath={.items[*].metadata.name}")
    assert set(listed.split()) == namespaces


def test_no_kopf_state_is_left_on_a_class(api: Api, tenants: Tenants) -> None:
    name = tenants.create_class()
    tenants.settle({tenants.create(wants=name): name})
    wait_ready(api, name, "True", Reason.AVAILABLE)
    text = json.dumps(api.get(class_path(name)))
    assert "kopf" not in text
    assert annotations(api.get(class_path(name))) == {}


def test_a_class_with_large_annotations_is_served_like_any_other(
    api: Api, tenants: Tenants
) -> None:
    name = unique("class")
    body = scheduling_class(name)
    body["metadata"]["annotations"] = {f"example.com/a{n}": "x" * 10_000 for n in range(20)}
    api.create(CLASSES, body)
    wait_ready(api, name, "True", Reason.AVAILABLE)
    assert annotations(api.get(class_path(name))) == body["metadata"]["annotations"]


# --- nodes ----------------------------------------------------------------------------------------


@pytest.fixture
def pool(api: Api, tenants: Tenants) -> Iterator[tuple[str, list[str]]]:
    """A class for a pool of two nodes of the test's own, and their names."""
    label = {"example.com/pool": unique("pool")}
    made = [unique("node"), unique("node")]
    tenants.cluster.add_nodes(nodes.node(name, "a", labels=label) for name in made)
    tenants.cluster.wait_nodes_ready(made)
    name = tenants.create_class(nodeSelector=label)
    eventually("both nodes count", lambda: counts(api, name) == (2, 2, 0))
    yield name, made
    for node in made:
        api.delete(f"{NODES}/{node}")


def test_cordoned_and_relabelled_nodes_change_the_counts(
    api: Api, kubectl: Kubectl, pool: tuple[str, list[str]]
) -> None:
    name, (first, second) = pool
    kubectl("cordon", first)
    eventually("one is cordoned", lambda: counts(api, name) == (2, 1, 0))
    kubectl("cordon", second)
    eventually("both are cordoned", lambda: counts(api, name) == (2, 0, 0))
    cls = wait_ready(api, name, "True", Reason.AVAILABLE)  # maintenance is no fault of the class
    assert conditions(cls)["NodesAvailable"]["reason"] == Reason.ALL_NODES_CORDONED
    kubectl("uncordon", first)
    eventually("one takes pods", lambda: counts(api, name) == (2, 1, 0))
    kubectl("label", "node", first, second, "example.com/pool-")
    wait_ready(api, name, "False", Reason.NO_MATCHING_NODES)
    assert counts(api, name) == (0, 0, 0)


def test_a_class_without_nodes_is_not_ready_and_an_event_says_so(
    api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class(**NO_MATCH)
    cls = wait_ready(api, name, "False", Reason.NO_MATCHING_NODES)
    assert "Stalled" not in conditions(cls)
    assert "label nodes or correct the class" in conditions(cls)["Ready"]["message"]
    event = tenants.wait_event("default", Reason.NO_MATCHING_NODES, about=name)
    assert event["type"] == "Warning"


# --- an invalid class that was stored before the webhook was there --------------------------------


@pytest.fixture
def unguarded(api: Api) -> Iterator[None]:
    """No webhook validates classes for the time of the test."""
    path = f"{WEBHOOKS}/validatingwebhookconfigurations/schedclass"
    never = [{"name": "never", "expression": "false"}]
    patch = [{"op": "add", "path": "/webhooks/0/matchConditions", "value": never}]
    undo = [{"op": "remove", "path": "/webhooks/0/matchConditions"}]
    json_patch = {"Content-Type": "application/json-patch+json"}
    api.request("PATCH", path, patch, headers=json_patch)
    tried = f"{CLASSES}?dryRun=All"
    wrong = scheduling_class("tried", **ONLY_THE_WEBHOOK_SEES)
    eventually("nobody validates", lambda: _accepted(api, tried, wrong))
    yield
    api.request("PATCH", path, undo, headers=json_patch)
    eventually("classes are validated", lambda: not _accepted(api, tried, wrong))


def _accepted(api: Api, path: str, body: Json) -> bool:
    try:
        api.create(path, body)
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    return True


@pytest.mark.usefixtures("unguarded")
def test_an_invalid_class_is_stalled_says_why_and_comes_clean_once_corrected(
    api: Api, kubectl: Kubectl, tenants: Tenants
) -> None:
    name = tenants.create_class(**ONLY_THE_WEBHOOK_SEES)
    cls = wait_ready(api, name, "False", Reason.INVALID_SPEC)
    found = conditions(cls)
    assert (found["Stalled"]["status"], found["Accepted"]["status"]) == ("True", "False")
    assert found["NodesAvailable"]["status"] == "Unknown"
    for kind in ("Ready", "Stalled", "Accepted"):
        assert 'spec.nodeSelector["not a key"]' in found[kind]["message"]
    assert {"matchingNodes", "readyNodes"}.isdisjoint(cls["status"])
    with pytest.raises(KubectlError):
        kubectl("wait", f"sclass/{name}", "--for=condition=Ready", "--timeout=0s")
    kubectl("wait", f"sclass/{name}", "--for=condition=Stalled", "--timeout=5s")
    tenants.wait_event("default", Reason.INVALID_SPEC, about=name)
    api.merge_patch(class_path(name), {"spec": {"nodeSelector": {"not a key": None}}})
    cls = wait_ready(api, name, "True", Reason.AVAILABLE)
    assert "Stalled" not in conditions(cls)
    assert "not a key" not in json.dumps(cls["status"])
    assert {c["observedGeneration"] for c in conditions(cls).values()} == {2}


def test_an_invalid_class_can_still_be_labelled_and_deleted(
    api: Api, tenants: Tenants, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unguarded")
    name = tenants.create_class(**ONLY_THE_WEBHOOK_SEES)
    namespace = tenants.create(wants=name)
    eventually("it is in use", lambda: counts(api, name)[2] == 1)
    api.merge_patch(class_path(name), {"metadata": {"labels": {"team": "x"}}})
    tenants.ask(namespace, None)
    eventually("it is free", lambda: counts(api, name)[2] == 0)
    api.delete(class_path(name))
    eventually("it is gone", lambda: api.find(class_path(name)) is None)


# --- no write without a change --------------------------------------------------------------------


def test_nothing_is_written_while_nothing_changes(
    operator: Installation, api: Api, tenants: Tenants
) -> None:
    used, idle = tenants.create_class(), tenants.create_class(**NO_MATCH)
    parent = tenants.create(wants=used)
    below = tenants.create(below=parent)
    tenants.settle({below: used})
    wait_ready(api, idle, "False", Reason.NO_MATCHING_NODES)
    eventually("it is bound", lambda: counts(api, used) == (3, 3, 2))
    paths = [class_path(used), class_path(idle)]

    def judged() -> bool:
        return all(conditions(api.get(p))["Compliant"]["status"] == "True" for p in paths)

    eventually("their pods are judged", judged)

    def versions() -> list[str]:
        return [api.get(path)["metadata"]["resourceVersion"] for path in paths]

    before, mark = versions(), operator.cluster.audit.mark()
    # Each new leader lists everything and looks at every class and namespace anew.
    operator.rolling_restart(operator.controllers)
    leading = tenants.create(wants=used)
    tenants.settle({leading: used})
    eventually("the new leader counts", lambda: counts(api, used)[2] == 3)
    after = versions()
    assert after[1:] == before[1:]
    user = operator.user("controller")
    written = [
        event["objectRef"]["name"]
        for verb in ("patch", "update", "create")
        for event in operator.cluster.audit.events(mark, user=user, verb=verb)
        if event["objectRef"]["resource"] in {"namespaces", names.PLURAL}
    ]
    # Of others, what earlier tests have left may still be on its way out.
    assert {used, idle, parent, below} & set(written) <= {used}
