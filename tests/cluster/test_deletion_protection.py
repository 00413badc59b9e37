"""A class in use is not lost, and nothing of ours holds anything once we are gone."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from controlplane import Api, ApiError, Installation, Kubectl, eventually
from controlplane.installation import NAMESPACE
from controlplane.waiting import PATIENCE_SECONDS
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    Json,
    class_path,
    conditions,
    labels,
    namespace_path,
    pinned_to,
    pod,
    pods_path,
)
from tests.cluster.tenants import Tenants


@pytest.fixture
def used(tenants: Tenants) -> tuple[str, str]:
    """A class in use, protected, and the namespace that uses it, ready for pods."""
    name = tenants.create_class()
    namespace = tenants.create(wants=name, with_account=True)
    eventually(f"{name} is protected", lambda: is_protected(tenants.api, name))
    return name, namespace


def is_protected(api: Api, name: str) -> bool:
    cls = api.get(class_path(name))
    return (
        labels(cls).get(names.IN_USE) == "true"
        and names.IN_USE_FINALIZER in (cls["metadata"].get("finalizers") or [])
        and (cls.get("status") or {}).get("boundNamespaces", 0) > 0
    )


def wait_gone(api: Api, name: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    eventually(f"{name} is gone", lambda: api.find(class_path(name)) is None, seconds=seconds)


def delete_in_the_gap(tenants: Tenants, name: str) -> Json:
    """Deletes a class in use the moment that its label is off, as an admin could."""

    def deleted() -> Json | None:
        bare = {"metadata": {"labels": {names.IN_USE: None}}}
        tenants.api.merge_patch(class_path(name), bare)
        try:
            tenants.api.delete(class_path(name))
        except ApiError as error:  # the controller was faster and put it back
            if error.status != 403:
                raise
            return None
        return tenants.api.get(class_path(name))

    found = eventually(f"{name} is deleted", deleted, interval=0)
    assert found is not None
    return found


# --- in use ---------------------------------------------------------------------------------------


def test_deleting_a_class_in_use_is_refused_with_count_and_command(
    kubectl: Kubectl, tenants: Tenants, used: tuple[str, str]
) -> None:
    name, namespace = used
    tenants.create(below=namespace)
    eventually(
        "both count",
        lambda: tenants.api.get(class_path(name))["status"]["boundNamespaces"] == 2,
    )
    refused = kubectl.attempt("delete", "sclass", name, "--wait=false")
    assert refused.returncode == 1
    command = f"kubectl get namespaces -l {names.CLASS_KEY}={name}"
    assert f'SchedulingClass "{name}" is in use by 2 namespaces' in refused.stderr
    assert command in refused.stderr
    assert namespace in kubectl(*command.split()[1:], "-o", "name")
    assert tenants.api.get(class_path(name))["metadata"].get("deletionTimestamp") is None


def test_a_bulk_deletion_spares_those_in_use(
    kubectl: Kubectl, tenants: Tenants, used: tuple[str, str]
) -> None:
    name, _ = used
    free = tenants.create_class()
    group = {"metadata": {"labels": {"bulk": name}}}
    for each in (name, free):
        tenants.api.merge_patch(class_path(each), group)
    refused = kubectl.attempt("delete", "sclass", "-l", f"bulk={name}")
    assert f'"{name}" is in use by 1 namespace;' in refused.stderr
    wait_gone(tenants.api, free)
    assert tenants.class_exists(name)


def test_an_unused_class_goes_at_once(api: Api, tenants: Tenants, used: tuple[str, str]) -> None:
    fresh = tenants.create_class()
    api.delete(class_path(fresh))
    assert api.find(class_path(fresh)) is None
    name, namespace = used
    tenants.ask(namespace, None)
    eventually("it is released", lambda: labels(api.get(class_path(name))) == {})
    api.delete(class_path(name))
    assert api.find(class_path(name)) is None


# --- deleted in the gap ---------------------------------------------------------------------------


@pytest.mark.usefixtures("known_scheduler")
def test_a_class_deleted_in_the_gap_works_on_until_nobody_needs_it(
    api: Api, tenants: Tenants, used: tuple[str, str]
) -> None:
    name, namespace = used
    delete_in_the_gap(tenants, name)

    def says_so() -> bool:
        ready = conditions(api.get(class_path(name)))["Ready"]
        return (ready["status"], ready["reason"]) == ("False", "Deleting") and (
            namespace in ready["message"]
        )

    eventually("Ready says what holds it", says_so)
    event = tenants.wait_event("default", Reason.DELETING, about=name)
    assert (event["type"], namespace in event["message"]) == ("Warning", True)
    created = api.create(pods_path(namespace), pod())
    assert (pinned_to(created), api.warnings) == (name, [])
    late = tenants.create(below=namespace)
    assert labels(tenants.get(late))[names.ENFORCED] == "true"
    tenants.ask(namespace, None)
    wait_gone(api, name)
    assert tenants.class_of(namespace) is None


def test_it_is_released_by_the_deletion_of_the_last_namespace_too(
    api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class()
    namespace = tenants.create(wants=name)
    eventually("it is protected", lambda: is_protected(api, name))
    delete_in_the_gap(tenants, name)
    tenants.remove(namespace)
    wait_gone(api, name)


def test_a_foreign_finalizer_is_left_alone(
    api: Api, tenants: Tenants, used: tuple[str, str]
) -> None:
    name, namespace = used
    foreign = "example.com/mine"
    finalizers = [names.IN_USE_FINALIZER, foreign]
    api.merge_patch(class_path(name), {"metadata": {"finalizers": finalizers}})
    tenants.ask(namespace, None)
    eventually(
        "ours is off",
        lambda: api.get(class_path(name))["metadata"].get("finalizers") == [foreign],
    )
    api.delete(class_path(name))
    api.merge_patch(class_path(name), {"metadata": {"finalizers": None}})
    wait_gone(api, name)


# --- without the operator -------------------------------------------------------------------------


@pytest.fixture
def without_operator(operator: Installation, used: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """No process of the operator runs; the class is in use and protected."""
    operator.stop()
    yield used
    operator.heal()


def test_namespaces_and_unused_classes_can_be_deleted_without_the_operator(
    api: Api, kubectl: Kubectl, tenants: Tenants, without_operator: tuple[str, str]
) -> None:
    name, namespace = without_operator
    unused = tenants.create_class()
    kubectl("delete", "sclass", unused, "--timeout=5s")
    kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert api.find(namespace_path(namespace)) is None
    # The policy is the API server's own and holds on.
    with pytest.raises(ApiError, match="is in use by 1 namespace"):
        api.delete(class_path(name))


def test_one_command_frees_every_class_of_an_operator_that_is_gone(
    api: Api, tenants: Tenants, without_operator: tuple[str, str]
) -> None:
    name, _ = without_operator
    done = release(tenants)
    assert done.returncode == 0, done.stderr
    for cls in api.get(class_path(""))["items"]:
        assert names.IN_USE not in labels(cls)
        assert not cls["metadata"].get("finalizers")
    api.delete(class_path(name))
    assert api.find(class_path(name)) is None
    assert release(tenants).returncode == 0, "running it again does no harm"


def release(tenants: Tenants) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "KUBECONFIG": str(tenants.cluster.kubeconfig),
        "SCHEDCLASS_NAMESPACE": NAMESPACE,
    }
    command = [sys.executable, "-m", "schedclass", "release"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
