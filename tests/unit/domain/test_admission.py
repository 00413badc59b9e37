"""The table of admission, row by row, and its laws."""

from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain import names
from schedclass.domain.admission import (
    DAEMON_SET_CONTROLLER,
    ClassState,
    ClassView,
    Decision,
    Outcome,
    PodCase,
    PodRequest,
    decide_class,
    decide_pod,
    decide_preset_node,
)
from schedclass.domain.findings import Reason
from schedclass.domain.inheritance import Effective
from schedclass.domain.nodes import Node
from schedclass.domain.schedulingclass import parse_class
from schedclass.domain.stamping import decide_namespace
from tests.treetest import member, settle, tree

OWN = Effective("dc-1", "tenant-a", "uid-a", "dc-1")
WEST = ClassView(
    ClassState.EXISTS,
    parse_class({"metadata": {"name": "dc-1"}, "spec": {"nodeSelector": {"region": "west"}}}),
)
INVALID = ClassView(
    ClassState.EXISTS,
    parse_class({"metadata": {"name": "dc-1"}, "spec": {"nodeSelector": {"a b": "west"}}}),
)
ABSENT = ClassView(ClassState.ABSENT)
UNKNOWN = ClassView(ClassState.UNKNOWN)
WEST_NODE = Node(name="w1", labels={"region": "west"})
EAST_NODE = Node(name="e1", labels={"region": "east"})


def pod(**fields: Any) -> PodRequest:
    return PodRequest("tenant-a", **fields)


def decide(
    request: PodRequest,
    effective: Effective = OWN,
    view: ClassView = WEST,
    node: Node | None = None,
    **options: Any,
) -> Decision:
    return decide_pod(PodCase(request, effective, view, node, **options))


def patched(obj: dict[str, Any], decision: Decision) -> dict[str, Any]:
    result: dict[str, Any] = jsonpatch.apply_patch(obj, [dict(op) for op in decision.patch])
    return result


@pytest.mark.parametrize("node", ["", "e1"])
@pytest.mark.parametrize("decider", [decide_pod, decide_preset_node])
def test_in_an_excluded_namespace_every_pod_is_left_alone(
    decider: Callable[[PodCase], Decision], node: str
) -> None:
    decision = decider(PodCase(pod(node_name=node), OWN, WEST, excluded=True))
    assert (decision.outcome, decision.patch) == (Outcome.UNCHANGED, ())
    assert decision.finding.reason is Reason.NAMESPACE_EXCLUDED


@given(
    request=st.builds(
        PodRequest,
        namespace=st.just("tenant-a"),
        node_name=st.sampled_from(["", "w1", "e1", "gone"]),
        annotations=st.sampled_from([None, {names.MIRROR_POD: "hash"}]),
        username=st.sampled_from(["tenant", "system:node:e1", DAEMON_SET_CONTROLLER]),
        groups=st.sampled_from([(), ("system:nodes",)]),
    ),
    view=st.sampled_from([WEST, INVALID, ABSENT, UNKNOWN]),
    exempt=st.booleans(),
)
def test_a_preset_node_is_judged_as_when_the_pod_is_pinned_and_nothing_changed(
    request: PodRequest, view: ClassView, *, exempt: bool
) -> None:
    node = {"w1": WEST_NODE, "e1": EAST_NODE}.get(request.node_name)
    case = PodCase(request, OWN, view, node, exempt_daemon_sets=exempt)
    pinned, judged = decide_pod(case), decide_preset_node(case)
    assert judged.patch == ()
    if pinned.outcome is Outcome.PATCHED:
        assert (judged.outcome, judged.finding.reason) == (Outcome.UNCHANGED, Reason.NODE_ALLOWED)
    else:
        assert judged == pinned


def test_without_a_class_a_pod_is_left_alone() -> None:
    decision = decide(pod(), Effective(), ABSENT)
    assert (decision.outcome, decision.patch) == (Outcome.UNCHANGED, ())
    assert decision.warnings == ()
    assert decision.events == ()


def test_a_confirmed_absent_class_leaves_the_pod_alone_and_says_so() -> None:
    decision = decide(pod(), view=ABSENT)
    assert decision.outcome is Outcome.UNCHANGED
    assert decision.finding.reason is Reason.CLASS_NOT_FOUND
    assert "dc-1" in decision.warnings[0].named
    assert decision.events == (decision.finding,)


SPREADING = ClassView(
    ClassState.EXISTS,
    parse_class(
        {
            "metadata": {"name": "dc-1"},
            "spec": {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
        }
    ),
)


@pytest.mark.parametrize("scheduler", ["default-scheduler", names.SCHEDULER_NAME])
@pytest.mark.parametrize("labels", [{}, {"app": "web"}, {"app": "web", "team": "a"}], ids=str)
def test_a_pod_that_fills_no_selector_of_its_class_is_pinned_all_the_same_and_that_is_told(
    labels: dict[str, str], scheduler: str
) -> None:
    request = pod(labels=labels, scheduler_name=scheduler, annotations={names.CLASS_KEY: "dc-1"})
    decision = decide(request, view=SPREADING, label_keys=("app", "team"))
    silent = decide(request, view=WEST, label_keys=("app", "team"))
    assert (decision.outcome, decision.finding, decision.patch) == (
        silent.outcome,
        silent.finding,
        silent.patch,
    )
    assert silent.warnings == silent.events == ()
    told = [] if len(labels) == 2 else [Reason.SELECTOR_NOT_FILLED]
    assert [finding.reason for finding in decision.warnings] == told
    assert decision.events == decision.warnings


def test_the_warning_about_an_absent_class_names_the_ancestor_that_set_it() -> None:
    decision = decide(pod(), Effective("dc-1", "tenant-root", "u"), ABSENT)
    assert "tenant-root" in decision.warnings[0].named


def test_unknown_is_never_taken_for_absent() -> None:
    assert decide(pod(), view=UNKNOWN).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("scheduler", ["", "default-scheduler", "volcano", "stork", "linstor"])
@pytest.mark.parametrize("annotations", [None, {}, {"a/b": "c~d"}, {names.CLASS_KEY: "dc-9"}])
def test_a_pod_is_pinned_whatever_its_author_wrote(
    scheduler: str, annotations: dict[str, str] | None
) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}}
    if scheduler:
        obj["spec"]["schedulerName"] = scheduler
    if annotations is not None:
        obj["metadata"]["annotations"] = annotations
    decision = decide(pod(scheduler_name=scheduler, annotations=annotations))
    result = patched(obj, decision)
    assert result["spec"] == {
        "containers": [{"name": "c"}],
        "schedulerName": names.SCHEDULER_NAME,
    }
    assert result["metadata"]["annotations"] == {**(annotations or {}), names.CLASS_KEY: "dc-1"}


def test_a_pod_that_is_already_right_gets_no_patch() -> None:
    request = pod(
        scheduler_name=names.SCHEDULER_NAME, annotations={names.CLASS_KEY: "dc-1", "x": "y"}
    )
    decision = decide(request)
    assert (decision.outcome, decision.patch) == (Outcome.UNCHANGED, ())


def test_a_body_without_spec_is_answered() -> None:
    result = patched({"metadata": {}}, decide(pod(has_spec=False)))
    assert result["spec"] == {"schedulerName": names.SCHEDULER_NAME}


def test_a_preset_node_of_the_class_is_allowed_and_the_pod_marked() -> None:
    decision = decide(pod(node_name="w1"), node=WEST_NODE)
    assert decision.outcome is Outcome.PATCHED


@pytest.mark.parametrize(
    ("view", "node", "words"),
    [
        (WEST, EAST_NODE, ["e1", "dc-1", "region"]),
        (WEST, None, ["e1", "does not exist"]),
        (INVALID, WEST_NODE, ["dc-1", "invalid"]),
    ],
    ids=["outside the class", "unknown node", "invalid class"],
)
def test_a_preset_node_that_the_class_does_not_allow_is_refused(
    view: ClassView, node: Node | None, words: list[str]
) -> None:
    decision = decide(pod(node_name="e1"), view=view, node=node)
    assert (decision.outcome, decision.code) == (Outcome.DENIED, 403)
    assert decision.finding.path == "spec.nodeName"
    assert all(word in decision.finding.message for word in words)
    assert "leave nodeName to the scheduler" in decision.finding.message


MIRROR = {names.MIRROR_POD: "hash"}


def test_a_mirror_pod_of_its_own_node_is_left_alone() -> None:
    request = pod(
        node_name="e1", annotations=MIRROR, username="system:node:e1", groups=["system:nodes"]
    )
    assert decide(request, node=EAST_NODE).finding.reason is Reason.MIRROR_POD


@pytest.mark.parametrize(
    "fields",
    [
        {"annotations": MIRROR},
        {"annotations": MIRROR, "node_name": "e1"},
        {"annotations": MIRROR, "node_name": "e1", "username": "system:node:e1"},
        {"annotations": MIRROR, "node_name": "e1", "groups": ["system:nodes"]},
        {
            "annotations": MIRROR,
            "node_name": "e1",
            "username": "system:node:w1",
            "groups": ["system:nodes"],
        },
        {"node_name": "e1", "username": "system:node:e1", "groups": ["system:nodes"]},
    ],
)
def test_a_fake_mirror_pod_gains_nothing(fields: dict[str, Any]) -> None:
    decision = decide(pod(**fields), node=EAST_NODE)
    assert decision.outcome in {Outcome.PATCHED, Outcome.DENIED}


def test_daemon_set_pods_are_like_any_other_unless_exempt() -> None:
    request = pod(username=DAEMON_SET_CONTROLLER)
    assert decide(request).outcome is Outcome.PATCHED
    decision = decide(request, exempt_daemon_sets=True)
    assert decision.finding.reason is Reason.DAEMON_SET_EXEMPT
    forged = decide(pod(username="system:serviceaccount:tenant-a:x"), exempt_daemon_sets=True)
    assert forged.outcome is Outcome.PATCHED


_ANNOTATIONS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from([names.CLASS_KEY, "a/b", "a~b", "~1", names.MIRROR_POD, ""]),
        st.sampled_from(["", "dc-1", "dc-2", "x/y~z"]),
    ),
)


@given(
    st.builds(
        PodRequest,
        namespace=st.just("tenant-a"),
        scheduler_name=st.sampled_from(["", "default-scheduler", names.SCHEDULER_NAME, "x"]),
        annotations=_ANNOTATIONS,
        username=st.sampled_from(["", "system:node:e1", DAEMON_SET_CONTROLLER, "tenant"]),
        groups=st.sampled_from([(), ("system:nodes",), ("system:masters",)]),
    )
)
def test_a_second_pass_finds_nothing_to_do(request: PodRequest) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"containers": []}}
    if request.scheduler_name:
        obj["spec"]["schedulerName"] = request.scheduler_name
    if request.annotations is not None:
        obj["metadata"]["annotations"] = dict(request.annotations)
    result = patched(obj, decide(request))
    assert result["spec"]["schedulerName"] == names.SCHEDULER_NAME
    assert result["metadata"]["annotations"][names.CLASS_KEY] == "dc-1"
    again = decide(
        pod(
            scheduler_name=result["spec"]["schedulerName"],
            annotations=result["metadata"]["annotations"],
        )
    )
    assert again.patch == ()


def namespace(name: str, owner: str = "", **metadata: Any) -> dict[str, Any]:
    owners = [{"apiVersion": "v1", "kind": "Namespace", "name": owner, "uid": f"uid-{owner}"}]
    return {
        "metadata": {"name": name, **({"ownerReferences": owners} if owner else {}), **metadata}
    }


def test_a_new_namespace_is_stamped_in_the_same_request() -> None:
    obj = namespace("b", "a")
    decision = decide_namespace(tree("a=dc-1"), obj, class_exists=True)
    metadata = patched(obj, decision)["metadata"]
    assert metadata["labels"] == {names.CLASS_KEY: "dc-1", names.ENFORCED: "true"}
    assert metadata["annotations"] == {
        names.INHERITED_FROM: "a",
        names.INHERITED_CLASS: "dc-1",
        names.INHERITED_FROM_UID: "uid-a",
    }
    assert decision.warnings == ()


def test_an_overridden_wish_is_answered_with_a_warning() -> None:
    obj = namespace("b", "a", labels={names.CLASS_KEY: "dc-2", "other": "kept"})
    decision = decide_namespace(tree("a=dc-1"), obj, class_exists=True)
    metadata = patched(obj, decision)["metadata"]
    assert metadata["labels"][names.CLASS_KEY] == "dc-1"
    assert metadata["labels"]["other"] == "kept"
    assert metadata["annotations"][names.REQUESTED_CLASS] == "dc-2"
    (warning,) = (finding.named for finding in decision.warnings)
    assert all(word in warning for word in ("dc-2", "dc-1", " a "))


def test_an_own_class_that_does_not_exist_is_warned_about() -> None:
    obj = namespace("a", labels={names.CLASS_KEY: "nowhere"})
    decision = decide_namespace(tree(""), obj, class_exists=False)
    assert decision.outcome is Outcome.UNCHANGED
    assert "nowhere" in decision.warnings[0].named


def test_a_system_namespace_is_not_stamped_and_its_label_is_questioned() -> None:
    obj = namespace("kube-system", "a", labels={names.CLASS_KEY: "dc-2"})
    decision = decide_namespace(tree("a=dc-1"), obj, class_exists=True)
    assert decision.outcome is Outcome.UNCHANGED
    assert "NamespaceExcluded" in decision.warnings[0].named


def test_a_settled_namespace_gets_no_patch() -> None:
    found = tree("a=dc-1 > b=dc-2")
    settle(found)
    ns = member(found, "b")
    obj = namespace(
        "b",
        "a",
        labels={names.CLASS_KEY: ns.label, names.ENFORCED: "true"},
        annotations={
            names.INHERITED_FROM: ns.inherited_from,
            names.INHERITED_CLASS: ns.inherited_class,
            names.INHERITED_FROM_UID: ns.inherited_from_uid,
            names.REQUESTED_CLASS: ns.requested,
        },
    )
    assert decide_namespace(found, obj, class_exists=True).patch == ()


def test_a_namespace_that_is_being_deleted_is_left_alone() -> None:
    obj = namespace("b", "a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert decide_namespace(tree("a=dc-1"), obj, class_exists=True).patch == ()


def test_all_errors_of_a_class_come_in_one_answer() -> None:
    spec = {"nodeSelector": {"a b": "x"}, "topologySpreadConstraints": [{"maxSkew": 0}]}
    decision = decide_class({"spec": spec}, None)
    assert (decision.outcome, decision.code) == (Outcome.DENIED, 422)
    assert "spec.nodeSelector" in decision.finding.message
    assert "maxSkew" in decision.finding.message

    assert {cause.path for cause in decision.causes} >= {
        'spec.nodeSelector["a b"]',
        "spec.topologySpreadConstraints[0].maxSkew",
    }


@pytest.mark.parametrize(
    ("spec", "nodes", "warned"),
    [
        ({"nodeSelector": {"region": "north"}}, [WEST_NODE, EAST_NODE], "none of 2 nodes"),
        ({}, [], "no nodes"),
        ({"nodeSelector": {"region": "west"}}, [WEST_NODE, EAST_NODE], ""),
        ({"nodeSelector": {"region": "north"}}, None, ""),
    ],
    ids=["none matches", "no nodes at all", "one matches", "nodes not known"],
)
def test_a_class_that_matches_no_node_is_accepted_with_a_warning(
    spec: dict[str, Any], nodes: list[Node] | None, warned: str
) -> None:
    decision = decide_class({"spec": spec}, None, nodes=nodes)
    assert decision.outcome is Outcome.UNCHANGED
    told = [w.named for w in decision.warnings if w.reason is Reason.NO_MATCHING_NODES]
    assert [warned in text for text in told] == [True] * bool(warned)
    again = decide_class({"spec": spec}, {"spec": spec}, nodes=nodes)
    assert again.warnings == ()


def test_an_invalid_class_stored_before_can_still_be_labelled() -> None:
    bad = {"nodeSelector": {"a b": "x"}}
    old = {"metadata": {"name": "x"}, "spec": bad}
    new = {"metadata": {"name": "x", "finalizers": []}, "spec": bad}
    assert decide_class(new, old).outcome is Outcome.UNCHANGED
