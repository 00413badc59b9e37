"""What the chart's roles let people do with classes, and its clean-up after itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import Api, ApiError, Cluster, eventually
from controlplane.helm import Release
from schedclass.domain import names
from tests.cluster.chart.conftest import CLASSES, NAMESPACE
from tests.cluster.objects import class_path, labels, scheduling_class

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def watched(user: Api) -> list[str]:
    """The names that a watch of classes begins with."""
    lines = user.text(f"{CLASSES}?watch=true&timeoutSeconds=1").splitlines()
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


def has_rights(user: Api) -> bool:
    """Whether the API server knows yet of any right of a user on classes."""
    review = user.create(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    return any(names.PLURAL in rule["resources"] for rule in review["status"]["resourceRules"])


def listed(user: Api) -> list[str]:
    return [item["metadata"]["name"] for item in user.get(CLASSES)["items"]]


def test_any_user_reads_classes_and_none_writes_them(installed: Cluster) -> None:
    installed.admin.create(CLASSES, scheduling_class("seen"))
    user = installed.identities.api("jane")
    assert user.get(class_path("seen"))["kind"] == names.KIND
    assert listed(user) == ["seen"]
    assert watched(user) == ["seen"]
    for method, path in (("DELETE", class_path("seen")), ("POST", CLASSES)):
        with pytest.raises(ApiError, match="is forbidden"):
            user.request(method, path, scheduling_class("own"))


@pytest.fixture
def guarded(installed: Cluster, release: Release, values: dict[str, Any]) -> Iterator[Cluster]:
    """The cluster, but not everybody may read classes."""
    release.install({**values, "rbac": {"readableByAuthenticated": False}})
    yield installed
    release.install(values)


@pytest.fixture
def editor(guarded: Cluster) -> Iterator[Api]:
    """A user with the editor's rights and no others."""
    binding = {
        "metadata": {"name": "an-editor"},
        "subjects": [{"kind": "User", "name": "erin"}],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "rel-schedclass-editor",
        },
    }
    guarded.admin.create(f"{RBAC}/clusterrolebindings", binding)
    erin = guarded.identities.api("erin")
    eventually("the binding is in force", lambda: has_rights(erin))
    yield erin
    guarded.admin.delete(f"{RBAC}/clusterrolebindings/an-editor")


def test_an_editor_does_everything_with_classes(guarded: Cluster, editor: Api) -> None:
    jane = guarded.identities.api("jane")
    eventually("others have no rights", lambda: not has_rights(jane))
    with pytest.raises(ApiError, match="is forbidden"):
        jane.get(CLASSES)
    path = class_path("edited")
    created = editor.create(CLASSES, scheduling_class("edited"))
    assert listed(editor) == watched(editor) == ["edited"]
    changed = editor.request("PUT", path, {**created, "spec": {"nodeSelector": {"a": "b"}}})
    assert changed["spec"] == {"nodeSelector": {"a": "b"}}
    editor.merge_patch(path, {"spec": {"nodeSelector": {"a": "c"}}})
    assert editor.get(path)["spec"] == {"nodeSelector": {"a": "c"}}
    assert editor.get(f"{path}/status")["metadata"]["name"] == "edited"
    with pytest.raises(ApiError, match="is forbidden"):
        editor.merge_patch(f"{path}/status", {"status": {"boundNamespaces": 1}})
    editor.delete(path)
    assert guarded.admin.find(path) is None


@pytest.fixture
def cleanup_kubeconfig(guarded: Cluster, release: Release, values: dict[str, Any]) -> Iterator[str]:
    """The account of the clean-up, as the hook makes it; no kubelet here could run its Job."""
    objects = [
        obj
        for obj in release.render({**values, "cleanup": {"enabled": True}})
        if obj["metadata"]["name"] == "rel-schedclass-cleanup" and obj["kind"] != "Job"
    ]
    guarded.kubectl("apply", f"--namespace={NAMESPACE}", "-f", "-", input=objects)
    identity = guarded.identities.service_account_api(NAMESPACE, "rel-schedclass-cleanup")
    eventually("the binding is in force", lambda: has_rights(identity))
    account = guarded.identities.service_account_kubeconfig(NAMESPACE, "rel-schedclass-cleanup")
    yield str(account)
    guarded.kubectl("delete", f"--namespace={NAMESPACE}", "-f", "-", input=objects)


def test_the_clean_up_frees_classes_with_the_rights_of_its_own_role(
    guarded: Cluster, release: Release, cleanup_kubeconfig: str
) -> None:
    used = scheduling_class("used")
    used["metadata"] |= {
        "labels": {names.IN_USE: "true"},
        "finalizers": [names.IN_USE_FINALIZER],
    }
    guarded.admin.create(CLASSES, used)
    env = {**os.environ, "KUBECONFIG": cleanup_kubeconfig, "SCHEDCLASS_NAMESPACE": NAMESPACE}
    env["SCHEDCLASS_RELEASE"] = release.name
    command = [sys.executable, "-m", "schedclass", "release"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    freed = guarded.admin.get(class_path("used"))
    assert names.IN_USE not in labels(freed)
    assert not freed["metadata"].get("finalizers")
