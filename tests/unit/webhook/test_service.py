"""What answers to reviews rest on: what is known, and how much is asked for it."""

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
from tests.stubapi import StubApi, stub_api, stub_client
from tests.unit.webhook.hosting import review

NORTH = {"nodeSelector": {"example.node-restriction.kubernetes.io/pool": "north"}}
NODE = {"metadata": {"name": "w1", "labels": {"region": "west"}, "resourceVersion": "1"}}


@dataclass
class Scene:
    api: StubApi
    state: ClusterState
    service: AdmissionService


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with stub_api() as api, stub_client(api) as client:
        state = ClusterState(ExcludedNamespaces(["kube-*"]), stale_after=60)
        state.namespaces.replace_all([], "100")
        state.classes.replace_all([], "100")
        service = AdmissionService(
            state,
            LiveReader(state, client, seconds=5),
            EventRecorder(client, component="test", instance="test"),
            exempt_daemon_sets=False,
            controller_user="controller",
        )
        yield Scene(api, state, service)


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
