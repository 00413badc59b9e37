"""A class is valid exactly when a pod with its constraints is: the API server is asked for both.

`SCHEDCLASS_TEST_CLASSES` sets how many classes are generated (300 by default).
"""

import copy
import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from controlplane.api import Api, ApiError
from schedclass.domain import names
from schedclass.domain.findings import Severity
from schedclass.domain.schedulingclass import parse_class
from schedclass.domain.validation import decode_spec
from tests.strategies import Json, class_specs
from tests.validation_cases import ACCEPTED, REFUSED

CLASSES = f"/apis/{names.API_VERSION}/{names.PLURAL}?dryRun=All"

generated = settings(
    max_examples=int(os.environ.get("SCHEDCLASS_TEST_CLASSES", "300")),
    deadline=None,
    # An answer takes as long as it takes; shrinking would ask the server thousands of times.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def pods(namespace: str) -> str:
    """Where to have pods judged."""
    return f"/api/v1/namespaces/{namespace}/pods?dryRun=All"


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
    """Why the API server refuses the object, None if it accepts it."""
    try:
        api.request("POST", path, body)
    except ApiError as error:
        # Anything but "cannot be decoded" and "invalid" is no verdict on the constraints.
        if error.status not in (400, 422):
            raise
        return str(error)
    return None


def _errors(spec: Json) -> list[str]:
    return [str(found) for found in decode_spec(spec)[1] if found.severity is Severity.ERROR]


# A spec that is no object cannot be put into a pod.
TABLE = [
    *ACCEPTED,
    *(pytest.param(c.values[0], id=c.id) for c in REFUSED if not isinstance(c.values[0], str)),
]


@pytest.mark.parametrize("spec", TABLE)
def test_each_case_of_the_table_has_the_verdict_of_a_pod(api: Api, pods: str, spec: Json) -> None:
    refusal = _refusal(api, pods, _pod(spec))
    assert (refusal is None) is (_errors(spec) == []), (refusal, _errors(spec))


@pytest.mark.timeout(600)
def test_generated_classes_have_the_verdict_of_a_pod(api: Api, pods: str) -> None:
    @generated
    @given(class_specs())
    def judged_alike(spec: Json) -> None:
        refusal = _refusal(api, pods, _pod(spec))
        assert (refusal is None) is (_errors(spec) == []), (spec, refusal, _errors(spec))

    judged_alike()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("operator")
def test_schema_and_webhook_take_exactly_the_valid_classes_and_lose_nothing(api: Api) -> None:
    @generated
    @given(class_specs())
    def taken_whole(spec: Json) -> None:
        if _errors(spec):
            assert _refusal(api, CLASSES, _class(spec)) is not None, spec
        else:
            stored = api.request("POST", CLASSES, _class(spec))
            assert parse_class(stored).spec == parse_class({"spec": spec}).spec

    taken_whole()
