"""A class is valid exactly when a pod with its constraints is: the API server is asked for both.

`SCHEDCLASS_TEST_CLASSES` sets how many classes are generated (300 by default).
"""

import copy
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from controlplane.api import Api, ApiError
from controlplane.cluster import Cluster
from controlplane.waiting import eventually
from schedclass.domain import names
from schedclass.domain.findings import Severity
from schedclass.domain.schedulingclass import parse_class
from schedclass.domain.validation import validate_spec
from tests.strategies import Json, class_specs
from tests.validation_cases import ACCEPTED, REFUSED

pytestmark = pytest.mark.cluster

CRD_FILE = Path(__file__).parents[2] / "crds" / f"{names.PLURAL}.{names.GROUP}.yaml"
CRD_LIST = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRD_LIST}/{names.PLURAL}.{names.GROUP}"
CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}"

generated = settings(
    max_examples=int(os.environ.get("SCHEDCLASS_TEST_CLASSES", "300")),
    deadline=None,
    # An answer takes as long as it takes; shrinking would ask the server thousands of times.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> str:
    """Path to create pods at."""
    return f"/api/v1/namespaces/{cluster.create_namespace()}/pods"


@pytest.fixture(scope="module")
def classes(cluster: Cluster) -> Iterator[str]:
    """Path to create classes at; the CRD is taken from the tree unless the chart installed it."""
    api = cluster.admin
    borrowed = api.find(CRD) is None
    if borrowed:
        api.create(CRD_LIST, yaml.safe_load(CRD_FILE.read_text("utf-8")))
    eventually("classes are served", lambda: _refusal(api, CLASSES, _class({})) is None)
    yield CLASSES
    if borrowed:
        api.delete(CRD)
        eventually("the CRD is gone", lambda: api.find(CRD) is None)


def _pod(spec: Json) -> Json:
    """A pod without labels that has the constraints of a class.

    A nil selector beside label keys is the documented difference: legal in a class, because it is
    filled before a pod is judged by it. So it is filled here.
    """
    constraints = _with_selectors(copy.deepcopy(spec)) or {}
    affinity = {key: constraints.pop(key) for key in list(constraints) if key.endswith("ffinity")}
    return {
        "metadata": {"generateName": "judged-"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": affinity} | constraints,
    }


def _with_selectors(part: Json) -> Json:
    if isinstance(part, dict):
        has_keys = part.get("matchLabelKeys") or part.get("mismatchLabelKeys")
        if has_keys and part.get("labelSelector") is None:
            part["labelSelector"] = {}
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        _with_selectors(inner)
    return part


def _class(spec: Json) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"generateName": "judged-"},
        "spec": spec,
    }


def _refusal(api: Api, path: str, body: Json) -> str | None:
    """Why the API server refuses to create the object, None if it would."""
    try:
        api.request("POST", f"{path}?dryRun=All", body)
    except ApiError as error:
        if error.status in (400, 422) or "schedulingclasses" in path:
            return str(error)
        raise
    return None


def _errors(spec: Json) -> list[str]:
    return [str(found) for found in validate_spec(spec) if found.severity is Severity.ERROR]


@pytest.mark.parametrize(
    "spec", [*ACCEPTED, *(pytest.param(c.values[0], id=c.id) for c in REFUSED)]
)
def test_each_case_of_the_table_has_the_verdict_of_a_pod(
    cluster: Cluster, pods: str, spec: Json
) -> None:
    if spec == "west":
        pytest.skip("a spec that is no object cannot be put into a pod")
    refusal = _refusal(cluster.admin, pods, _pod(spec))
    assert (refusal is None) is (_errors(spec) == []), (refusal, _errors(spec))


@pytest.mark.timeout(600)
def test_generated_classes_have_the_verdict_of_a_pod(cluster: Cluster, pods: str) -> None:
    api = cluster.admin

    @generated
    @given(class_specs())
    def judged_alike(spec: Json) -> None:
        refusal = _refusal(api, pods, _pod(spec))
        assert (refusal is None) is (_errors(spec) == []), (spec, refusal, _errors(spec))

    judged_alike()


@pytest.mark.timeout(600)
def test_the_schema_takes_every_valid_class_and_loses_nothing_of_it(
    cluster: Cluster, classes: str
) -> None:
    api = cluster.admin

    @generated
    @given(class_specs())
    def taken_whole(spec: Json) -> None:
        if _errors(spec):
            return
        stored = api.request("POST", f"{classes}?dryRun=All", _class(spec))
        assert parse_class(stored).spec == parse_class({"spec": spec}).spec

    taken_whole()
