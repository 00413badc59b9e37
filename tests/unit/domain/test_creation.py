"""Pods as they would be stored: hashes of templates, and priorities."""

import datetime
from typing import Any

import pytest

from schedclass.domain.insight.creation import as_created, template_hash, template_key
from schedclass.domain.insight.snapshot import PriorityClass


def template(spec: Any = None, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": spec or {"containers": []}}


def test_templates_are_compared_without_their_hash() -> None:
    plain = template_key(template(app="w"))
    hashed = template(**{"app": "w", "pod-template-hash": "abc"})
    hashed["metadata"].update(creationTimestamp=None, annotations={})
    assert template_key(hashed) == plain
    assert template_hash(hashed) == "abc"
    assert template_hash(template(app="w")) == ""
    assert template_key(template(app="v")) != plain
    assert template_key(template({"containers": [{}]}, app="w")) != plain
    assert template_key({"spec": {}}) == template_key({"metadata": {"labels": {}}, "spec": {}})


def test_templates_of_any_shape_are_compared_without_failing() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    odd: list[Any] = [None, 1, [], {"metadata": 1}, {"metadata": {"labels": "x"}}]
    odd += [{"spec": {1: "a", "b": 2}}, {"spec": datetime.date(2026, 1, 1)}, {"spec": "\ud800"}]
    for value in [*odd, {"spec": deep}]:
        assert isinstance(template_key(value), str)
        assert template_hash(value) == ""


@pytest.mark.parametrize(
    ("spec", "given", "priority", "policy"),
    [
        ({}, {}, 0, None),
        ({}, {"": PriorityClass(7)}, 7, None),
        ({}, {"": PriorityClass(7, preempts=False)}, 7, "Never"),
        ({"priorityClassName": "high"}, {}, None, None),
        ({"priorityClassName": "high"}, {"": PriorityClass(7)}, None, None),
        ({"priorityClassName": "high"}, {"high": PriorityClass(9)}, 9, None),
        ({"priorityClassName": "high"}, {"high": PriorityClass(9, preempts=False)}, 9, "Never"),
        ({"priorityClassName": "system-node-critical"}, {}, 2_000_001_000, None),
        ({"preemptionPolicy": "Never"}, {}, 0, "Never"),
        ({"priority": 3, "priorityClassName": "high"}, {"high": PriorityClass(9)}, 3, None),
    ],
)
def test_priorities_come_from_their_class_or_are_left_out(
    spec: dict[str, Any],
    given: dict[str, PriorityClass],
    priority: int | None,
    policy: str | None,
) -> None:
    made = as_created({"metadata": {"name": "p"}, "spec": spec}, given)["spec"]
    assert (made.get("priority"), made.get("preemptionPolicy")) == (priority, policy)
