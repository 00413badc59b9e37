"""Who is whose parent, and which namespaces a change can touch."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.namespaces import Namespace, Owner, parse_namespace
from schedclass.domain.tree import parent_candidates
from tests.treetest import EXCLUDED, member, namespaces, tree, tree_of


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("tenant-a-b-c", ["tenant-a-b", "tenant-a", "tenant-root"]),
        ("tenant-a", ["tenant-root"]),
        ("tenant-root", []),
        ("team-a", []),
        ("tenant", []),
        ("tenant--a", ["tenant-", "tenant-root"]),
    ],
)
def test_a_tenants_name_tells_its_possible_parents(name: str, candidates: list[str]) -> None:
    assert list(parent_candidates(name)) == candidates


def test_the_longest_existing_prefix_is_the_parent() -> None:
    found = tree("tenant-root; tenant-a; tenant-a-b-c; tenant-ab")
    assert found.parent_of(member(found, "tenant-a-b-c")) == "tenant-a"
    assert found.parent_of(member(found, "tenant-ab")) == "tenant-root"
    assert found.parent_of(member(found, "tenant-root")) is None


def test_an_owner_comes_before_the_name() -> None:
    found = tree("tenant-root; tenant-a; team > tenant-a-b")
    assert found.parent_of(member(found, "tenant-a-b")) == "team"


def test_an_owner_is_matched_by_uid_not_by_name() -> None:
    found = tree("a > b")
    found.put(replace(member(found, "a"), uid="another"))
    assert found.parent_of(member(found, "b")) is None
    assert found.has_dangling_owner(member(found, "b"))


def test_an_owner_that_names_another_namespace_than_its_uid_is_none() -> None:
    found = tree("tenant-a; free")
    forged = Namespace("tenant-a-b", owners=(Owner("tenant-a", "uid-free"),))
    assert found.parent_of(forged) == "tenant-a"
    assert found.parent_of(replace(forged, name="b")) is None


def test_a_namespace_is_never_its_own_parent() -> None:
    found = tree("a > a")
    assert found.parent_of(member(found, "a")) is None
    assert found.ancestors(member(found, "a")) == []


def test_an_excluded_namespace_has_no_parent() -> None:
    found = tree("evil > kube-system")
    assert found.parent_of(member(found, "kube-system")) is None


def test_walks_end_in_cycles() -> None:
    found = tree("a > b > c > a; c > d")
    assert [ns.name for ns in found.ancestors(member(found, "d"))] == ["c", "b", "a"]
    assert found.descendants("a") == ["a", "b", "c", "d"]


def test_a_parent_that_arrives_late_reports_those_below_it() -> None:
    found = tree("tenant-root; tenant-a-b; tenant-a-b-c")
    assert found.put(Namespace("tenant-a", uid="1")) == {"tenant-a", "tenant-a-b", "tenant-a-b-c"}


def test_a_parent_that_leaves_reports_those_below_it() -> None:
    found = tree("a > b > c")
    assert found.remove("a") == {"b", "c"}
    assert found.parent_of(member(found, "b")) is None


def test_an_event_that_changes_nothing_of_ours_touches_nobody() -> None:
    found = tree("a > b")
    assert found.put(replace(member(found, "a"), resource_version="2")) == frozenset()
    assert member(found, "a").resource_version == "2"


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": "a", "labels": None, "annotations": None, "ownerReferences": None}},
        {"metadata": {"name": 7, "labels": [], "annotations": "x", "ownerReferences": {"a": 1}}},
        {"metadata": {"ownerReferences": [None, "x", {"kind": "Namespace"}, {"kind": "Pod"}]}},
    ],
)
def test_any_body_can_be_read_as_a_namespace(obj: dict[str, object]) -> None:
    assert isinstance(parse_namespace(obj), Namespace)


def test_own_namespace_and_patterns_are_excluded() -> None:
    found = [n for n in ("kube-system", "cozy-x", "default", "operator-home") if n in EXCLUDED]
    assert found == ["kube-system", "cozy-x", "default", "operator-home"]
    assert "tenant-root" not in EXCLUDED
    assert "defaults" not in EXCLUDED


_NAMES = ["tenant-root", "tenant-a", "tenant-a-b", "tenant-a-b-c", "tenant-b", "x", "y", "default"]


@st.composite
def _events(draw: st.DrawFn) -> list[Namespace | str]:
    owners = st.lists(
        st.builds(Owner, st.sampled_from(_NAMES), st.sampled_from([f"{n}.1" for n in _NAMES])),
        max_size=2,
    ).map(tuple)
    put = st.builds(
        lambda name, epoch, owned: Namespace(name, uid=f"{name}.{epoch}", owners=owned),
        st.sampled_from(_NAMES),
        st.integers(1, 2),
        owners,
    )
    return draw(st.lists(st.one_of(put, st.sampled_from(_NAMES)), max_size=25))


@given(_events())
def test_the_index_equals_one_built_from_scratch(events: list[Namespace | str]) -> None:
    incremental = tree_of()
    for event in events:
        if isinstance(event, str):
            incremental.remove(event)
        else:
            incremental.put(event)
    rebuilt = tree_of(*incremental)
    for ns in incremental:
        assert incremental.ancestors(ns) == rebuilt.ancestors(ns)
        assert incremental.descendants(ns.name) == rebuilt.descendants(ns.name)


@given(_events())
def test_every_namespace_whose_ancestors_change_is_reported(events: list[Namespace | str]) -> None:
    found = tree_of()
    for event in events:
        before = {ns.name: found.ancestors(ns) for ns in found}
        touched = found.remove(event) | {event} if isinstance(event, str) else found.put(event)
        after = {ns.name: found.ancestors(ns) for ns in found}
        moved = {name for name in before | after if before.get(name) != after.get(name)}
        assert moved <= touched | {event if isinstance(event, str) else event.name}


def test_the_language_of_the_tests_reads_as_said() -> None:
    a, b, c, d = namespaces("a=dc-1 > b > c=dc-2; d")
    assert (a.label, b.owners, c.label, d.owners) == ("dc-1", (Owner("a", "uid-a"),), "dc-2", ())
