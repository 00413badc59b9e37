"""No pod waits more than five seconds for what has become possible, whatever made it so."""

import time
from collections.abc import Callable

from controlplane import Installation, eventually
from controlplane.installation import NAMESPACE, RELEASE
from tests.cluster.objects import CLASSES, REGION, class_path, scheduling_class
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.workloads import HOSTNAME, Nodes, Workloads, anti_affinity
from tests.cluster.tenants import Tenants, unique

LONGEST_WAIT = 5.0
POOL = "pool"


def runs_in_time(workloads: Workloads, name: str, change: Callable[[], object]) -> str:
    """Makes a change and returns the node of a pod that must be placed by it in time."""
    began = time.monotonic()
    change()
    node = workloads.wait_node(name, seconds=LONGEST_WAIT)
    waited = time.monotonic() - began
    assert waited <= LONGEST_WAIT
    return node


def test_a_class_is_created(tenant: Tenant, tenants: Tenants) -> None:
    plain, name = tenant(), unique("class")
    plain.create("pod", class_name=name)
    plain.wait_pending("pod", f'3 SchedulingClass "{name}" not found')
    node = runs_in_time(
        plain, "pod", lambda: tenants.create_class(name, nodeSelector={REGION: "east"})
    )
    assert node == "node-3"


def test_a_class_is_edited(tenant: Tenant, tenants: Tenants) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending("pod", f'3 node(s) didn\'t match SchedulingClass "{name}" node selector')

    def edit() -> None:
        selector = {POOL: None, REGION: "east"}
        tenants.api.merge_patch(class_path(name), {"spec": {"nodeSelector": selector}})

    assert runs_in_time(web, "pod", edit) == "node-3"


def test_a_class_is_edited_where_a_plugin_refused_the_node_it_left(
    tenant: Tenant, tenants: Tenants, nodes: Nodes
) -> None:
    nodes.cordon("node-3")
    name = tenants.create_class(nodeSelector={REGION: "east"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending(
        "pod", "1 node(s) were unschedulable", f'2 node(s) didn\'t match SchedulingClass "{name}"'
    )

    def edit() -> None:
        tenants.api.merge_patch(class_path(name), {"spec": {"nodeSelector": None}})

    assert runs_in_time(web, "pod", edit) in {"node-1", "node-2"}


def test_a_class_is_deleted_and_made_again(tenant: Tenant, tenants: Tenants) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    plain = tenant()
    plain.create("pod", class_name=name)
    plain.wait_pending("pod", "node selector")
    tenants.api.delete(class_path(name))
    plain.wait_pending("pod", f'SchedulingClass "{name}" not found')
    body = scheduling_class(name, nodeSelector={REGION: "east"})
    node = runs_in_time(plain, "pod", lambda: tenants.api.create(CLASSES, body))
    assert node == "node-3"


def test_a_node_is_labelled(tenant: Tenant, nodes: Nodes) -> None:
    value = unique("pool")
    web = tenant(nodeSelector={POOL: value})
    web.create("pod")
    web.wait_pending("pod", "node selector")
    assert runs_in_time(web, "pod", lambda: nodes.label("node-2", POOL, value)) == "node-2"


def test_a_node_is_uncordoned(tenant: Tenant, nodes: Nodes) -> None:
    nodes.cordon("node-3")
    web = tenant("dc-east")
    web.create("pod")
    web.wait_pending("pod", "unschedulable", 'SchedulingClass "dc-east" node selector')
    assert runs_in_time(web, "pod", lambda: nodes.uncordon("node-3")) == "node-3"


def test_a_node_is_added(tenant: Tenant, nodes: Nodes) -> None:
    name, value = unique("node"), unique("pool")
    web = tenant(nodeSelector={POOL: value})
    web.create("pod")
    web.wait_pending("pod", "node selector")

    def add() -> None:
        nodes.add(name, labels={POOL: value})
        nodes.wait_ready(name)

    assert runs_in_time(web, "pod", add) == name


def test_a_pod_that_stood_in_the_way_is_deleted(tenant: Tenant) -> None:
    labels = {"set": unique("set")}
    web = tenant(nodeSelector={REGION: "east"}, podAntiAffinity=anti_affinity(labels))
    web.create("first", labels=labels)
    assert web.wait_node("first") == "node-3"
    web.create("second", labels=labels)
    web.wait_pending("second", "pod anti-affinity rules", "node selector")
    assert runs_in_time(web, "second", lambda: web.delete("first")) == "node-3"


def test_a_pod_that_stood_in_the_way_by_its_own_class_is_deleted(tenant: Tenant) -> None:
    labels = {"noisy": unique("n")}
    quiet = tenant(
        nodeSelector={REGION: "east"},
        podAntiAffinity={
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": HOSTNAME,
                    "labelSelector": {"matchLabels": labels},
                    "namespaceSelector": {},
                }
            ]
        },
    )
    other = tenant("dc-east")
    quiet.create("first")
    assert quiet.wait_node("first") == "node-3"
    other.create("noise", labels=labels)
    other.wait_pending("noise", "existing pods'", "anti-affinity rules")
    assert runs_in_time(other, "noise", lambda: quiet.delete("first")) == "node-3"


def test_a_namespace_gets_another_class(tenant: Tenant, tenants: Tenants) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending("pod", "node selector")
    assert runs_in_time(web, "pod", lambda: tenants.ask(web.namespace, "dc-east")) == "node-3"


def test_a_parent_gets_another_class(tenant: Tenant, tenants: Tenants) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    parent = tenants.create(wants=name)
    child = tenants.create(below=parent, with_account=True)
    web = Workloads(tenants.cluster, child)
    web.create("pod")
    web.wait_pending("pod", f'SchedulingClass "{name}" node selector')
    assert runs_in_time(web, "pod", lambda: tenants.ask(parent, "dc-east")) == "node-3"
    web.remove_all()


def test_labels_of_another_namespace_change(tenant: Tenant, tenants: Tenants) -> None:
    """A required affinity to pods of namespaces chosen by label."""
    team = unique("team")
    near = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": HOSTNAME,
                "labelSelector": {"matchLabels": {"app": "leader"}},
                "namespaceSelector": {"matchLabels": {"team": team}},
            }
        ]
    }
    leaders, followers = tenant("dc-east"), tenant(podAffinity=near)
    leaders.create("leader")
    leaders.wait_node("leader")
    followers.create("follower")
    followers.wait_pending("follower", "pod affinity rules")
    node = runs_in_time(
        followers, "follower", lambda: tenants.label(leaders.namespace, {"team": team})
    )
    assert node == "node-3"


def test_what_wakes_was_deleted_meanwhile(
    tenant: Tenant, tenants: Tenants, operator: Installation
) -> None:
    """The one object that is written to wake pods; somebody may take it for a leftover."""
    name = tenants.create_class(nodeSelector={POOL: "none"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending("pod", "node selector")
    capacities = f"/apis/storage.k8s.io/v1/namespaces/{NAMESPACE}/csistoragecapacities"
    one = f"fieldSelector=metadata.name%3D{RELEASE}-scheduler"
    tenants.api.delete(f"{capacities}?{one}")  # nothing is deleted where none could be made

    def edit() -> None:
        selector = {POOL: None, REGION: "east"}
        tenants.api.merge_patch(class_path(name), {"spec": {"nodeSelector": selector}})

    assert runs_in_time(web, "pod", edit) == "node-3"


def test_the_extender_was_away_meanwhile(
    tenant: Tenant, tenants: Tenants, operator: Installation
) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending("pod", "node selector")
    for extender in operator.extenders:
        operator.process(extender).kill()
    selector = {POOL: None, REGION: "east"}
    tenants.api.merge_patch(class_path(name), {"spec": {"nodeSelector": selector}})
    for extender in operator.extenders:
        operator.start_replica(extender)
    assert web.wait_node("pod", seconds=LONGEST_WAIT) == "node-3"


def test_the_scheduler_was_away_meanwhile(
    tenant: Tenant, tenants: Tenants, operator: Installation
) -> None:
    name = tenants.create_class(nodeSelector={POOL: "none"})
    web = tenant(name)
    web.create("pod")
    web.wait_pending("pod", "node selector")
    for scheduler in operator.schedulers:
        operator.process(scheduler).kill()
    selector = {POOL: None, REGION: "east"}
    tenants.api.merge_patch(class_path(name), {"spec": {"nodeSelector": selector}})
    for scheduler in operator.schedulers:
        operator.start_replica(scheduler)
    # The Lease of the one that was killed has to expire first (6 s here).
    assert web.wait_node("pod", seconds=6 + LONGEST_WAIT) == "node-3"


def test_a_pod_arrives_while_no_extender_answers(tenant: Tenant, operator: Installation) -> None:
    web = tenant("dc-east")
    for extender in operator.extenders:
        operator.process(extender).kill()
    web.create("pod")

    def tried() -> bool:
        found = web.pod("pod").get("status", {}).get("conditions") or ()
        return any(c.get("reason") == "SchedulerError" for c in found)

    eventually("kube-scheduler could not ask", tried)
    for extender in operator.extenders:
        operator.start_replica(extender)
    assert web.wait_node("pod", seconds=LONGEST_WAIT) == "node-3"
