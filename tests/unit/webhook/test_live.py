"""What admission reads itself: by names that tenants write, so nothing may be led astray by one."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from schedclass.domain import names
from schedclass.domain.admission import ClassState
from schedclass.domain.inheritance import Effective
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.kube.state import CLASSES_PATH, NAMESPACES_PATH, ClusterState
from schedclass.webhook.live import LiveReader, Undecided
from tests.stubapi import Json, StubApi, failure, json_answer, stub_api, stub_client

LED_ASTRAY = (
    "../../../../api/v1/namespaces/tenant-a",
    "../../../apis/cozystack.io/v1alpha1/schedulingclasses/tenant-a",
    "..",
    ".",
    "a/status",
    "?limit=0",
    "a?x=1",
    "a#b",
    "%2e%2e",
    "a%2Fb",
    "A",
    "x" * 254,
)


@dataclass
class Scene:
    api: StubApi
    state: ClusterState
    live: LiveReader


def namespace(name: str, version: int, **metadata: object) -> Json:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        }
    }


def scheduling_class(name: str, version: int) -> Json:
    spec = {"nodeSelector": {"dedicated": name}}
    return {**namespace(name, version), "kind": names.KIND, "spec": spec}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        state = ClusterState(ExcludedNamespaces([]), stale_after=60)
        pinned = {names.CLASS_KEY: "tenant-a"}
        state.namespaces.replace_all([namespace("tenant-a", 90, labels=pinned)], "100")
        state.classes.replace_all([scheduling_class("tenant-a", 80)], "100")
        yield Scene(api, state, LiveReader(state, client, seconds=5))


@pytest.mark.parametrize("name", LED_ASTRAY)
async def test_a_class_that_cannot_exist_is_absent_without_a_request(
    scene: Scene, name: str
) -> None:
    assert (await scene.live.class_view(name)).state is ClassState.ABSENT
    assert not scene.api.requests


@pytest.mark.parametrize("name", LED_ASTRAY)
async def test_a_namespace_that_cannot_exist_has_no_class_without_a_request(
    scene: Scene, name: str
) -> None:
    assert await scene.live.effective(name) == Effective()
    assert not scene.api.requests


@pytest.mark.parametrize("name", LED_ASTRAY)
async def test_an_owner_that_cannot_exist_is_not_asked_for(scene: Scene, name: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": "uid-owner"}
    born = namespace("elsewhere", 120, ownerReferences=[owner])
    scene.api.script("GET", f"{NAMESPACES_PATH}/elsewhere", json_answer(born))
    await scene.live.effective("elsewhere")
    assert {request.path for request in scene.api.requests} == {f"{NAMESPACES_PATH}/elsewhere"}


async def test_another_object_than_the_one_asked_for_is_not_taken(scene: Scene) -> None:
    scene.api.script("GET", f"{CLASSES_PATH}/west", json_answer(scheduling_class("tenant-a", 150)))
    assert (await scene.live.class_view("west")).state is ClassState.UNKNOWN
    scene.api.script("GET", f"{NAMESPACES_PATH}/b", json_answer(namespace("tenant-a", 150)))
    with pytest.raises(Undecided, match="another object"):
        await scene.live.effective("b")
    assert (await scene.live.effective("tenant-a")).class_name == "tenant-a"


async def test_a_namespace_that_contradicts_what_is_known_is_unknown_rather_than_free(
    scene: Scene,
) -> None:
    scene.state.namespaces.apply("DELETED", namespace("tenant-b", 130))
    scene.api.script("GET", f"{NAMESPACES_PATH}/tenant-b", json_answer(namespace("tenant-b", 95)))
    with pytest.raises(Undecided, match="contradicts"):
        await scene.live.effective("tenant-b")


async def test_absence_is_what_the_api_server_says_and_nothing_else(scene: Scene) -> None:
    scene.api.script("GET", f"{CLASSES_PATH}/gone", failure(404, "NotFound", "no", name="gone"))
    assert (await scene.live.class_view("gone")).state is ClassState.ABSENT
    scene.api.script("GET", f"{CLASSES_PATH}/hidden", failure(404, "", "404 page not found"))
    assert (await scene.live.class_view("hidden")).state is ClassState.UNKNOWN
