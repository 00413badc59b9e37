"""The tree: folding, filters, odd shapes."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.cli.screen import Screen
from schedclass.domain.insight.snapshot import NamespaceRecord, Part, Snapshot
from schedclass.domain.insight.tenant_tree import TreeFilter, TreeRow, tenant_tree
from schedclass.domain.insight.world import Policy, World
from schedclass.domain.namespaces import Namespace, Owner
from tests.treetest import namespaces

EVERYTHING = TreeFilter(everything=True)


def world(*members: Namespace) -> World:
    records = tuple(map(NamespaceRecord, members))
    return World(Snapshot(namespaces=records, unknown={Part.CLASSES: "not asked"}), Policy())


def told(text: str, **wanted: Any) -> list[str]:
    rows = tenant_tree(world(*namespaces(text)), TreeFilter(**wanted))
    return [f"{'.' * row.depth}{row.name}{f'+{row.folded}' if row.folded else ''}" for row in rows]


def test_siblings_that_look_alike_are_folded_and_the_others_shown() -> None:
    text = "a=dc > b; a > c; a > d; a > e > f; a > g=other"
    assert told(text, fold=2) == ["a+3", ".e", "..f", ".g"]
    assert told(text, fold=3) == ["a", ".b", ".c", ".d", ".e", "..f", ".g"]


def test_a_filter_keeps_the_way_to_what_it_finds() -> None:
    text = "a > b=dc > c; a > d=other; e"
    assert told(text, class_name="dc") == ["a", ".b", "..c"]
    assert told(text, root="b") == ["b", ".c"]
    assert told(text, depth=2) == ["a", ".b+1", ".d"]


def test_roots_without_a_class_are_left_out_unless_asked_for() -> None:
    assert told("a=dc; b; kube-system") == ["a"]
    assert told("a=dc; b; kube-system", everything=True) == ["a", "b", "kube-system"]


def test_members_of_a_cycle_are_shown() -> None:
    cycle = (
        Namespace("a", uid="a", owners=(Owner("b", "b"),)),
        Namespace("b", uid="b", owners=(Owner("a", "a"),)),
    )
    assert [row.name for row in tenant_tree(world(*cycle), EVERYTHING)] == ["a", "b"]


def test_a_chain_deeper_than_the_stack_is_shown() -> None:
    chain = [Namespace("n0", uid="n0", label="dc")]
    chain += [
        Namespace(f"n{i}", uid=f"n{i}", owners=(Owner(f"n{i - 1}", f"n{i - 1}"),))
        for i in range(1, 1500)
    ]
    assert len(tenant_tree(world(*chain), EVERYTHING)) == 1500


MEMBERS = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from([None, "dc", "other"])), min_size=1, max_size=12
)


@given(MEMBERS, st.integers(0, 3), st.one_of(st.none(), st.integers(1, 3)))
def test_every_namespace_is_shown_or_counted_as_folded(
    members: list[tuple[int, str | None]], fold: int, depth: int | None
) -> None:
    found = world(
        *(
            Namespace(f"n{i}", uid=f"n{i}", label=label, owners=(Owner(f"n{up}", f"n{up}"),))
            for i, (up, label) in enumerate(members)
        )
    )
    rows: tuple[TreeRow, ...] = tenant_tree(
        found, TreeFilter(everything=True, fold=fold, depth=depth)
    )
    assert sum(1 + row.folded for row in rows) == len(members)
    assert len({row.name for row in rows}) == len(rows)
    names = [row.name for row in rows]
    for row in rows:
        if row.parent:
            assert names.index(row.parent) < names.index(row.name)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_and_for_who_wants_it(
    stream: io.StringIO, variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Screen(stream).line(("fine", "good"))
    assert ("\x1b[" in stream.getvalue()) is coloured
