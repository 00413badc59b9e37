"""The CRD on a real API server: what it refuses, what it must not refuse, what it shows."""

import copy
import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from controlplane import Api, ApiError, Cluster, eventually
from controlplane.components import ROOMY
from controlplane.paths import REPOSITORY
from crds.generate import custom_resource_definition
from schedclass.domain.findings import Severity
from schedclass.domain.validation import decode_spec
from tests.cluster.chart.conftest import CLASSES
from tests.cluster.chart.specs import (
    PREFERRED,
    REQUIRED,
    WRONG,
    Spec,
    node_expression,
    node_term,
    pod_term,
    spread,
)
from tests.strategies import class_specs


@pytest.fixture
def admin(installed: Cluster) -> Api:
    return installed.admin


def manifest(name: str, spec: Spec | None = None) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "cozystack.io/v1alpha1",
        "kind": "SchedulingClass",
        "metadata": {"name": name},
    }
    return obj if spec is None else {**obj, "spec": spec}


def refusal(admin: Api, spec: Spec) -> str:
    """What the API server says about the spec; empty if it accepts it."""
    try:
        admin.create(f"{CLASSES}?dryRun=All", manifest("probe", spec))
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("spec", "said"), WRONG)
def test_a_wrong_class_is_refused_with_the_field(admin: Api, spec: Spec, said: str) -> None:
    assert said in refusal(admin, spec)


def test_all_faults_of_a_kind_are_told_at_once(admin: Api) -> None:
    two = node_expression(key="a", operator="In") | spread({}, {})
    said = refusal(admin, two)
    assert "operators In and NotIn need" in said
    assert "may occur only once" in said


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"nodeSelector": {"a": "", "kubernetes.io/os": "linux"}},
        # A nil selector is filled per application, so matchLabelKeys beside it is legal.
        pod_term(matchLabelKeys=["pod-template-hash"]),
        spread({"matchLabelKeys": ["pod-template-hash"]}),
        spread({}, {"whenUnsatisfiable": "ScheduleAnyway"}, {"topologyKey": "host"}),
        # The pod API takes any non-empty key here, and any value in a preferred term.
        spread({"topologyKey": "not a label key"}),
        {
            "nodeAffinity": {
                PREFERRED: [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [
                                {"key": "a", "operator": "In", "values": ["not a label value"]}
                            ]
                        },
                    }
                ]
            }
        },
        {"nodeAffinity": {PREFERRED: [{"weight": 1}]}},
        node_term(),
    ],
)
def test_a_legal_class_is_accepted(admin: Api, spec: Spec | None) -> None:
    admin.create(f"{CLASSES}?dryRun=All&fieldValidation=Strict", manifest("probe", spec))


@pytest.mark.parametrize("path", sorted((REPOSITORY / "docs" / "examples").glob("*.yaml")))
def test_the_examples_are_accepted_as_written(admin: Api, path: Any) -> None:
    classes = list(yaml.safe_load_all(path.read_text("utf-8")))
    assert classes
    for obj in classes:
        admin.create(f"{CLASSES}?dryRun=All&fieldValidation=Strict", obj)


def test_a_class_far_larger_than_any_real_one_fits_the_bounds(admin: Api) -> None:
    size = 64
    expressions = [
        {"key": f"k{n}", "operator": "In", "values": [f"v{m}" for m in range(100)]}
        for n in range(size)
    ]
    terms = [{"matchExpressions": expressions[:20]} for _ in range(size)]
    pod_terms = [
        {"topologyKey": f"t{n}", "labelSelector": {"matchExpressions": expressions[:5]}}
        for n in range(size)
    ]
    spec = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {REQUIRED: pod_terms},
        **spread(*({"topologyKey": f"t{n}"} for n in range(size))),
    }
    assert refusal(admin, spec) == ""


# The rules that the schema leaves to the validating webhook, by what validation says of them:
# syntax of map keys, a prefix over 253 characters, one key in matchLabelKeys and twice in its
# selector. See crds/constraints.py.
LEFT_TO_THE_WEBHOOK = re.compile(
    r"""^spec\.nodeSelector\[|\.matchLabels\[|253\ are\ allowed|named\ more\ than\ once""",
    re.VERBOSE,
)


@given(spec=class_specs())
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_schema_and_validation_agree_but_for_what_only_validation_can_say(
    admin: Api, spec: Any
) -> None:
    errors = [f for f in decode_spec(spec)[1] if f.severity is Severity.ERROR]
    said = refusal(admin, spec)
    if said:
        assert errors, said
    elif errors:
        assert [str(f) for f in errors if not LEFT_TO_THE_WEBHOOK.search(str(f))] == []


def test_a_new_class_is_not_yet_observed(admin: Api) -> None:
    pretended = {**manifest("new", {}), "status": {"observedGeneration": 1, "pods": 3}}
    created = admin.create(CLASSES, pretended)
    assert created["status"] == {"observedGeneration": -1}
    assert admin.get(f"{CLASSES}/new")["status"] == {"observedGeneration": -1}
    assert created["metadata"]["generation"] == 1


def test_status_is_written_apart_from_spec(admin: Api) -> None:
    admin.create(CLASSES, manifest("apart", {"nodeSelector": {"a": "b"}}))
    patch = {"status": {"observedGeneration": 1, "pods": 3}, "spec": {"nodeSelector": None}}
    written = admin.merge_patch(f"{CLASSES}/apart/status", patch)
    assert written["status"]["pods"] == 3
    assert written["spec"] == {"nodeSelector": {"a": "b"}}
    assert written["metadata"]["generation"] == 1
    changed = admin.merge_patch(
        f"{CLASSES}/apart", {"spec": {"nodeSelector": {"a": "c"}}, "status": {"pods": 9}}
    )
    assert changed["status"]["pods"] == 3
    assert changed["metadata"]["generation"] == 2


def test_kubectl_shows_health_and_use_at_a_glance(installed: Cluster) -> None:
    installed.admin.create(CLASSES, manifest("seen", {}))
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NoMatchingNodes",
        "message": "no node has zone=x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    counts = {"matchingNodes": 4, "boundNamespaces": 5, "pods": 6, "violatingPods": 7}
    status = {"observedGeneration": 1, "conditions": [condition], **counts}
    installed.admin.merge_patch(f"{CLASSES}/seen/status", {"status": status})

    narrow = installed.kubectl("get", "sclass").splitlines()
    assert narrow[0].split() == [
        "NAME",
        "READY",
        "NODES",
        "NAMESPACES",
        "PODS",
        "VIOLATIONS",
        "AGE",
    ]
    assert narrow[1].split()[:-1] == ["seen", "False", "4", "5", "6", "7"]
    wide = installed.kubectl("get", "schedulingclasses", "-o", "wide").splitlines()
    assert wide[0].split()[-3:] == ["REASON", "MESSAGE", "AGE"]
    assert "NoMatchingNodes   no node has zone=x" in wide[1]


@pytest.mark.parametrize("category", ["cozystack", "scheduling"])
def test_classes_are_listed_by_category(installed: Cluster, category: str) -> None:
    installed.admin.create(CLASSES, manifest("listed", {}))
    assert "schedulingclass.cozystack.io/listed" in installed.kubectl("get", category, "-o", "name")


def open_definition() -> dict[str, Any]:
    """A CRD as Cozystack's own: the same fields, nothing but types demanded, no status."""
    keywords = {
        "x-kubernetes-validations", "pattern", "enum", "minimum", "maximum", "minItems", "maxItems",
        "minLength", "maxLength", "default",
    }  # fmt: skip

    def strip(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: strip(v) for k, v in node.items() if k not in keywords}
        return [strip(item) for item in node] if isinstance(node, list) else node

    definition = copy.deepcopy(custom_resource_definition())
    version = definition["spec"]["versions"][0]
    version["schema"] = strip(version["schema"])
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]
    del version["subresources"]
    return definition


def test_classes_stored_before_this_schema_can_still_be_labelled_and_freed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """CRD ratcheting (KEP-4008): what is not changed is not judged anew."""
    wrong = (
        node_expression(key="a b", operator="Is")
        | {
            "nodeSelector": {"a": "not ok"},
            "podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": {"topologyKey": ""}}]},
        }
        | spread({"maxSkew": 0}, {"minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"}, {}, {})
    )
    with Cluster(tmp_path_factory.mktemp("ratchet"), env=ROOMY) as cluster:
        admin = cluster.admin
        cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(open_definition()))
        eventually("classes are served", lambda: admin.answers_ok(CLASSES))
        admin.create(CLASSES, manifest("old", wrong))
        new = json.dumps(custom_resource_definition())
        cluster.kubectl("apply", "--server-side", "-f", "-", input=new)
        eventually("the new schema holds", lambda: "should match" in refusal(admin, wrong))
        path = f"{CLASSES}/old"
        bound = {"labels": {"a": "b"}, "finalizers": ["scheduler.cozystack.io/in-use"]}
        admin.merge_patch(path, {"metadata": bound})
        admin.merge_patch(f"{path}/status", {"status": {"observedGeneration": 1}})
        freed = admin.merge_patch(path, {"metadata": {"finalizers": None}})
        assert freed["spec"] == wrong
        assert "finalizers" not in freed["metadata"]
        with pytest.raises(ApiError, match="should match"):
            admin.merge_patch(path, {"spec": {"nodeSelector": {"b": "not ok"}}})
        admin.delete(path)
