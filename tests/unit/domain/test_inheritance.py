"""The rule of inheritance, told as stories and as laws."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain import names
from schedclass.domain.findings import Reason
from schedclass.domain.inheritance import (
    NamespaceKeys,
    desired_keys,
    effective_class,
    findings,
    merge_patch,
    own_request,
)
from schedclass.domain.namespaces import Namespace, Owner
from schedclass.domain.tree import NamespaceTree
from tests.treetest import (
    class_of,
    classes,
    member,
    namespaces,
    settle,
    tree,
    tree_of,
    write,
)


def reasons(of: NamespaceTree, name: str) -> list[Reason]:
    ns = member(of, name)
    return [finding.reason for finding in findings(of, ns, effective_class(of, ns))]


def test_everything_below_inherits() -> None:
    found = tree("a=dc-1 > b > c; d")
    assert classes(found) == {"a": "dc-1", "b": "dc-1", "c": "dc-1", "d": None}


def test_a_child_cannot_override_and_is_told_so() -> None:
    found = tree("a=dc-1 > b=dc-2 > c=dc-3")
    assert classes(found) == {"a": "dc-1", "b": "dc-1", "c": "dc-1"}
    assert reasons(found, "b") == [Reason.OVERRIDE_IGNORED]
    message = findings(found, member(found, "c"), effective_class(found, member(found, "c")))[0]
    assert "dc-3" in message.message
    assert "dc-1" in message.message
    assert " a " in message.message


def test_a_child_may_ask_if_no_ancestor_does() -> None:
    assert classes(tree("a > b=dc-2 > c")) == {"a": None, "b": "dc-2", "c": "dc-2"}


def test_the_result_is_written_with_where_it_comes_from() -> None:
    found = tree("a=dc-1 > b=dc-2")
    settle(found)
    assert NamespaceKeys.of(member(found, "b")) == NamespaceKeys(
        label="dc-1",
        enforced=True,
        inherited_from="a",
        inherited_class="dc-1",
        inherited_from_uid="uid-a",
        requested="dc-2",
    )
    assert member(found, "a").inherited_from is None


def test_taking_the_class_off_the_parent_gives_each_child_its_own_wish_back() -> None:
    found = tree("a=dc-1 > b=dc-2; a > c; a > d=dc-1")
    settle(found)
    found.put(replace(member(found, "a"), label=None))
    settle(found)
    assert classes(found) == {"a": None, "b": "dc-2", "c": None, "d": "dc-1"}
    assert NamespaceKeys.of(member(found, "b")) == NamespaceKeys(
        "dc-2", True, None, None, None, None
    )
    assert NamespaceKeys.of(member(found, "c")) == NamespaceKeys(
        None, False, None, None, None, None
    )


def test_a_label_written_over_the_inherited_one_is_put_back_and_kept_as_a_wish() -> None:
    found = tree("a=dc-1 > b")
    settle(found)
    found.put(replace(member(found, "b"), label="dc-9"))
    assert class_of(found, "b") == "dc-1"
    assert reasons(found, "b") == [Reason.OVERRIDE_IGNORED]
    settle(found)
    assert member(found, "b").label == "dc-1"
    assert member(found, "b").requested == "dc-9"


def test_a_label_taken_off_below_a_pinned_parent_is_put_back() -> None:
    found = tree("a=dc-1 > b")
    settle(found)
    found.put(replace(member(found, "b"), label=None))
    settle(found)
    assert member(found, "b").label == "dc-1"
    assert member(found, "b").requested is None


def test_a_change_of_the_parents_class_is_no_wish_of_the_child() -> None:
    found = tree("a=dc-1 > b > c")
    settle(found)
    found.put(replace(member(found, "a"), label="dc-2"))
    settle(found)
    assert classes(found) == {"a": "dc-2", "b": "dc-2", "c": "dc-2"}
    assert member(found, "b").requested is None


def test_provenance_written_by_an_older_release_still_marks_the_label_as_inherited() -> None:
    found = tree("a > b=dc-1")
    found.put(replace(member(found, "b"), inherited_from="a"))
    assert own_request(found, member(found, "b")) is None
    assert class_of(found, "b") is None


def test_a_parent_that_vanishes_never_unpins() -> None:
    found = tree("a=dc-1 > b > c")
    settle(found)
    found.remove("a")
    assert classes(found) == {"b": "dc-1", "c": "dc-1"}
    assert reasons(found, "b") == [Reason.PARENT_MISSING]
    settle(found)
    assert classes(found) == {"b": "dc-1", "c": "dc-1"}


def test_an_intermediate_namespace_that_vanishes_never_unpins() -> None:
    found = tree("a=dc-1 > b > c > d")
    settle(found)
    found.remove("b")
    settle(found)
    assert classes(found) == {"a": "dc-1", "c": "dc-1", "d": "dc-1"}


def test_orphaning_that_removes_the_owner_reference_never_unpins() -> None:
    found = tree("a=dc-1 > b > c")
    settle(found)
    found.remove("b")
    found.put(replace(member(found, "c"), owners=()))
    settle(found)
    assert class_of(found, "c") == "dc-1"


def test_a_parent_recreated_without_a_class_is_not_the_one_that_gave_it() -> None:
    found = tree("tenant-root; tenant-a=dc-1; tenant-a-b")
    settle(found)
    assert member(found, "tenant-a-b").inherited_from_uid == "uid-tenant-a"
    found.remove("tenant-a")
    settle(found)
    found.put(Namespace("tenant-a", uid="another"))
    settle(found)
    assert class_of(found, "tenant-a-b") == "dc-1"
    assert reasons(found, "tenant-a-b") == [Reason.PARENT_MISSING]


def test_a_recreated_parent_with_a_class_decides_again() -> None:
    found = tree("tenant-a=dc-1; tenant-a-b")
    settle(found)
    found.remove("tenant-a")
    settle(found)
    found.put(Namespace("tenant-a", uid="another", label="dc-2"))
    settle(found)
    assert class_of(found, "tenant-a-b") == "dc-2"
    assert reasons(found, "tenant-a-b") == []


def test_moving_under_another_living_parent_follows_it() -> None:
    found = tree("a=dc-1 > b; c")
    settle(found)
    found.put(replace(member(found, "b"), owners=(Owner("c", "uid-c"),)))
    settle(found)
    assert class_of(found, "b") is None


GONE = Owner("some-namespace", "uid-of-one-that-is-gone")


def test_an_origin_that_is_still_above_by_name_decides_although_an_owner_is_gone() -> None:
    found = tree("tenant-a=dc-1; tenant-a-b")
    settle(found)
    found.put(replace(member(found, "tenant-a-b"), owners=(GONE,)))
    settle(found)
    assert classes(found) == {"tenant-a": "dc-1", "tenant-a-b": "dc-1"}
    found.put(replace(member(found, "tenant-a"), label=None))
    assert reasons(found, "tenant-a-b") == []
    settle(found)
    assert classes(found) == {"tenant-a": None, "tenant-a-b": None}


def test_below_another_than_the_origin_a_namespace_whose_owner_is_gone_keeps_its_class() -> None:
    found = tree("a=dc-1 > tenant-b-c; tenant-b")
    settle(found)
    found.put(replace(member(found, "tenant-b-c"), owners=(GONE,)))
    settle(found)
    assert class_of(found, "tenant-b-c") == "dc-1"
    assert reasons(found, "tenant-b-c") == [Reason.PARENT_MISSING]


def test_a_cycle_unpins_nobody_and_its_members_agree() -> None:
    found = tree("b=dc-1 > a > c")
    settle(found)
    found.put(replace(member(found, "b"), owners=(Owner("c", "uid-c"),)))
    settle(found)
    assert classes(found) == {"a": "dc-1", "b": "dc-1", "c": "dc-1"}


def test_members_of_a_cycle_with_several_wishes_agree() -> None:
    found = tree("a=dc-1 > b=dc-2 > a; b > d")
    settle(found)
    assert classes(found) == {"a": "dc-1", "b": "dc-1", "d": "dc-1"}


def test_system_namespaces_are_never_pinned_and_pass_nothing_on() -> None:
    found = tree("evil=dc-1 > kube-system=dc-2 > x")
    assert classes(found) == {"evil": "dc-1", "kube-system": None, "x": None}
    assert reasons(found, "kube-system") == [Reason.NAMESPACE_EXCLUDED]


def test_a_wish_that_cannot_be_a_class_name_is_said_and_left_alone() -> None:
    ns = Namespace("a", uid="1", requested="not a name!")
    found = tree_of(ns)
    assert class_of(found, "a") is None
    assert reasons(found, "a") == [Reason.INVALID_REQUEST]
    assert settle(found) == 0


def test_whether_a_class_exists_only_matters_for_enforcement() -> None:
    ns = replace(namespaces("a=dc-1")[0], enforced=True)
    effective = effective_class(tree_of(ns), ns)
    assert desired_keys(ns, effective, class_exists=True).enforced
    assert not desired_keys(ns, effective, class_exists=False).enforced
    assert desired_keys(ns, effective, class_exists=None).enforced, "unknown is not absent"


def test_the_patch_holds_only_the_keys_that_differ() -> None:
    now = NamespaceKeys("dc-2", True, None, None, None, None)
    then = NamespaceKeys("dc-1", True, "a", "dc-1", "u", "dc-2")
    assert merge_patch(now, then) == {
        "labels": {names.CLASS_KEY: "dc-1"},
        "annotations": {
            names.INHERITED_FROM: "a",
            names.INHERITED_CLASS: "dc-1",
            names.INHERITED_FROM_UID: "u",
            names.REQUESTED_CLASS: "dc-2",
        },
    }
    assert merge_patch(then, then) == {}
    assert merge_patch(then, now)["annotations"][names.REQUESTED_CLASS] is None


_CLASSES = st.sampled_from(["dc-1", "dc-2", "dc-3", None])


@st.composite
def forests(draw: st.DrawFn) -> list[Namespace]:
    """Forests by owner and by name, without cycles: each owner precedes what it owns."""
    found: list[Namespace] = []
    for i in range(draw(st.integers(1, 8))):
        name = f"n{i}"
        owners: tuple[Owner, ...] = ()
        if len(found) > 0 and draw(st.booleans()):
            parent = draw(st.sampled_from(found))
            if draw(st.booleans()) and parent.name.startswith("tenant-"):
                name = f"{parent.name}-{i}"
            else:
                owners = (Owner(parent.name, parent.uid),)
        elif draw(st.booleans()):
            name = f"tenant-{i}"
        found.append(Namespace(name, f"uid-{name}", label=draw(_CLASSES), owners=owners))
    return found


@given(forests(), st.randoms(use_true_random=False))
def test_any_order_of_events_gives_the_same_result(forest: list[Namespace], random: object) -> None:
    in_order = tree_of(*forest)
    shuffled = list(forest)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = tree_of(*shuffled)
    assert classes(in_order) == classes(other)
    settle(in_order)
    settle(other)
    assert sorted(map(repr, in_order)) == sorted(map(repr, other))


@given(forests())
def test_no_namespace_overrides_its_ancestors(forest: list[Namespace]) -> None:
    found = tree_of(*forest)
    settle(found)
    for ns in found:
        decided = classes(found)
        for ancestor in found.ancestors(ns):
            if decided[ancestor.name] is not None:
                assert decided[ns.name] == decided[ancestor.name]


@given(forests())
def test_the_root_most_request_decides(forest: list[Namespace]) -> None:
    found = tree_of(*forest)
    wishes = {ns.name: own_request(found, ns) for ns in found}
    for ns in found:
        chain = [ns.name, *(ancestor.name for ancestor in found.ancestors(ns))]
        expected = next((wishes[name] for name in reversed(chain) if wishes[name]), None)
        assert class_of(found, ns.name) == expected


@given(forests())
def test_settling_is_final_and_costs_one_write_per_namespace(forest: list[Namespace]) -> None:
    found = tree_of(*forest)
    before = classes(found)
    assert settle(found) <= len(found)
    assert classes(found) == before
    assert settle(found) == 0


@given(forests(), st.data())
def test_taking_a_class_on_and_off_restores_every_wish(
    forest: list[Namespace], data: st.DataObject
) -> None:
    found = tree_of(*forest)
    settle(found)
    before = {ns.name: NamespaceKeys.of(ns) for ns in found}
    roots = [ns for ns in found if not found.ancestors(ns) and ns.label is None]
    if not roots:
        return
    root = data.draw(st.sampled_from(roots))
    found.put(replace(root, label="dc-9"))
    settle(found)
    found.put(replace(member(found, root.name), label=None))
    settle(found)
    assert {ns.name: NamespaceKeys.of(ns) for ns in found} == before


@given(forests(), st.data())
def test_no_deletion_of_a_namespace_unpins_another(
    forest: list[Namespace], data: st.DataObject
) -> None:
    found = tree_of(*forest)
    settle(found)
    pinned = {name for name, cls in classes(found).items() if cls is not None}
    gone = data.draw(st.sampled_from([ns.name for ns in found]))
    found.remove(gone)
    settle(found)
    assert {name for name, cls in classes(found).items() if cls is not None} == pinned - {gone}


@given(forests(), st.data())
def test_a_class_is_kept_only_while_its_origin_is_not_above(
    forest: list[Namespace], data: st.DataObject
) -> None:
    found = tree_of(*forest)
    settle(found)
    for name in data.draw(st.sets(st.sampled_from([ns.name for ns in found]))):
        found.put(replace(member(found, name), owners=(GONE,)))
    for name in data.draw(st.sets(st.sampled_from([ns.name for ns in found]))):
        found.put(replace(member(found, name), label=None, requested=None))
    for ns in found:
        above = {(ancestor.name, ancestor.uid) for ancestor in found.ancestors(ns)}
        if effective_class(found, ns).kept:
            assert (ns.inherited_from, ns.inherited_from_uid) not in above


@given(forests(), st.data())
def test_no_broken_owner_reference_unpins(forest: list[Namespace], data: st.DataObject) -> None:
    found = tree_of(*forest)
    settle(found)
    before = classes(found)
    for name in data.draw(st.sets(st.sampled_from([ns.name for ns in found]))):
        found.put(replace(member(found, name), owners=(GONE,)))
        settle(found)
    after = classes(found)
    assert {
        name for name, cls in before.items() if cls is not None and after[name] is None
    } == set()


@given(forests(), st.data())
def test_an_interrupted_write_is_completed_by_the_next_one(
    forest: list[Namespace], data: st.DataObject
) -> None:
    whole, torn = tree_of(*forest), tree_of(*forest)
    settle(whole)
    for ns in data.draw(st.lists(st.sampled_from(forest), unique_by=lambda ns: ns.name)):
        desired = desired_keys(ns, effective_class(torn, ns), class_exists=True)
        torn.put(write(ns, desired))
    settle(torn)
    assert sorted(map(repr, whole)) == sorted(map(repr, torn))
