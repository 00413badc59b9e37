"""The writer of namespaces before an API server that refuses, or that knows more than we do."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from schedclass.controller.bindings import Bindings
from schedclass.controller.inheritance import InheritanceController
from schedclass.domain import names
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.kube.errors import ApiError
from schedclass.kube.state import CLASSES_PATH, NAMESPACES_PATH, ClusterState
from tests.stubapi import Json, StubApi, failure, json_answer, page, stub_api, stub_client

PARENT, CHILD = "tenant-a", "tenant-a-b"
PINNED = {names.CLASS_KEY: "west", names.ENFORCED: "true"}
CLASS: Json = {"metadata": {"name": "west", "uid": "c", "resourceVersion": "100"}, "spec": {}}


@dataclass
class Told:
    findings: list[Finding] = field(default_factory=list)

    def emit(self, _: Any, finding: Finding) -> None:
        self.findings.append(finding)


@dataclass
class Scene:
    api: StubApi
    state: ClusterState
    told: Told
    controller: InheritanceController

    def patches(self, name: str) -> list[Json]:
        sent = self.api.received("PATCH", f"{NAMESPACES_PATH}/{name}")
        return [request.body["metadata"] for request in sent]


def namespace(name: str, version: int, labels: Json | None = None) -> Json:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": labels or {}}}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        state, told = ClusterState(ExcludedNamespaces([]), stale_after=600), Told()
        recorder: Any = told
        controller = InheritanceController(state, Bindings(), client, recorder, clock=lambda: 100.0)
        yield Scene(api, state, told, controller)


async def test_a_namespace_without_room_for_annotations_is_protected_all_the_same(
    scene: Scene,
) -> None:
    scene.state.classes.replace_all([CLASS], "100")
    scene.state.namespaces.replace_all([namespace(PARENT, 5, PINNED), namespace(CHILD, 6)], "100")
    path = f"{NAMESPACES_PATH}/{CHILD}"
    labelled = json_answer(namespace(CHILD, 101, PINNED))
    refused = failure(422, "Invalid", "metadata.annotations: Too long", name=CHILD)
    scene.api.script("PATCH", path, refused, labelled, refused)
    for _ in range(2):
        with pytest.raises(ApiError, match="Too long"):
            await scene.controller.reconcile(CHILD)
    whole, alone, again = scene.patches(CHILD)
    assert alone == {"labels": PINNED, "resourceVersion": "6"}
    assert whole["labels"] == PINNED
    assert "labels" not in again
    assert {finding.reason for finding in scene.told.findings} == {Reason.ANNOTATIONS_REFUSED}


async def test_protection_stays_for_a_class_that_only_the_api_server_knows_so_far(
    scene: Scene,
) -> None:
    scene.state.classes.replace_all([], "90")
    scene.state.namespaces.replace_all([namespace(PARENT, 101, PINNED)], "101")
    scene.api.script("GET", CLASSES_PATH, page([CLASS], "102"))
    await scene.controller.reconcile(PARENT)
    assert not scene.patches(PARENT)
    assert "west" in scene.state.classes
    (asked,) = scene.api.received("GET", CLASSES_PATH)
    assert asked.query == {"fieldSelector": "metadata.name=west"}


async def test_who_names_a_class_that_is_not_there_is_told_once(scene: Scene) -> None:
    scene.state.classes.replace_all([], "90")
    wish = {names.CLASS_KEY: "west"}
    scene.state.namespaces.replace_all([namespace(PARENT, 50, wish)], "90")
    scene.api.script("GET", CLASSES_PATH, failure(503, "ServiceUnavailable", "later"))
    with pytest.raises(ApiError):
        await scene.controller.reconcile(PARENT)
    assert scene.told.findings == [], "nobody says that it is absent"
    scene.api.script("GET", CLASSES_PATH, page([], "102"))
    for _ in range(2):
        await scene.controller.reconcile(PARENT)
    (told,) = scene.told.findings
    assert told.reason is Reason.CLASS_NOT_FOUND
    assert '"west" does not exist' in told.message


async def test_protection_ends_once_the_api_server_says_that_the_class_is_gone(
    scene: Scene,
) -> None:
    scene.state.classes.replace_all([], "90")
    members = [f"tenant-{letter}" for letter in "abc"]
    scene.state.namespaces.replace_all([namespace(name, 50, PINNED) for name in members], "90")
    scene.api.script("GET", CLASSES_PATH, page([], "102"))
    for name in members:
        after = namespace(name, 103, {names.CLASS_KEY: "west"})
        scene.api.script("PATCH", f"{NAMESPACES_PATH}/{name}", json_answer(after))
        await scene.controller.reconcile(name)
        assert scene.patches(name) == [{"labels": {names.ENFORCED: None}, "resourceVersion": "50"}]
    assert len(scene.api.received("GET", CLASSES_PATH)) == 1


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_protection_stays_while_nobody_says_whether_the_class_exists(
    scene: Scene, status: int
) -> None:
    scene.state.classes.replace_all([], "90")
    scene.state.namespaces.replace_all([namespace(PARENT, 50, PINNED)], "90")
    scene.api.script("GET", CLASSES_PATH, failure(status, "", "no"))
    with pytest.raises(ApiError):
        await scene.controller.reconcile(PARENT)
    assert not scene.patches(PARENT)
