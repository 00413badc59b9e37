"""What of a class has no effect on a pod for want of labels, and how that is told."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.findings import Reason, Severity
from schedclass.domain.names import LINEAGE_LABELS
from schedclass.domain.open_terms import TermKind
from schedclass.domain.scheduling.constraints import compile_spec
from schedclass.domain.scheduling.podsets import filling_for
from schedclass.domain.schedulingclass import SchedulingClass, parse_class
from schedclass.domain.unfilled import selector_not_filled, unfilled
from schedclass.webhook.reviews import tidy_warnings
from tests.strategies import PREFERRED, REQUIRED, orderly_specs

GROUP, KIND, NAME = LINEAGE_LABELS
KEYS = st.lists(st.sampled_from([*LINEAGE_LABELS, "team", "example.org/app"]), unique=True)
TERM: dict[str, Any] = {"topologyKey": "zone"}
SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
APART = {"podAntiAffinity": {REQUIRED: [TERM]}}
NEAR = {"podAffinity": {REQUIRED: [TERM]}}
SELECTS = {"labelSelector": {"matchLabels": {"app": "x"}}}


def scheduling_class(spec: dict[str, Any]) -> SchedulingClass:
    return parse_class({"metadata": {"name": "dc-west"}, "spec": spec})


def sentence(
    spec: dict[str, Any], labels: Sequence[str] = (), keys: Sequence[str] = LINEAGE_LABELS
) -> str:
    found = selector_not_filled(scheduling_class(spec), dict.fromkeys(labels, "x"), keys)
    return "" if found is None else found.message


@pytest.mark.parametrize(
    ("labels", "keys", "lack", "way_out"),
    [
        (
            [],
            LINEAGE_LABELS,
            "the pod lacks labels apps.cozystack.io/application.{group,kind,name}",
            "add them, or a labelSelector to the class",
        ),
        (
            [KIND],
            LINEAGE_LABELS,
            "the pod lacks labels apps.cozystack.io/application.{group,name}",
            "add them, or a labelSelector to the class",
        ),
        (
            [KIND, NAME],
            LINEAGE_LABELS,
            "the pod lacks label apps.cozystack.io/application.group",
            "add it, or a labelSelector to the class",
        ),
        (
            [],
            ["team", "app", "example.org/app"],
            "the pod lacks labels team, app, example.org/app",
            "add them, or a labelSelector to the class",
        ),
        ([KIND], [], "no keys are configured", "give the class one"),
    ],
)
def test_the_sentence_names_missing_labels_the_way_out_and_class_rules(
    labels: list[str], keys: list[str], lack: str, way_out: str
) -> None:
    lost = "it counts no pods for its required podAntiAffinity"
    filled = 'to fill a labelSelector of class "dc-west" from'
    assert sentence(APART, labels, keys) == f"{lack} {filled}; {way_out}; {lost}"


@pytest.mark.parametrize(
    ("spec", "effect"),
    [
        (
            {"topologySpreadConstraints": [SPREAD]},
            "counts no pods for its topologySpreadConstraints",
        ),
        (
            {"topologySpreadConstraints": [SPREAD, {**SPREAD, "topologyKey": "a", **SELECTS}]},
            "counts no pods for its topologySpreadConstraints[0]",
        ),
        (
            {
                kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}
                for kind in ("podAffinity", "podAntiAffinity")
            },
            "counts no pods for its preferred podAffinity, preferred podAntiAffinity",
        ),
        (NEAR, "leaves the pod Pending by its required podAffinity"),
        (
            {**NEAR, **APART},
            "counts no pods for its required podAntiAffinity and leaves the pod Pending by its "
            "required podAffinity",
        ),
        (
            {"podAntiAffinity": {REQUIRED: [{**TERM, **SELECTS}, *[TERM] * 100]}},
            "counts no pods for its required podAntiAffinity[1, 2, 3 and 97 more]",
        ),
    ],
)
def test_what_is_lost_is_told_apart_from_what_holds_the_pod_back(
    spec: dict[str, Any], effect: str
) -> None:
    assert sentence(spec).endswith(f"; it {effect}")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": {"zone": "a"}},
        {"podAntiAffinity": {REQUIRED: [{**TERM, "labelSelector": {}}]}},
        {"topologySpreadConstraints": [{**SPREAD, **SELECTS}]},
        {"nodeSelector": {"a b": "invalid"}, **APART},
    ],
    ids=["nothing", "nodes only", "all pods", "some pods", "invalid"],
)
def test_a_class_that_leaves_no_selector_open_loses_nothing(spec: dict[str, Any]) -> None:
    assert sentence(spec) == ""
    assert unfilled(None, {}, LINEAGE_LABELS) is None


EACH_KIND = {
    **{
        kind: {REQUIRED: [TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]}
        for kind in ("podAffinity", "podAntiAffinity")
    },
    "topologySpreadConstraints": [SPREAD],
}


def test_the_usual_warning_is_not_cut_and_the_longest_says_what_to_do() -> None:
    usual = selector_not_filled(scheduling_class(APART), {}, LINEAGE_LABELS)
    assert usual is not None
    assert (usual.reason, usual.severity) == (Reason.SELECTOR_NOT_FILLED, Severity.WARNING)
    assert tidy_warnings((usual.named,)) == [usual.named]
    longest = selector_not_filled(scheduling_class(EACH_KIND), {}, LINEAGE_LABELS)
    assert longest is not None
    (told,) = tidy_warnings((longest.named,))
    assert told != longest.named
    assert ".{group,kind,name} " in told
    assert "; add them, or a labelSelector to the class; it " in told


@given(spec=orderly_specs(), keys=KEYS, has=KEYS)
def test_told_are_exactly_the_terms_that_scheduling_lets_select_nothing(
    spec: dict[str, Any], keys: list[str], has: list[str]
) -> None:
    cls, labels = scheduling_class(spec), dict.fromkeys(has, "x")
    if cls.spec is None:
        return
    compiled = compile_spec(cls.spec)
    filling = filling_for(tuple(keys), labels)
    near = [weighted for weighted in compiled.preferred if weighted[0] > 0]
    apart = [weighted for weighted in compiled.preferred if weighted[0] < 0]
    terms = {
        TermKind.NEAR: compiled.affinity,
        TermKind.NEAR_IF_POSSIBLE: tuple(term for _, term in near),
        TermKind.APART: compiled.anti_affinity,
        TermKind.APART_IF_POSSIBLE: tuple(term for _, term in apart),
    }
    nothing = {
        kind: {
            i
            for i, term in enumerate(templates)
            if term.bind("tenant", labels, filling).pods.selector is None
        }
        for kind, templates in terms.items()
    }
    spread = (*compiled.hard_spread, *compiled.soft_spread)
    without = sum(template.bind(labels, filling) is None for template in spread)

    found = unfilled(cls, labels, keys)

    told = {} if found is None else {term.kind: set(term.indexes) for term in found.terms}
    assert len(told.pop(TermKind.SPREAD, ())) == without
    assert told == {kind: indexes for kind, indexes in nothing.items() if indexes}


@given(keys=KEYS, has=KEYS)
def test_the_labels_that_are_told_are_those_that_are_missing(
    keys: list[str], has: list[str]
) -> None:
    told = sentence(APART, has, keys)
    missing = [key for key in keys if key not in has]
    if keys and not missing:
        assert told == ""
        return
    listed = re.search(r"lacks labels? (.*) to fill", told)
    assert ({*_expanded(listed[1])} if listed else set()) == set(missing)
    assert ("no keys are configured" in told) is (not keys)


def _expanded(text: str) -> list[str]:
    """As a shell expands braces."""
    found = []
    for start, inner, plain in re.findall(r"([^\s,{]*)\{([^}]*)\}|([^\s,{]+)", text):
        found += [start + end for end in inner.split(",")] if inner else [plain]
    return found
