"""What a pod says of itself does not keep it from being counted."""

from typing import Any

import pytest

from schedclass.domain import names
from schedclass.domain.compliance import ViolationKind, parse_observed_pod
from schedclass.domain.compliance_index import ComplianceIndex
from schedclass.domain.nodes import Node
from schedclass.domain.schedulingclass import parse_class

MIRROR = {names.MIRROR_POD: "x"}
PINNED = {names.CLASS_KEY: "west"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "east-1", "uid": "n", "controller": True}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}


def kinds_of(scheduler: str, annotations: dict[str, str], *owners: dict[str, Any]) -> set[str]:
    """How a pod on a node outside its class is counted, where DaemonSets are exempt."""
    index = ComplianceIndex(default_label_keys=(), exempt_daemon_sets=True)
    index.put_node(Node("east-1", labels={"region": "east"}))
    index.put_namespace("tenant-a", {}, "west")
    metadata: dict[str, Any] = {"name": "west", "uid": "c", "resourceVersion": "1"}
    index.put_class(parse_class({"metadata": metadata, "spec": {"nodeSelector": {"region": "w"}}}))
    metadata = {"name": "p", "namespace": "tenant-a", "uid": "u", "ownerReferences": [*owners]}
    spec = {"nodeName": "east-1", "schedulerName": scheduler}
    pod = {"metadata": {**metadata, "annotations": annotations}, "spec": spec}
    index.put_pod(parse_observed_pod(pod))
    index.begin()
    index.judge(1)
    return {kind for kind, count in index.counts("west").by_kind.items() if count}


@pytest.mark.parametrize(
    ("annotations", "owners"),
    [
        (MIRROR, ()),
        (MIRROR, [{**NODE, "name": "another"}]),
        (MIRROR, [{**NODE, "kind": "ReplicaSet"}]),
        (MIRROR, [{**NODE, "controller": False}]),
        ({}, [NODE]),
    ],
)
def test_the_annotation_of_a_mirror_pod_hides_nothing(
    annotations: dict[str, str], owners: list[dict[str, Any]]
) -> None:
    assert kinds_of("default-scheduler", annotations, *owners) == {
        ViolationKind.NODE,
        ViolationKind.BYPASS,
    }


@pytest.mark.parametrize("owner", [NODE, DAEMON_SET])
def test_a_pod_that_admission_pinned_was_not_spared(owner: dict[str, Any]) -> None:
    assert kinds_of(names.SCHEDULER_NAME, {**MIRROR, **PINNED}, owner) == {ViolationKind.NODE}


@pytest.mark.parametrize(("annotations", "owner"), [(MIRROR, NODE), ({}, DAEMON_SET)])
def test_what_admission_spares_is_not_counted(
    annotations: dict[str, str], owner: dict[str, Any]
) -> None:
    assert kinds_of("default-scheduler", annotations, owner) == set()
