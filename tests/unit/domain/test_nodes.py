"""Nodes are read as they are, and refused with the constraint that they fail."""

import pytest
from hypothesis import given

from schedclass.domain.nodes import Node, Taint, matches_node, parse_node, why_node_not_allowed
from schedclass.domain.podfields import ClassSpec
from schedclass.domain.schedulingclass import parse_class
from tests.strategies import Json, label_maps, orderly_specs

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEST = {
    "nodeSelector": {"zone": "west"},
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
        }
    },
}


def spec_of(raw: Json) -> ClassSpec:
    spec = parse_class({"spec": raw}).spec
    assert spec is not None
    return spec


def test_a_node_is_read_from_its_object() -> None:
    node = parse_node(
        {
            "metadata": {"name": "n", "uid": "u", "labels": {"zone": "west"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True"},
                ]
            },
        }
    )
    assert node == Node(
        name="n",
        uid="u",
        labels={"zone": "west"},
        ready=True,
        unschedulable=True,
        taints=(Taint("k", "", "NoSchedule"),),
    )
    assert not node.takes_pods


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_that_does_not_say_it_is_ready_is_not(status: str | None) -> None:
    conditions = [{"type": "Ready", "status": status}]
    assert not parse_node({"status": {"conditions": conditions}}).ready


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": None, "spec": None, "status": None}, {"metadata": [], "spec": "x"}]
)
def test_a_node_with_parts_missing_reads_as_empty(raw: Json) -> None:
    assert parse_node(raw) == Node(name="")


def test_both_the_selector_and_the_affinity_must_allow_a_node() -> None:
    spec = spec_of(WEST)
    assert why_node_not_allowed(spec, Node("n", labels={"zone": "west", "disk": ""})) is None

    elsewhere = why_node_not_allowed(spec, Node("n", labels={"zone": "east", "disk": ""}))
    assert elsewhere is not None
    assert str(elsewhere) == (
        'spec.nodeSelector["zone"]: node "n" has "east", the class wants "west"'
    )

    without_disk = why_node_not_allowed(spec, Node("n", labels={"zone": "west"}))
    assert without_disk is not None
    assert without_disk.path == f"spec.nodeAffinity.{REQUIRED}"


def test_a_class_without_node_constraints_allows_any_node() -> None:
    assert why_node_not_allowed(spec_of({}), Node("n")) is None


@given(orderly_specs(), label_maps())
def test_a_node_is_refused_exactly_when_it_does_not_match(
    raw: Json, labels: dict[str, str]
) -> None:
    spec = parse_class({"spec": raw}).spec
    node = Node("node-1", labels=labels)
    if spec is not None:
        assert (why_node_not_allowed(spec, node) is None) is matches_node(spec, node)
