"""What people, `kubectl wait`, Flux, Argo CD and the dashboard read from a class."""

import copy
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.class_status import (
    MESSAGE_MAX,
    SchedulerSign,
    class_status,
    only_pods_differ,
)
from schedclass.domain.compliance import COUNTED_KINDS, ViolationKind
from schedclass.domain.compliance_index import PodCounts
from schedclass.domain.nodes import Node
from schedclass.domain.schedulingclass import SchedulingClass, parse_class
from tests.strategies import Json, class_specs

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
WEST = {"nodeSelector": {"zone": "west"}}
INVALID = {"nodeSelector": {"a b": "c"}}
NODES = (
    Node("a", labels={"zone": "west"}, ready=True),
    Node("b", labels={"zone": "west"}, ready=True, unschedulable=True),
    Node("c", labels={"zone": "west"}, ready=False),
    Node("d", labels={"zone": "east"}, ready=True),
)
FOREIGN = {
    "type": "example.com/Audited",
    "status": "True",
    "reason": "Seen",
    "message": "by audit",
    "lastTransitionTime": T0,
}


def a_class(spec: Json, *, generation: int = 1, deleting: bool = False) -> SchedulingClass:
    metadata: dict[str, Any] = {"name": "dc-west", "generation": generation}
    if deleting:
        metadata["deletionTimestamp"] = T0
    return parse_class({"metadata": metadata, "spec": spec})


def status_of(
    cls: SchedulingClass,
    *,
    nodes: Iterable[Node] = NODES,
    bound: Collection[str] = (),
    previous: Mapping[str, Any] | None = None,
    now: str = T0,
    scheduler: SchedulerSign | None = None,
    pods: PodCounts | None = None,
    pods_to_come: bool = False,
) -> dict[str, Any]:
    return class_status(
        cls,
        nodes=nodes,
        bound_namespaces=bound,
        previous=previous or {},
        now=now,
        scheduler=scheduler,
        pods=pods,
        pods_to_come=pods_to_come,
    )


def counts(pods: int, violating: int = 0, **kinds: int) -> PodCounts:
    by_kind = {kind: kinds.get(kind.value, 0) for kind in COUNTED_KINDS}
    return PodCounts(pods, violating, by_kind)


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def message(status: Mapping[str, Any], kind: str) -> str:
    (found,) = (c["message"] for c in status["conditions"] if c["type"] == kind)
    assert isinstance(found, str)
    return found


def test_a_class_in_use_with_nodes_is_ready_and_counted() -> None:
    status = status_of(a_class(WEST, generation=3), bound=["tenant-a", "tenant-b"])
    assert conditions(status) == {
        "Ready": ("True", "Available"),
        "Accepted": ("True", "Valid"),
        "NodesAvailable": ("True", "NodesMatched"),
        "InUse": ("True", "ReferencedByNamespaces"),
        "Compliant": ("Unknown", "NotEvaluated"),
    }
    counts = {key: value for key, value in status.items() if key != "conditions"}
    assert counts == {
        "observedGeneration": 3,
        "matchingNodes": 3,
        "readyNodes": 1,
        "boundNamespaces": 2,
    }


def test_a_class_nobody_uses_is_ready_all_the_same() -> None:
    found = conditions(status_of(a_class(WEST)))
    assert found["Ready"] == ("True", "Available")
    assert found["InUse"] == ("False", "Unreferenced")


def test_an_invalid_class_stalls_and_names_its_errors() -> None:
    status = status_of(a_class(INVALID), bound=["tenant-a"])
    assert conditions(status) == {
        "Ready": ("False", "InvalidSpec"),
        "Accepted": ("False", "InvalidSpec"),
        "NodesAvailable": ("Unknown", "NotEvaluated"),
        "InUse": ("True", "ReferencedByNamespaces"),
        "Compliant": ("Unknown", "NotEvaluated"),
        "Stalled": ("True", "InvalidSpec"),
    }
    assert 'spec.nodeSelector["a b"]' in message(status, "Ready")
    assert "matchingNodes" not in status


def test_nothing_of_an_error_outlives_its_correction() -> None:
    broken = status_of(a_class(INVALID, generation=1))
    fixed = status_of(a_class(WEST, generation=2), previous=broken, now=T1)
    assert "Stalled" not in conditions(fixed)
    assert conditions(fixed)["Ready"] == ("True", "Available")
    assert {c["observedGeneration"] for c in fixed["conditions"]} == {2}
    assert "a b" not in str(fixed)


def test_a_class_that_matches_no_node_is_not_ready() -> None:
    for nodes in (NODES[3:], ()):
        found = conditions(status_of(a_class(WEST), nodes=nodes))
        assert found["Ready"] == found["NodesAvailable"] == ("False", "NoMatchingNodes")
        assert found["Accepted"] == ("True", "Valid")
        assert "Stalled" not in found


def test_cordoned_or_unready_nodes_leave_the_class_ready() -> None:
    found = conditions(status_of(a_class(WEST), nodes=NODES[1:3]))
    assert found["NodesAvailable"] == ("False", "AllNodesCordoned")
    assert found["Ready"] == ("True", "Available")


def test_a_deleted_class_names_up_to_twenty_of_those_that_hold_it() -> None:
    bound = [f"tenant-{n:03}" for n in range(23)]
    status = status_of(a_class(WEST, deleting=True), bound=bound[::-1])
    assert conditions(status)["Ready"] == ("False", "Deleting")
    told = message(status, "Ready")
    assert all(name in told for name in bound[:20])
    assert bound[20] not in told
    assert "and 3 more" in told


def test_only_the_message_of_deletion_shows_names_of_tenants() -> None:
    assert "tenant-a" not in str(status_of(a_class(WEST), bound=["tenant-a"]))


def test_a_warning_is_shown_beside_the_acceptance() -> None:
    told = message(status_of(a_class(WEST)), "Accepted")
    assert "spec.nodeSelector" in told
    assert "node-restriction" in told


def test_the_time_moves_only_for_conditions_whose_status_flips() -> None:
    before = status_of(a_class(WEST))
    after = status_of(a_class(WEST), bound=["tenant-a"], previous=before, now=T1)
    times = {c["type"]: c["lastTransitionTime"] for c in after["conditions"]}
    assert times == {
        "Ready": T0,
        "Accepted": T0,
        "NodesAvailable": T0,
        "InUse": T1,
        "Compliant": T0,
    }


def test_conditions_of_others_keep_their_place() -> None:
    before = status_of(a_class(WEST))
    first, *rest = before["conditions"]
    mixed = {**before, "conditions": [first, FOREIGN, *rest]}
    after = status_of(a_class(INVALID), previous=mixed, now=T1)
    assert [c["type"] for c in after["conditions"]] == [
        first["type"],
        "example.com/Audited",
        *(c["type"] for c in rest),
        "Stalled",
    ]
    assert FOREIGN in after["conditions"]


def test_many_errors_are_cut_at_a_sentence_and_counted() -> None:
    spec = {"nodeSelector": {f"bad key {n}": "bad value" for n in range(5000)}}
    status = status_of(a_class(spec))
    accepted, ready = message(status, "Accepted"), message(status, "Ready")
    assert len(accepted) <= MESSAGE_MAX
    shown = accepted.count("spec.nodeSelector")
    assert accepted.endswith(f"and {10_000 - shown} more errors")
    assert len(ready) <= 1024
    assert ready.endswith("more errors")


BROKEN_STATUS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "conditions": st.one_of(
                st.none(),
                st.text(max_size=3),
                st.lists(
                    st.one_of(
                        st.none(),
                        st.fixed_dictionaries(
                            {"type": st.sampled_from(("Ready", "Stalled", "Other", 7))},
                            optional={
                                "status": st.sampled_from(("True", "False", None)),
                                "lastTransitionTime": st.sampled_from((T0, "", None)),
                            },
                        ),
                    ),
                    max_size=4,
                ),
            )
        }
    ),
)


@given(
    spec=class_specs(),
    nodes=st.lists(st.sampled_from(NODES), max_size=4),
    bound=st.sets(st.sampled_from(("tenant-a", "tenant-b", "tenant-c"))),
    deleting=st.booleans(),
    previous=BROKEN_STATUS,
)
def test_status_is_well_formed_and_settles_at_once(
    spec: Json, nodes: list[Node], bound: set[str], deleting: bool, previous: dict[str, Any]
) -> None:
    cls = a_class(spec, deleting=deleting)
    untouched = copy.deepcopy(previous)
    status = status_of(cls, nodes=nodes, bound=bound, previous=previous, now=T1)
    assert previous == untouched

    later = status_of(cls, nodes=nodes, bound=bound, previous=status, now="2027-01-01T00:00:00Z")
    assert later == status

    own = [c for c in status["conditions"] if c["type"] != "Other"]
    assert len({c["type"] for c in status["conditions"]}) == len(status["conditions"])
    for condition in own:
        assert re.fullmatch(r"[A-Za-z]+", condition["reason"])
        assert condition["message"].isprintable()
        assert len(condition["message"]) <= MESSAGE_MAX
        assert condition["observedGeneration"] == status["observedGeneration"]
    found = conditions({"conditions": own})
    assert ("Stalled" in found) is (cls.spec is None)
    assert (found["Ready"][0] == "True") is (
        cls.spec is not None and not deleting and status["matchingNodes"] > 0
    )


def test_a_class_tells_whether_somebody_places_its_pods() -> None:
    for alive, expected in (
        (True, ("True", "SchedulerRunning")),
        (False, ("False", "SchedulerMissing")),
        (None, ("Unknown", "SchedulerUnknown")),
    ):
        status = status_of(a_class(WEST), scheduler=SchedulerSign("ops/lease", alive))
        assert conditions(status)["SchedulerAvailable"] == expected
        assert conditions(status)["Ready"] == ("True", "Available")
    assert "ops/lease" in message(
        status_of(a_class(WEST), scheduler=SchedulerSign("ops/lease", False)), "SchedulerAvailable"
    )


def test_where_another_installation_schedules_nothing_is_said_about_it() -> None:
    assert "SchedulerAvailable" not in conditions(status_of(a_class(WEST)))


def test_a_scheduler_that_goes_on_living_changes_nothing() -> None:
    sign = SchedulerSign("ops/lease", True)
    before = status_of(a_class(WEST), scheduler=sign)
    assert status_of(a_class(WEST), scheduler=sign, previous=before, now=T1) == before


# --- compliance -----------------------------------------------------------------------------------


def test_pods_that_are_as_they_should_be_make_a_class_compliant() -> None:
    status = status_of(a_class(WEST), pods=counts(14))
    assert conditions(status)["Compliant"] == ("True", "NoViolations")
    assert (status["pods"], status["violatingPods"], status["lastEvaluated"]) == (14, 0, T0)


def test_violations_are_told_by_kind_and_leave_the_class_ready() -> None:
    status = status_of(a_class(WEST), pods=counts(14, 3, node=2, spread=1, bypass=1))
    assert conditions(status)["Compliant"] == ("False", "PodsViolating")
    assert conditions(status)["Ready"] == ("True", "Available")
    told = message(status, "Compliant")
    assert told.startswith("3 pods break the class: 2 on a node that it does not allow, 1 against")
    assert "1 not pinned to it" in told
    assert "kubectl schedclass check" in told
    assert status["violatingPods"] == 3


def test_what_is_not_known_of_pods_is_not_said_to_be_none() -> None:
    status = status_of(a_class(WEST))
    assert conditions(status)["Compliant"] == ("Unknown", "NotEvaluated")
    assert {"pods", "violatingPods", "lastEvaluated"}.isdisjoint(status)


def test_where_pods_run_is_not_compared_with_an_invalid_spec() -> None:
    status = status_of(a_class(INVALID), pods=counts(2))
    assert conditions(status)["Compliant"] == ("Unknown", "NotEvaluated")
    escaped = status_of(a_class(INVALID), pods=counts(2, 1, bypass=1))
    assert conditions(escaped)["Compliant"] == ("False", "PodsViolating")


def test_a_new_leader_lets_the_last_word_on_pods_stand_until_it_knows_them() -> None:
    before = status_of(a_class(WEST), pods=counts(14, 1, node=1))
    assert status_of(a_class(WEST), previous=before, now=T1, pods_to_come=True) == before
    edited = status_of(a_class(WEST, generation=2), previous=before, now=T1, pods_to_come=True)
    assert conditions(edited)["Compliant"] == ("Unknown", "NotEvaluated")
    never = status_of(a_class(WEST), previous=before, now=T1)
    assert conditions(never)["Compliant"] == ("Unknown", "NotEvaluated")
    assert "pods" not in never


def test_another_look_at_pods_writes_nothing_unless_it_finds_something_else() -> None:
    before = status_of(a_class(WEST), pods=counts(14))
    assert status_of(a_class(WEST), previous=before, now=T1, pods=counts(14)) == before
    after = status_of(a_class(WEST), previous=before, now=T1, pods=counts(15))
    assert after["lastEvaluated"] == T1
    assert only_pods_differ(before, after)
    broken = status_of(a_class(WEST), previous=before, now=T1, pods=counts(14, 1, node=1))
    assert not only_pods_differ(before, broken)


def test_violation_kinds_of_the_message_are_all_that_are_counted() -> None:
    for kind in COUNTED_KINDS:
        told = message(status_of(a_class(WEST), pods=counts(1, 1, **{kind.value: 1})), "Compliant")
        assert told.startswith("1 pod breaks the class: 1 ")
    assert ViolationKind.CLASS not in COUNTED_KINDS
