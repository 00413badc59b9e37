"""What answers to reviews rest on: what is known, and how much is asked for it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from schedclass.domain import names
from schedclass.domain.admission import Decision, Outcome
from schedclass.domain.findings import Reason
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.kube.events import EventRecorder
from schedclass.kube.state import ClusterState
from schedclass.webhook.live import LiveReader
from schedclass.webhook.reviews import Review, parse_review
from schedclass.webhook.service import AdmissionService
from tests.stubapi import StubApi, json_answer, stub_api, stub_client
from tests.unit.webhook.hosting import review

NORTH = {"nodeSelector": {"example.node-restriction.kubernetes.io/pool": "north"}}
NODE = {"metadata": {"name": "w1", "labels": {"region": "west"}, "resourceVersion": "1"}}


@dataclass
class Scene:
    api: StubApi
    state: ClusterState
    service: AdmissionService
    recorder: EventRecorder


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        state = ClusterState(ExcludedNamespaces(["kube-*"]), stale_after=60)
        state.namespaces.replace_all([], "100")
        state.classes.replace_all([], "100")
        recorder = EventRecorder(client, component="test", instance="test")
        service = AdmissionService(
            state,
            LiveReader(state, client, seconds=5),
            recorder,
            exempt_daemon_sets=False,
            controller_user="controller",
            label_keys=("team", "app"),
        )
        yield Scene(api, state, service, recorder)


def under_review(obj: dict[str, Any], **request: Any) -> Review:
    return parse_review(orjson.dumps(review(obj, **request)))


def class_review(spec: dict[str, Any], old: dict[str, Any] | None = None) -> Review:
    def cls(spec: dict[str, Any]) -> dict[str, Any]:
        return {"kind": names.KIND, "metadata": {"name": "x"}, "spec": spec}

    operation = "CREATE" if old is None else "UPDATE"
    before = None if old is None else cls(old)
    return under_review(cls(spec), operation=operation, oldObject=before, namespace=None)


def told(decision: Decision) -> list[Reason]:
    assert decision.outcome is Outcome.UNCHANGED
    return [finding.reason for finding in decision.warnings]


async def test_a_class_that_matches_no_node_is_warned_of_once_the_nodes_are_known(
    scene: Scene,
) -> None:
    assert told(await scene.service.scheduling_class(class_review(NORTH))) == []
    scene.state.nodes.apply("ADDED", NODE)
    assert told(await scene.service.scheduling_class(class_review(NORTH))) == [], "not all known"
    scene.state.nodes.replace_all([NODE], "100")
    warned = [Reason.NO_MATCHING_NODES]
    assert told(await scene.service.scheduling_class(class_review(NORTH))) == warned
    assert told(await scene.service.scheduling_class(class_review(NORTH, old={}))) == warned
    assert told(await scene.service.scheduling_class(class_review(NORTH, old=NORTH))) == []


@pytest.mark.parametrize("spec", [{}, {"nodeName": "w1"}], ids=["any node", "preset node"])
async def test_a_pod_of_an_excluded_namespace_costs_no_request(
    scene: Scene, spec: dict[str, Any]
) -> None:
    pod = under_review({"metadata": {"name": "dns"}, "spec": spec}, namespace="kube-unseen")
    for answer in (scene.service.pod, scene.service.preset_node):
        decision = await answer(pod)
        assert decision.finding.reason is Reason.NAMESPACE_EXCLUDED
        assert decision.patch == ()
    assert scene.api.requests == []


async def test_until_a_class_is_off_a_namespace_its_pods_are_not_left_to_be_refused(
    scene: Scene,
) -> None:
    """The policies go by the label `enforced`, which the controller takes off child by child."""
    child = {
        "name": "tenant-a-b",
        "uid": "uid-b",
        "resourceVersion": "102",
        "labels": {names.CLASS_KEY: "north", names.ENFORCED: "true"},
        "annotations": {
            names.INHERITED_FROM: "tenant-a",
            names.INHERITED_FROM_UID: "uid-a",
            names.INHERITED_CLASS: "north",
        },
    }
    parent = {"name": "tenant-a", "uid": "uid-a", "resourceVersion": "101"}
    north = {"metadata": {"name": "north", "resourceVersion": "105"}, "spec": NORTH}
    scene.state.classes.apply("ADDED", north)
    for metadata in (parent, child):
        scene.state.namespaces.apply("ADDED", {"metadata": metadata})
    pod = under_review({"metadata": {"name": "web"}, "spec": {}}, namespace="tenant-a-b")
    assert (await scene.service.pod(pod)).outcome is Outcome.PATCHED
    left = {"name": "tenant-a-b", "uid": "uid-b", "resourceVersion": "103"}
    scene.state.namespaces.apply("MODIFIED", {"metadata": left})
    assert (await scene.service.pod(pod)).finding.reason is Reason.NOT_PINNED


EVENTS = "/api/v1/namespaces/tenant-a/events"
OPEN = {
    "metadata": {"name": "spread", "resourceVersion": "101"},
    "spec": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
}
TENANT = {
    "metadata": {
        "name": "tenant-a",
        "uid": "uid-a",
        "resourceVersion": "101",
        "labels": {names.CLASS_KEY: "spread"},
    }
}
NOT_FILLED = (
    'the pod lacks label team to fill a labelSelector of class "spread" from; add it, or a '
    "labelSelector to the class; it counts no pods for its topologySpreadConstraints"
)


def labelled(labels: dict[str, Any] | None, **request: Any) -> Review:
    metadata = {"name": "job"} if labels is None else {"name": "job", "labels": labels}
    return under_review({"metadata": metadata, "spec": {}}, namespace="tenant-a", **request)


async def test_a_pod_that_fills_no_selector_of_its_class_is_warned_of_and_told_once_in_events(
    scene: Scene,
) -> None:
    scene.state.namespaces.apply("ADDED", TENANT)
    scene.state.classes.apply("ADDED", OPEN)
    scene.api.script("POST", EVENTS, json_answer({}, 201))
    for number in range(50):
        decision = await scene.service.pod(labelled({"app": f"web-{number}"}))
        assert decision.outcome is Outcome.PATCHED
        assert [finding.message for finding in decision.warnings] == [NOT_FILLED]
    tried = await scene.service.pod(labelled({"app": "web"}, dryRun=True))
    assert [finding.message for finding in tried.warnings] == [NOT_FILLED]
    whole = await scene.service.pod(labelled({"app": "web", "team": "a"}))
    assert (whole.outcome, whole.warnings) == (Outcome.PATCHED, ())
    assert scene.api.requests == [], "nothing is asked for it"

    writing = asyncio.create_task(scene.recorder.run())
    await scene.recorder.drained()
    writing.cancel()
    (post,) = scene.api.requests
    event = post.body
    assert (event["reason"], event["type"]) == ("SelectorNotFilled", "Warning")
    assert (event["message"], event["count"]) == (NOT_FILLED, 50)
    assert event["involvedObject"]["name"] == "tenant-a"


@pytest.mark.parametrize("labels", [None, {}, {"app": {"no": "string"}}, {"app": ["no string"]}])
async def test_whatever_labels_a_pod_has_it_is_pinned(
    scene: Scene, labels: dict[str, Any] | None
) -> None:
    scene.state.namespaces.apply("ADDED", TENANT)
    scene.state.classes.apply("ADDED", OPEN)
    decision = await scene.service.pod(labelled(labels))
    assert decision.outcome is Outcome.PATCHED
    assert [finding.reason for finding in decision.warnings] == [Reason.SELECTOR_NOT_FILLED]
