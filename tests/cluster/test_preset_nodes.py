"""The second look at a pod that names its node: it judges the final state and changes nothing."""

import pytest

from controlplane import Api, Cluster
from schedclass.domain import names
from tests.cluster.objects import Json, owner_reference, pinned_to, pod, pods_path
from tests.cluster.replicas import PODS, Replica, Reply, review
from tests.cluster.tenants import Tenants

WEST = "dc-west"
MIRROR = {names.MIRROR_POD: "hash"}


@pytest.fixture
def pinned(tenants: Tenants) -> str:
    return tenants.create(wants=WEST, with_account=True)


def judged(replica: Replica, body: Json, namespace: str) -> Reply:
    return replica.send("/validate-pods", review(PODS, body, namespace=namespace))


def test_a_node_of_the_class_is_accepted_and_nothing_is_patched(
    replicas: list[Replica], pinned: str
) -> None:
    for replica in replicas:
        reply = judged(replica, pod(nodeName="node-1"), pinned)
        assert (reply.response["allowed"], reply.patch) == (True, None)


@pytest.mark.parametrize("node", ["node-3", "no-such-node"])
def test_a_node_outside_is_refused_whatever_the_pod_says_of_itself(
    replicas: list[Replica], pinned: str, node: str
) -> None:
    annotations = {names.CLASS_KEY: WEST, **MIRROR}
    body = pod(
        metadata={"annotations": annotations}, schedulerName=names.SCHEDULER_NAME, nodeName=node
    )
    for replica in replicas:
        response = judged(replica, body, pinned).response
        assert not response["allowed"]
        assert "leave nodeName to the scheduler" in response["status"]["message"]


def test_a_namespace_without_a_class_is_none_of_its_business(
    replicas: list[Replica], tenants: Tenants
) -> None:
    free = tenants.create()
    assert judged(replicas[0], pod(nodeName="node-3"), free).response["allowed"]


def test_a_nodes_own_mirror_pods_pass_wherever_the_node_is(
    cluster: Cluster, api: Api, pinned: str
) -> None:
    owner = {**owner_reference(api.get("/api/v1/nodes/node-3")), "kind": "Node", "controller": True}
    metadata = {"annotations": MIRROR, "ownerReferences": [owner]}
    kubelet = cluster.identities.api("system:node:node-3", ["system:nodes"])
    created = kubelet.create(pods_path(pinned), pod(metadata=metadata, nodeName="node-3"))
    assert pinned_to(created) is None
