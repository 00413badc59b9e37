"""Selectors match as kube-scheduler's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.podfields import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from schedclass.domain.selectors import matches_label_selector, matches_node_selector, parses
from tests.strategies import GOOD_KEYS, GOOD_VALUES, label_maps

KEYS = st.sampled_from(GOOD_KEYS)
VALUES = st.lists(st.sampled_from(GOOD_VALUES), min_size=1, max_size=3).map(tuple)
INT64 = st.integers(-(2**63), 2**63 - 1)


def selects(operator: str, key: str, values: tuple[str, ...], labels: dict[str, str]) -> bool:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)
    return matches_label_selector(LabelSelector(match_expressions=(requirement,)), labels)


def term(operator: str, key: str, *values: str) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return NodeSelectorTerm(match_expressions=(requirement,))


def field_term(operator: str, *values: str) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key="metadata.name", operator=operator, values=values)
    return NodeSelectorTerm(match_fields=(requirement,))


def on_node(*terms: NodeSelectorTerm, name: str = "node-1", **labels: str) -> bool:
    return matches_node_selector(NodeSelector(node_selector_terms=terms), labels, name)


@given(label_maps())
def test_no_selector_selects_nothing_and_an_empty_one_everything(labels: dict[str, str]) -> None:
    assert not matches_label_selector(None, labels)
    assert matches_label_selector(LabelSelector(), labels)


@given(KEYS, VALUES, label_maps())
def test_not_in_is_the_opposite_of_in_and_holds_without_the_label(
    key: str, values: tuple[str, ...], labels: dict[str, str]
) -> None:
    assert selects("In", key, values, labels) is (labels.get(key) in values)
    assert selects("NotIn", key, values, labels) is not selects("In", key, values, labels)
    if key not in labels:
        assert selects("NotIn", key, values, labels)


@given(KEYS, label_maps())
def test_exists_is_the_opposite_of_does_not_exist(key: str, labels: dict[str, str]) -> None:
    assert selects("Exists", key, (), labels) is (key in labels)
    assert selects("DoesNotExist", key, (), labels) is not selects("Exists", key, (), labels)


@given(label_maps(), label_maps())
def test_match_labels_ask_for_each_pair(wanted: dict[str, str], labels: dict[str, str]) -> None:
    expected = wanted.items() <= labels.items()
    assert matches_label_selector(LabelSelector(match_labels=wanted), labels) is expected


@given(label_maps(), label_maps())
def test_expressions_of_one_value_mean_the_same_as_match_labels(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    expressions = tuple(
        LabelSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in wanted.items()
    )
    assert matches_label_selector(
        LabelSelector(match_expressions=expressions), labels
    ) is matches_label_selector(LabelSelector(match_labels=wanted), labels)


@given(INT64, INT64)
def test_numbers_are_compared_as_numbers(limit: int, actual: int) -> None:
    if limit >= 0:  # a negative number is no label value, so the requirement cannot be read
        assert on_node(term("Gt", "n", str(limit)), n=str(actual)) is (actual > limit)
        assert on_node(term("Lt", "n", str(limit)), n=str(actual)) is (actual < limit)


@pytest.mark.parametrize(
    "value", ["", "x", "1_0", " 1", "1.0", "\u0661", "9223372036854775808", "1" * 40, "0x1"]
)
def test_what_is_no_64_bit_number_is_neither_greater_nor_less(value: str) -> None:
    assert not on_node(term("Gt", "n", "5"), n=value)
    assert not on_node(term("Lt", "n", "5"), n=value)
    assert not on_node(term("Gt", "n", value), n="5")
    assert not on_node(term("Lt", "n", value), n="5")


def test_leading_zeros_do_not_make_a_number_too_long() -> None:
    assert on_node(term("Gt", "n", "5"), n="0" * 40 + "6")


def test_a_node_without_the_label_is_neither_greater_nor_less() -> None:
    assert not on_node(term("Gt", "n", "0"))
    assert not on_node(term("Lt", "n", "0"))


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    west, east = term("In", "zone", "west"), term("In", "zone", "east")
    assert not on_node()
    assert not on_node(NodeSelectorTerm(), zone="west")
    assert on_node(NodeSelectorTerm(), west, zone="west")
    assert on_node(east, west, zone="west")
    assert not on_node(east, zone="west")


def test_all_expressions_and_fields_of_a_term_must_hold() -> None:
    both = NodeSelectorTerm(
        match_expressions=term("In", "zone", "west").match_expressions,
        match_fields=field_term("In", "node-1").match_fields,
    )
    assert on_node(both, zone="west")
    assert not on_node(both, zone="east")
    assert not on_node(both, name="node-2", zone="west")


def test_the_name_of_a_node_is_not_its_hostname_label() -> None:
    hostname = {"kubernetes.io/hostname": "host-1"}
    assert on_node(field_term("In", "node-1"), **hostname)
    assert not on_node(field_term("In", "host-1"), **hostname)
    assert on_node(term("In", "kubernetes.io/hostname", "host-1"), **hostname)
    assert not on_node(field_term("NotIn", "node-1"), **hostname)


def test_a_term_that_cannot_be_read_is_passed_over_and_stops_no_other() -> None:
    unreadable = NodeSelectorTerm(
        match_expressions=(
            NodeSelectorRequirement(key="zone", operator="NotIn", values=("-bad-",)),
        )
    )
    assert not on_node(unreadable, zone="west")
    assert on_node(unreadable, term("In", "zone", "west"), zone="west")


@pytest.mark.parametrize(
    ("operator", "values", "readable"),
    [
        ("In", ("a",), True),
        ("In", (), False),
        ("In", ("a", "-a"), False),
        ("Exists", (), True),
        ("Exists", ("a",), False),
        ("Gt", ("1",), True),
        ("Gt", ("-1",), False),
        ("Gt", ("1", "2"), False),
        ("Is", ("a",), False),
    ],
)
def test_the_scheduler_reads_only_well_formed_requirements(
    operator: str, values: tuple[str, ...], readable: bool
) -> None:
    assert parses(NodeSelectorRequirement(key="a", operator=operator, values=values)) is readable
