"""Volumes that exist in one zone only, and pods that belong on one certain node."""

from tests.cluster.objects import REGION
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.volumes import Volumes


def test_a_pod_goes_where_both_its_volume_and_its_class_are(
    tenant: Tenant, volumes: Volumes
) -> None:
    volumes.add("b")
    volumes.add("c")
    west = tenant("dc-west")
    west.create("db", volumes=volumes.claim(west, "data"))
    assert west.wait_node("db") == "node-2"


def test_a_volume_outside_the_class_leaves_the_pod_pending_for_both_reasons(
    tenant: Tenant, volumes: Volumes
) -> None:
    volumes.add("c")
    west = tenant("dc-west")
    west.create("db", volumes=volumes.claim(west, "data"))
    west.wait_pending(
        "db",
        "didn't find available persistent volumes to bind",
        '1 node(s) didn\'t match SchedulingClass "dc-west" node selector',
    )
    volumes.add("a")
    assert west.wait_node("db", seconds=5) == "node-1"


def test_daemons_run_on_allowed_nodes_and_say_elsewhere_why_not(tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.daemon()
    west.wait_placed(2)
    assert set(west.placement()) == {"node-1", "node-2"}
    text = west.wait_one_pending("agent", 'SchedulingClass "dc-west" node selector')
    assert text.startswith("0/3 nodes are available")


def test_daemons_heed_every_rule_of_a_class_as_their_owner_proves_nothing(tenant: Tenant) -> None:
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": REGION, "labelSelector": {}}
        ]
    }
    web = tenant(podAntiAffinity=apart)
    web.daemon()
    web.wait_placed(2)
    assert len(web.placement()) == 2
    web.wait_one_pending("agent", "anti-affinity")
