"""What the controller counts of pods that are made anew."""

from typing import Any
from unittest import mock

from schedclass.controller.bindings import Bindings
from schedclass.controller.compliance import ComplianceController
from schedclass.domain import names
from schedclass.domain.compliance_index import ComplianceIndex
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.kube.state import ClusterState
from tests.stubapi import Json


def pod(uid: str, version: int, *, pinned: bool) -> Json:
    own = {names.CLASS_KEY: "west"} if pinned else {}
    metadata = {"name": "db-0", "namespace": "shop", "annotations": own}
    scheduler = names.SCHEDULER_NAME if pinned else "default-scheduler"
    return {
        "metadata": {**metadata, "uid": uid, "resourceVersion": str(version)},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    }


def controller() -> ComplianceController:
    state, bindings = ClusterState(ExcludedNamespaces([]), stale_after=600), Bindings()
    anything: Any = mock.Mock()
    made = ComplianceController(
        state,
        bindings,
        anything,
        anything,
        ComplianceIndex(default_label_keys=[]),
        anything,
        resync_seconds=300,
        sweep_seconds=300,
        on_change=lambda _: None,
    )
    metadata = {"name": "west", "uid": "c", "resourceVersion": "5"}
    state.classes.replace_all([{"metadata": metadata, "spec": {}}], "10")
    namespace = {"metadata": {"name": "shop", "uid": "n", "resourceVersion": "6"}}
    state.namespaces.replace_all([namespace], "10")
    bindings.bind("shop", "west")
    return made


def test_an_unpinned_pod_that_was_made_anew_and_pinned_counts_once() -> None:
    made = controller()
    pods, others = made.indexes["pods"], made.indexes["unpinned-pods"]
    others.replace_all([pod("old", 7, pinned=False)], "10")
    pods.replace_all([], "10")
    pods.apply("ADDED", pod("new", 20, pinned=True))
    assert [seen.pod.uid for seen in others.values()] == []
    pods.apply("DELETED", pod("new", 21, pinned=True))
    others.replace_all([pod("newest", 30, pinned=False)], "40")
    assert [seen.pod.uid for seen in others.values()] == ["newest"]
