"""Tenant objects as the source of a namespace's own request."""

from dataclasses import replace

import pytest

from schedclass.domain.findings import Reason
from schedclass.domain.inheritance import effective_class, findings
from schedclass.domain.tenants import Tenant, parse_tenant
from schedclass.domain.tree import NamespaceTree
from tests.treetest import class_of, classes, member, settle, tree


def with_tenants(text: str, *tenants: Tenant) -> NamespaceTree:
    found = tree(text)
    for tenant in tenants:
        found.tenants.put(f"{tenant.namespace}/{tenant.name}", tenant)
    return found


@pytest.mark.parametrize(
    ("tenant", "target"),
    [
        (Tenant("tenant-root", "a"), "tenant-a"),
        (Tenant("tenant-a", "b"), "tenant-a-b"),
        (Tenant("tenant-root", "root"), "tenant-root"),
        (Tenant("tenant-a", "b", status_namespace="elsewhere"), "elsewhere"),
    ],
)
def test_a_tenant_describes_the_namespace_that_cozystack_makes_of_it(
    tenant: Tenant, target: str
) -> None:
    assert tenant.target == target


def test_the_tenants_values_decide_over_label_and_annotation() -> None:
    found = with_tenants(
        "tenant-root; tenant-a=dc-9; tenant-a-b", Tenant("tenant-root", "a", "dc-1")
    )
    assert class_of(found, "tenant-a") == "dc-1"
    assert class_of(found, "tenant-a-b") == "dc-1"


def test_a_tenant_without_a_class_asks_for_none_whatever_the_label_says() -> None:
    found = with_tenants("tenant-root; tenant-a=dc-9", Tenant("tenant-root", "a"))
    assert class_of(found, "tenant-a") is None


def test_the_root_tenant_speaks_for_its_own_namespace() -> None:
    found = with_tenants("tenant-root; tenant-a", Tenant("tenant-root", "root", "dc-1"))
    assert classes(found) == {"tenant-root": "dc-1", "tenant-a": "dc-1"}


def test_a_tenant_has_no_say_over_namespaces_that_are_not_below_it() -> None:
    evil = Tenant("tenant-evil", "x", "dc-9", status_namespace="tenant-victim")
    own = Tenant("tenant-victim", "y", "dc-9", status_namespace="tenant-victim")
    root = Tenant("tenant-evil", "z", "dc-9", status_namespace="tenant-root")
    found = with_tenants("tenant-root; tenant-evil; tenant-victim=dc-1", evil, own, root)
    assert class_of(found, "tenant-victim") == "dc-1"
    assert class_of(found, "tenant-root") is None


def test_a_child_tenant_cannot_override_and_keeps_its_wish() -> None:
    found = with_tenants(
        "tenant-root; tenant-a; tenant-a-b",
        Tenant("tenant-root", "a", "dc-1"),
        Tenant("tenant-a", "b", "dc-2"),
    )
    settle(found)
    assert member(found, "tenant-a-b").label == "dc-1"
    assert member(found, "tenant-a-b").requested == "dc-2"


def test_nothing_changes_when_the_tenant_api_goes_away() -> None:
    tenants = (Tenant("tenant-root", "a", "dc-1"), Tenant("tenant-a", "b", "dc-2"))
    found = with_tenants("tenant-root; tenant-a; tenant-a-b; tenant-c=dc-3", *tenants)
    settle(found)
    before = classes(found)
    for tenant in tenants:
        found.tenants.put(f"{tenant.namespace}/{tenant.name}", None)
    assert classes(found) == before
    assert settle(found) == 0


def test_helm_writing_the_label_beside_the_tenant_settles() -> None:
    found = with_tenants("tenant-root; tenant-a", Tenant("tenant-root", "a", "dc-1"))
    settle(found)
    found.put(replace(member(found, "tenant-a"), label="dc-2"))
    assert settle(found) == 1
    assert member(found, "tenant-a").label == "dc-1"


def test_a_value_that_is_no_class_name_is_said_and_ignored() -> None:
    found = with_tenants("tenant-root; tenant-a", Tenant("tenant-root", "a", "not a name!"))
    ns = member(found, "tenant-a")
    (finding,) = findings(found, ns, effective_class(found, ns))
    assert finding.reason is Reason.INVALID_REQUEST
    assert "tenant-root/a" in finding.message
    assert class_of(found, "tenant-a") is None


def test_a_change_of_a_tenant_tells_whom_it_concerns() -> None:
    found = tree("tenant-root; tenant-a; tenant-b")
    assert found.tenants.put("tenant-root/a", Tenant("tenant-root", "a", "dc-1")) == {"tenant-a"}
    moved = Tenant("tenant-root", "a", "dc-1", status_namespace="tenant-b")
    assert found.tenants.put("tenant-root/a", moved) == {"tenant-a", "tenant-b"}


@pytest.mark.parametrize("spec", [None, {}, {"schedulingClass": ""}, {"schedulingClass": 7}])
def test_any_stored_tenant_can_be_read(spec: object) -> None:
    metadata = {"namespace": "tenant-a", "name": "b"}
    assert parse_tenant({"metadata": metadata, "spec": spec, "status": None}).class_name is None
