"""SchedulingClasses at admission: what is refused, with which words, and what always passes."""

from pathlib import Path

import pytest
import yaml

from controlplane import Api, ApiError, Kubectl
from controlplane.paths import REPOSITORY
from schedclass.domain.findings import Reason
from tests.cluster.objects import CLASSES, Json, class_path, scheduling_class
from tests.cluster.tenants import Tenants, unique

TRIED = f"{CLASSES}?dryRun=All"
KEYS = {"not a key": "x", "also bad!": "y"}
"""Map keys are beyond what a CRD schema can judge, so these reach the webhook."""


def refused(api: Api, body: Json, *, method: str = "POST", path: str = TRIED) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        api.request(method, path, body)
    return refusal.value


def test_every_error_is_in_the_one_answer_with_its_field(api: Api, tenants: Tenants) -> None:
    refusal = refused(api, scheduling_class("x", nodeSelector=KEYS))
    assert refusal.status == 422
    assert "InvalidSpec: spec.nodeSelector" in str(refusal)
    for key in KEYS:
        assert f'spec.nodeSelector["{key}"]' in str(refusal)


def test_schema_and_cel_refuse_without_the_webhook(api: Api, tenants: Tenants) -> None:
    spread = {"topologyKey": "zone", "maxSkew": 0, "whenUnsatisfiable": "Never"}
    message = str(refused(api, scheduling_class("x", topologySpreadConstraints=[spread])))
    assert "spec.topologySpreadConstraints[0].maxSkew" in message
    assert "spec.topologySpreadConstraints[0].whenUnsatisfiable" in message


def test_an_unknown_field_is_named(api: Api, tenants: Tenants) -> None:
    manifest = scheduling_class(unique("class"), nodeSelectors={"a": "b"})
    refusal = refused(api, manifest, path=f"{TRIED}&fieldValidation=Strict")
    assert 'unknown field "spec.nodeSelectors"' in str(refusal)


def test_legal_but_useless_input_is_warned_of(kubectl: Kubectl, tenants: Tenants) -> None:
    required: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    manifest = scheduling_class(unique("class"), nodeAffinity=required)
    done = kubectl.attempt("create", "-f", "-", input=manifest)
    assert done.returncode == 0
    assert "Warning: EmptyNodeSelectorTerm: spec.nodeAffinity" in done.stderr
    assert "Warning: NoMatchingNodes: none of " in done.stderr, "an empty term matches nothing"
    assert "nodeSelectorTerms[0]" in done.stderr


def test_an_update_to_something_invalid_is_refused_and_changes_nothing(
    api: Api, tenants: Tenants
) -> None:
    name = tenants.create_class(nodeSelector={"a": "b"})
    with pytest.raises(ApiError, match=r'spec.nodeSelector\["not a key"\]'):
        api.merge_patch(class_path(name), {"spec": {"nodeSelector": KEYS}})
    assert api.get(class_path(name))["spec"] == {"nodeSelector": {"a": "b"}}


def test_labels_annotations_and_the_empty_class_pass(api: Api, tenants: Tenants) -> None:
    name = tenants.create_class()
    change = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    assert api.merge_patch(class_path(name), change)["metadata"]["generation"] == 1
    api.delete(class_path(name))


@pytest.mark.usefixtures("known_scheduler")
@pytest.mark.parametrize(
    "manifest", sorted((REPOSITORY / "docs" / "examples").glob("*.yaml")), ids=lambda p: p.stem
)
def test_the_examples_are_accepted(api: Api, tenants: Tenants, manifest: Path) -> None:
    for body in yaml.safe_load_all(manifest.read_text(encoding="utf-8")):
        if body["kind"] == "SchedulingClass":
            body["metadata"]["name"] = unique("example")
            assert api.create(TRIED, body)["spec"] == body["spec"]
            # A region is no secret of the cloud's: a node can claim another one.
            risky = "topology.kubernetes.io/region" in str(body["spec"].get("nodeSelector"))
            said = [warning.partition(":")[0] for warning in api.warnings]
            # Whether a node matches depends on the cluster.
            assert [word for word in said if word != Reason.NO_MATCHING_NODES] == [
                Reason.SELF_ASSIGNABLE_LABELS
            ] * risky
