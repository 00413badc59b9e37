"""What the webhook writes in the name of the user who updates a namespace.

The policy on namespaces takes the stamp for the user's own change. So whatever the tree says, the
stamp of a request that leaves provenance alone has to be one that the policy accepts from anybody.
"""

from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.admission import class_not_found
from schedclass.domain.class_status import SchedulerSign, scheduler_missing
from schedclass.domain.findings import Reason
from schedclass.domain.inheritance import Effective, NamespaceKeys, effective_class
from schedclass.domain.namespaces import Namespace, parse_namespace
from schedclass.domain.nodes import no_matching_nodes
from schedclass.domain.stamping import decide_namespace
from schedclass.domain.tenants import Tenant
from schedclass.domain.tree import NamespaceTree
from tests.treetest import member, namespaces, settle, tree

CLASSES = st.sampled_from([None, "dc-1", "dc-2", "dc-3"])


def manifest(ns: Namespace) -> dict[str, Any]:
    keys = NamespaceKeys.of(ns)
    owners = [
        {"apiVersion": "v1", "kind": "Namespace", "name": owner.name, "uid": owner.uid}
        for owner in ns.owners
    ]
    maps = {"labels": keys.labels(), "annotations": keys.annotations()}
    present = {
        field: {key: value for key, value in found.items() if value is not None}
        for field, found in maps.items()
    }
    return {"metadata": {"name": ns.name, "uid": ns.uid, "ownerReferences": owners, **present}}


def update(
    of: NamespaceTree, old: Namespace, sent: Namespace, *, class_exists: bool | None = True
) -> Namespace:
    """The namespace as it is stored after such an update."""
    obj = manifest(sent)
    decision = decide_namespace(of, obj, old=manifest(old), class_exists=class_exists)
    return parse_namespace(jsonpatch.apply_patch(obj, [dict(op) for op in decision.patch]))


def provenance(ns: Namespace) -> tuple[object, ...]:
    return ns.inherited_from, ns.inherited_class, ns.inherited_from_uid, ns.owners


def accepted_from_anybody(old: Namespace, new: Namespace) -> bool:
    """The policy on namespaces, as helm/templates/policies-namespaces.yaml has it."""
    wish_changed = old.inherited_from is None and old.label != new.label
    return provenance(old) == provenance(new) and (wish_changed or old.enforced == new.enforced)


def asked(of: NamespaceTree, name: str, wish: str | None) -> None:
    """Somebody else changes another namespace, and the controller has not got round to ours."""
    of.put(replace(member(of, name), label=wish, inherited_from=None, inherited_class=None))


@given(
    story=st.sampled_from(["a > b", "a=dc-1 > b", "a > b=dc-2", "a=dc-1 > b=dc-2", "b=dc-2; a"]),
    settled=st.booleans(),
    meanwhile=CLASSES,
    label=CLASSES,
    requested=CLASSES,
    class_exists=st.sampled_from([True, False, None]),
)
def test_a_request_that_leaves_provenance_alone_is_never_refused_for_our_stamp(
    story: str,
    settled: bool,
    meanwhile: str | None,
    label: str | None,
    requested: str | None,
    class_exists: bool | None,
) -> None:
    found = tree(story)
    if settled:
        settle(found)
    old = member(found, "b")
    asked(found, "a", meanwhile)
    sent = replace(old, label=label, requested=requested)
    stored = update(found, old, sent, class_exists=class_exists)
    assert accepted_from_anybody(old, stored)


@given(label=CLASSES, requested=CLASSES, meanwhile=CLASSES)
def test_what_such_a_request_leaves_undone_the_controller_does(
    label: str | None, requested: str | None, meanwhile: str | None
) -> None:
    at_once, later = (tree("a=dc-1 > b=dc-2") for _ in range(2))
    for found in (at_once, later):
        settle(found)
        asked(found, "a", meanwhile)
    old = member(later, "b")
    sent = replace(old, label=label, requested=requested)
    later.put(update(later, old, sent))
    at_once.put(sent)
    settle(later)
    settle(at_once)
    assert NamespaceKeys.of(member(later, "b")) == NamespaceKeys.of(member(at_once, "b"))


@given(
    label=CLASSES,
    requested=CLASSES,
    inherited_from=st.sampled_from([None, "a", "gone"]),
    inherited_class=CLASSES,
    inherited_from_uid=st.sampled_from([None, "uid-a", "none"]),
    enforced=st.booleans(),
)
def test_whatever_is_forged_while_we_answer_the_child_stays_pinned(
    label: str | None,
    requested: str | None,
    inherited_from: str | None,
    inherited_class: str | None,
    inherited_from_uid: str | None,
    enforced: bool,
) -> None:
    found = tree("a=dc-1 > b")
    settle(found)
    old = member(found, "b")
    forged = replace(
        old,
        label=label,
        requested=requested,
        inherited_from=inherited_from,
        inherited_class=inherited_class,
        inherited_from_uid=inherited_from_uid,
        enforced=enforced,
    )
    stored = update(found, old, forged)
    assert (stored.label, stored.enforced, stored.inherited_from) == ("dc-1", True, "a")
    assert accepted_from_anybody(old, stored)
    assert effective_class(found, stored).class_name == "dc-1"


def test_enforced_comes_and_goes_in_the_request_that_changes_the_wish() -> None:
    found = tree("a")
    bare = member(found, "a")
    pinned = update(found, bare, replace(bare, label="dc-1"))
    assert (pinned.label, pinned.enforced) == ("dc-1", True)
    found.put(pinned)
    freed = update(found, pinned, replace(pinned, label=None))
    assert (freed.label, freed.enforced) == (None, False)
    absent = update(found, pinned, replace(pinned, label="nowhere"), class_exists=False)
    assert (absent.label, absent.enforced) == ("nowhere", False)


def test_a_wish_written_while_the_parents_class_travels_is_kept_and_not_in_force() -> None:
    found = tree("a=dc-1 > b")
    settle(found)
    old = member(found, "b")
    asked(found, "a", "dc-2")
    stored = update(found, old, replace(old, label="dc-3"))
    assert (stored.label, stored.requested) == ("dc-1", "dc-3")
    found.put(stored)
    settle(found)
    assert (member(found, "b").label, member(found, "b").requested) == ("dc-2", "dc-3")


def test_who_may_move_a_namespace_finds_it_stamped_in_the_same_request() -> None:
    found = tree("a=dc-1 > x; b=dc-2 > y; c")
    settle(found)
    old = member(found, "c")
    moved = update(found, old, replace(old, owners=member(found, "x").owners))
    assert (moved.label, moved.inherited_from, moved.enforced) == ("dc-1", "a", True)


def test_an_own_class_that_appeared_is_left_to_the_controller_to_enforce() -> None:
    found = tree("a=dc-1")
    old = member(found, "a")
    assert not update(found, old, old).enforced
    assert not old.enforced


def test_who_takes_an_inherited_label_off_is_told_that_it_stays_and_where_it_can_be_taken_off() -> (
    None
):
    found = tree("a=dc-1 > b")
    settle(found)
    for name, told in (
        ("b", ('scheduling class "dc-1" is inherited from a, so the label stays',)),
        ("a", ()),
    ):
        old = member(found, name)
        without = manifest(replace(old, label=None))
        decision = decide_namespace(found, without, old=manifest(old), class_exists=True)
        assert [finding.message.partition(";")[0] for finding in decision.warnings] == list(told)
        again = decide_namespace(found, manifest(old), old=manifest(old), class_exists=True)
        assert again.warnings == ()


def told(of: NamespaceTree, sent: Namespace, old: Namespace | None = None) -> list[str]:
    before = None if old is None else manifest(old)
    decision = decide_namespace(of, manifest(sent), old=before, class_exists=True)
    return [finding.named for finding in decision.warnings]


def with_tenant(story: str, wish: str | None) -> NamespaceTree:
    """`tenant-root` and `tenant-a` below it, for which a Tenant speaks."""
    found = tree(story)
    found.tenants.put("tenant-root/a", Tenant("tenant-root", "a", wish))
    settle(found)
    return found


DECIDES = "Tenant tenant-root/a decides; set spec.schedulingClass there"


@pytest.mark.parametrize("wish", ["dc-1", None])
def test_who_writes_past_the_tenant_is_told_where_the_class_is_decided(wish: str | None) -> None:
    found = with_tenant("tenant-root; tenant-a", wish)
    old = member(found, "tenant-a")
    expected = [f'TenantDecides: class "dc-9" is ignored: {DECIDES}']
    assert told(found, replace(old, label="dc-9"), old) == expected
    assert told(found, replace(old, requested="dc-9"), old) == expected
    assert told(found, replace(old, label="dc-9")) == expected, "at creation, too"
    assert update(found, old, replace(old, label="dc-9")).label == wish


@given(st.text(min_size=1))
def test_whatever_wish_is_written_the_warning_still_says_who_decides(wish: str) -> None:
    found = with_tenant("tenant-root; tenant-a", None)
    old = member(found, "tenant-a")
    (warning,) = told(found, replace(old, requested=wish), old)
    assert warning.endswith(DECIDES)
    assert len(warning.encode()) <= 256


def test_who_takes_off_the_label_of_a_tenants_wish_is_told_so() -> None:
    found = with_tenant("tenant-root; tenant-a", "dc-1")
    old = member(found, "tenant-a")
    stays = f'TenantDecides: class "dc-1" stays: {DECIDES}'
    assert told(found, replace(old, label=None), old) == [stays]


@given(CLASSES, CLASSES)
def test_who_writes_what_the_tenant_says_or_nothing_new_hears_nothing(
    wish: str | None, before: str | None
) -> None:
    found = with_tenant("tenant-root; tenant-a", wish)
    settled = member(found, "tenant-a")
    old = replace(settled, label=before)
    if before is None or wish is not None:  # as Helm and Flux write it, again and again
        assert told(found, replace(old, label=wish), old) == []
    assert told(found, old, old) == []
    assert told(found, settled) == []


def test_below_an_ancestor_with_a_class_the_ancestor_is_named_and_not_the_tenant() -> None:
    found = with_tenant("tenant-root=dc-1; tenant-a", None)
    old = member(found, "tenant-a")
    (warning,) = told(found, replace(old, label="dc-9"), old)
    assert warning.startswith('OverrideIgnored: scheduling class "dc-9" is ignored: tenant-root')


def test_without_a_tenant_a_label_is_the_namespaces_own_wish() -> None:
    found = tree("tenant-root; tenant-a")
    old = member(found, "tenant-a")
    assert told(found, replace(old, label="dc-9"), old) == []


@pytest.mark.parametrize(
    "warnings",
    [
        told(tree("tenant-a=dc-west > b"), namespaces("tenant-a > b=dc-east")[1]),
        told(tree(""), replace(Namespace("kube-system"), label="dc-east")),
        told(
            with_tenant("tenant-root; tenant-a", "dc-west"),
            Namespace("tenant-a", label="dc-east"),
        ),
        told(
            tree(""),
            Namespace(
                "tenant-b", inherited_from="tenant-a", inherited_class="dc-west", label="dc-west"
            ),
        ),
        [class_not_found(Effective("dc-west", "tenant-a"), "tenant-a-b").named],
        [no_matching_nodes(100).named],
        [scheduler_missing(SchedulerSign("kube-system/cozystack-scheduler", alive=False)).named],
    ],
    ids=lambda warnings: warnings[0].partition(":")[0],
)
def test_usual_warnings_have_a_reason_and_a_length_that_terminals_show(
    warnings: list[str],
) -> None:
    (warning,) = warnings
    assert warning.partition(":")[0] in list(Reason)
    assert len(warning) <= 120
