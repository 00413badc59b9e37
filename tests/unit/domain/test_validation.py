"""What a class may say, what it may not, and how it is told. The cluster tests hold the same
function against the real API server; here each rule has one case that can be read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.podfields import PREFERRED
from schedclass.domain.schedulingclass import parse_class
from schedclass.domain.validation import decode_spec
from tests.strategies import Json, class_specs, mutated, orderly_specs
from tests.validation_cases import (
    ACCEPTED,
    PREFERENCE,
    REFUSED,
    SPREAD_0,
    apart,
    expression,
    near,
    node_expression,
    node_field,
    node_terms,
    spread,
)


def errors(spec: Json) -> list[Finding]:
    return [found for found in decode_spec(spec)[1] if found.severity is Severity.ERROR]


def warnings(spec: Json) -> set[Reason]:
    return {found.reason for found in decode_spec(spec)[1] if found.severity is Severity.WARNING}


@pytest.mark.parametrize(("spec", "path"), REFUSED)
def test_a_broken_rule_gives_one_sentence_at_its_field(spec: Json, path: str) -> None:
    (error,) = errors(spec)
    assert (error.path, error.reason) == (path, Reason.INVALID_SPEC)
    assert "\n" not in error.message


@pytest.mark.parametrize("spec", ACCEPTED)
def test_what_a_pod_may_say_a_class_may_say(spec: Json) -> None:
    assert errors(spec) == []
    assert parse_class({"metadata": {"name": "c"}, "spec": spec}).spec is not None


def test_all_errors_come_in_one_answer_before_the_warnings() -> None:
    spec = {
        "nodeSelecter": {},
        "nodeSelector": {"a b": "c d"},
        "podAffinity": [],
        "topologySpreadConstraints": [{"maxSkew": "1", "whenUnsatisfiable": "Never"}, 7],
    }
    findings = decode_spec(spec)[1]
    assert [found.path for found in findings] == [
        "spec.podAffinity",
        f"{SPREAD_0}.maxSkew",
        "spec.topologySpreadConstraints[1]",
        'spec.nodeSelector["a b"]',
        'spec.nodeSelector["a b"]',
        f"{SPREAD_0}.topologyKey",
        f"{SPREAD_0}.whenUnsatisfiable",
        'spec["nodeSelecter"]',
    ]


def test_a_misspelt_field_is_pointed_to_the_right_one() -> None:
    (warning,) = decode_spec({"nodeselector": {"zone": "a"}})[1]
    assert warning.reason is Reason.UNSUPPORTED_FIELD
    assert "did you mean nodeSelector?" in warning.message


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(node_terms({}), Reason.EMPTY_TERM, id="empty term"),
        pytest.param(node_terms(None, PREFERENCE), Reason.EMPTY_TERM, id="null term beside one"),
        pytest.param(node_expression("cpus", "Lt", "x"), Reason.UNMATCHABLE_TERM, id="Lt word"),
        pytest.param(
            near(labelSelector={"matchExpressions": [expression("app", "NotIn", "x")]}),
            Reason.NEGATIVE_SELECTOR,
            id="drawn to all but one app",
        ),
    ],
)
def test_a_legal_but_useless_part_is_warned_of(spec: Json, reason: Reason) -> None:
    assert reason in warnings(spec)


def test_keeping_apart_from_all_but_one_app_is_no_mistake() -> None:
    selector = {"matchExpressions": [expression("app", "NotIn", "x")]}
    assert Reason.NEGATIVE_SELECTOR not in warnings(apart(labelSelector=selector))


PROTECTED = "example.node-restriction.kubernetes.io/pool"


@pytest.mark.parametrize(
    ("spec", "warned"),
    [
        pytest.param({"nodeSelector": {"pool": "a"}}, True, id="any label"),
        pytest.param({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}, True, id="zone"),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "a"}}, True, id="hostname"),
        pytest.param({"nodeSelector": {"x.node.kubernetes.io/y": "a"}}, True, id="kubelet domain"),
        pytest.param({"nodeSelector": {"notk8s.io/y": "a"}}, True, id="looks like k8s.io"),
        pytest.param({"nodeSelector": {PROTECTED: "a"}}, False, id="node restriction"),
        pytest.param(
            {"nodeSelector": {"node-role.kubernetes.io/tenant": ""}}, False, id="node role"
        ),
        pytest.param({"nodeSelector": {"pool": "a", PROTECTED: "a"}}, False, id="one of two"),
        pytest.param(node_expression(PROTECTED, "Exists"), False, id="protected term"),
        pytest.param(node_expression("pool", "NotIn", "a"), True, id="absence of any label"),
        pytest.param(node_expression(PROTECTED, "DoesNotExist"), False, id="protected absence"),
        pytest.param(
            node_terms(
                {
                    "matchExpressions": [
                        expression(PROTECTED, "DoesNotExist"),
                        expression("pool", "Exists"),
                    ]
                }
            ),
            True,
            id="protected absence keeps nobody out",
        ),
        pytest.param(
            node_terms(
                {"matchExpressions": [expression(PROTECTED, "Exists")]},
                {"matchExpressions": [expression("pool", "Exists")]},
            ),
            True,
            id="one alternative is open",
        ),
        pytest.param(
            node_terms({}, {"matchExpressions": [expression(PROTECTED, "Exists")]}),
            False,
            id="empty alternative is none",
        ),
        pytest.param(node_field("metadata.name", "In", "node-1"), False, id="name"),
        pytest.param(
            {"nodeSelector": {"pool": "a"}} | node_expression(PROTECTED, "Exists"),
            False,
            id="open selector and protected term",
        ),
        pytest.param({"nodeAffinity": {PREFERRED: []}}, False, id="only preferences"),
        pytest.param(apart(), False, id="no node constraints"),
    ],
)
def test_a_class_that_a_taken_node_could_join_is_warned_of(spec: Json, warned: bool) -> None:
    assert (Reason.SELF_ASSIGNABLE_LABELS in warnings(spec)) is warned


HOSTILE = [
    pytest.param({1: 2, None: 3}, id="keys that are no strings"),
    pytest.param({"nodeSelector": {1: "a"}}, id="label key that is no string"),
    pytest.param({"nodeSelector": {"\ud800": "\udfff"}}, id="lone surrogates"),
    pytest.param({"nodeSelector": {"k" * 1_000_000: "\x1b[2J\u202e"}}, id="long and unprintable"),
    pytest.param(spread(maxSkew=10**5000), id="number of thousands of digits"),
    pytest.param(spread(maxSkew=float("nan")), id="not a number"),
    pytest.param(spread(maxSkew=object()), id="no JSON at all"),
    pytest.param({"topologySpreadConstraints": [7] * 20_000}, id="many errors"),
    pytest.param({"f" * n: 1 for n in range(2000)}, id="many unknown fields"),
    pytest.param(
        apart(matchLabelKeys=["a"] * 20_000, mismatchLabelKeys=["a"] * 20_000), id="many keys"
    ),
]


@pytest.mark.parametrize("spec", HOSTILE)
def test_hostile_input_gives_short_printable_sentences(spec: Json) -> None:
    findings = decode_spec(spec)[1]
    assert findings
    for found in findings:
        assert str(found).isprintable()
        assert str(found).isascii()
        assert len(str(found)) < 1000


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_value_gets_a_verdict_and_a_class(raw: Json) -> None:
    assert (parse_class({"spec": raw}).spec is None) is bool(errors(raw))
    assert parse_class(raw).name == ""


@given(class_specs())
def test_a_class_has_a_spec_exactly_when_it_has_no_errors(raw: Json) -> None:
    cls = parse_class({"metadata": {"name": "c"}, "spec": raw})
    assert (cls.spec is None) is bool(cls.errors)
    assert cls.findings == decode_spec(raw)[1]


@given(mutated(orderly_specs()))
def test_what_is_read_can_be_written_and_read_again(raw: Json) -> None:
    spec = parse_class({"spec": raw}).spec
    if spec is not None:
        written = json.loads(spec.model_dump_json(by_alias=True, exclude_none=True))
        assert parse_class({"spec": written}).spec == spec


def test_metadata_of_the_wrong_type_reads_as_empty() -> None:
    cls = parse_class(
        {"metadata": {"labels": [], "finalizers": {}, "generation": "x"}, "status": 3}
    )
    assert (cls.labels, cls.finalizers, cls.generation, cls.status) == ({}, (), 0, {})
