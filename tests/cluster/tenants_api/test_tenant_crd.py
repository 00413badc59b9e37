"""Tenant values as the source of a namespace's request, from a plain CRD."""

import copy
import time
from collections.abc import Callable

import pytest

from controlplane import Api, ApiError, Installation, eventually
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import Json, namespace_path, pinned_to, pod, pods_path
from tests.cluster.replicas import NAMESPACES, Replica, review
from tests.cluster.tenants import Tenants, unique
from tests.cluster.tenants_api.conftest import NOTICED_SECONDS, tenants_path

pytestmark = pytest.mark.usefixtures("served_by_crd")

WEST, EAST = "dc-west", "dc-east"

Write = Callable[..., Json]


@pytest.fixture
def child(tenants: Tenants, parent: str) -> str:
    return tenants.create(f"{parent}-a", with_account=True)


def test_values_decide_over_the_label(tenants: Tenants, parent: str, values: Write) -> None:
    child = tenants.create(f"{parent}-a", wants=EAST)
    tenants.settle({child: EAST})
    values(parent, "a", WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    tenants.ask(child, EAST)
    tenants.settle({child: WEST})


def test_a_change_and_a_removal_travel_down(
    tenants: Tenants, parent: str, child: str, values: Write
) -> None:
    below = tenants.create(f"{child}-b")
    for wish in (WEST, EAST, None, WEST, ""):
        values(parent, "a", wish)
        tenants.settle({child: wish or None, below: wish or None}, seconds=NOTICED_SECONDS)


def test_what_a_deleted_tenant_asked_for_stays_until_somebody_changes_it(
    api: Api, tenants: Tenants, parent: str, child: str, values: Write
) -> None:
    values(parent, "a", WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    api.delete(f"{tenants_path(parent)}/a")
    fence = tenants.create(f"{parent}-fence")
    values(parent, "fence", EAST)
    tenants.settle({fence: EAST, child: WEST})
    tenants.ask(child, None)
    tenants.settle({child: None})


def test_a_childs_value_waits_while_its_parent_has_one(
    tenants: Tenants, parent: str, child: str, values: Write
) -> None:
    below = tenants.create(f"{child}-b")
    values(child, "b", EAST)
    tenants.settle({below: EAST}, seconds=NOTICED_SECONDS)
    values(parent, "a", WEST)
    tenants.settle({child: WEST, below: WEST})
    assert tenants.wish_of(below) == EAST
    event = tenants.wait_event(below, Reason.OVERRIDE_IGNORED)
    assert child in event["message"]
    assert WEST in event["message"]
    values(parent, "a", None)
    tenants.settle({child: None, below: EAST})


def test_a_status_names_the_namespace(tenants: Tenants, parent: str, values: Write) -> None:
    elsewhere = tenants.create(below=parent)
    values(parent, "x", WEST, status={"namespace": elsewhere})
    tenants.settle({elsewhere: WEST}, seconds=NOTICED_SECONDS)


def test_children_of_the_root_tenant_are_named_without_it(
    api: Api, tenants: Tenants, values: Write
) -> None:
    eventually(
        "no tenant-root is left of another test",
        lambda: api.find(namespace_path(names.TENANT_ROOT)) is None,
    )
    tenants.create(names.TENANT_ROOT)
    name = unique("r").replace("-", "")
    child = tenants.create(f"tenant-{name}")
    values(names.TENANT_ROOT, name, WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)


@pytest.mark.parametrize("related", [False, True])
def test_a_forged_status_gains_no_say_over_another_tenant(
    tenants: Tenants, parent: str, child: str, values: Write, related: bool
) -> None:
    """Who may create Tenants in one namespace points one at a stranger's, or at its parent."""
    victim = parent if related else tenants.create(wants=EAST)
    values(child, "evil", WEST, status={"namespace": victim})
    values(child, "honest", WEST)
    fence = tenants.create(f"{child}-honest")
    tenants.settle({fence: WEST}, seconds=NOTICED_SECONDS)
    assert tenants.class_of(victim) == (None if related else EAST)


@pytest.mark.parametrize("wish", ["a b", "x" * 64, 7, ["dc-west"], {"name": "dc-west"}, True])
def test_a_value_that_is_no_class_name_pins_nothing_and_breaks_nothing(
    tenants: Tenants, parent: str, child: str, values: Write, wish: object
) -> None:
    values(parent, "a", wish)
    fence = tenants.create(f"{parent}-fence")
    values(parent, "fence", WEST)
    tenants.settle({fence: WEST, child: None}, seconds=NOTICED_SECONDS)
    if isinstance(wish, str):
        event = tenants.wait_event(child, Reason.INVALID_REQUEST)
        assert "spec.schedulingClass of Tenant" in event["message"]


def test_a_pod_is_pinned_by_the_values_as_soon_as_they_are_known(
    api: Api, tenants: Tenants, parent: str, child: str, values: Write
) -> None:
    values(parent, "a", WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    assert pinned_to(api.create(pods_path(child), pod())) == WEST
    values(parent, "a", EAST)
    path = f"{pods_path(child)}?dryRun=All"
    eventually(
        "new pods follow", lambda: pinned_to(api.create(path, pod("probe"))) == EAST, seconds=10
    )


# --- Helm beside it -------------------------------------------------------------------------------


def controller_writes(operator: Installation, mark: int, name: str) -> int:
    user = operator.user("controller")
    found = operator.cluster.audit.events(
        mark, user=user, verb="patch", resource="namespaces", name=name
    )
    return sum(e["responseStatus"]["code"] == 200 for e in found)


def helm(api: Api, name: str, class_name: str) -> None:
    """What Helm does at each upgrade: its manifest's label, by a patch under its own name."""
    api.request(
        "PATCH",
        f"{namespace_path(name)}?fieldManager=helm",
        {"metadata": {"labels": {names.CLASS_KEY: class_name}}},
        headers={"Content-Type": "application/strategic-merge-patch+json"},
    )


def wait_corrected(api: Api, replicas: list[Replica], child: str) -> None:
    """Until each webhook replica has heard of the Tenant: it would put the label right."""
    old = api.get(namespace_path(child))
    new = copy.deepcopy(old)
    new["metadata"]["labels"][names.CLASS_KEY] = EAST
    asked = review(NAMESPACES, new, name=child, operation="UPDATE", oldObject=old)

    def all_correct() -> bool:
        found = [r.send("/mutate-namespaces", asked).applied_to(new) for r in replicas]
        return all(ns["metadata"]["labels"][names.CLASS_KEY] == WEST for ns in found)

    eventually("the webhooks know the Tenant", all_correct, seconds=NOTICED_SECONDS)


def test_helm_that_writes_the_same_value_causes_no_write_of_ours(
    api: Api, operator: Installation, tenants: Tenants, parent: str, child: str, values: Write
) -> None:
    values(parent, "a", WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    mark = operator.cluster.audit.mark()
    for _ in range(20):
        helm(api, child, WEST)
    tenants.settle({child: WEST})
    assert controller_writes(operator, mark, child) == 0


@pytest.mark.parametrize("webhook", ["up", "down"])
def test_helm_that_writes_a_stale_value_is_answered_with_few_writes_and_gives_in(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    parent: str,
    child: str,
    values: Write,
    replicas: list[Replica],
    webhook: str,
) -> None:
    """Tenant and Helm release of one tenant disagree for a while, as within an upgrade."""
    values(parent, "a", WEST)
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    wait_corrected(api, replicas, child)
    if webhook == "down":
        for name in operator.webhooks:
            operator.process(name).stop()
    mark = operator.cluster.audit.mark()
    deadline = time.monotonic() + 8
    stale = 0
    while time.monotonic() < deadline:
        helm(api, child, EAST)
        stale += 1
        time.sleep(0.1)
    writes = controller_writes(operator, mark, child)
    assert stale > 20
    assert writes <= (5 if webhook == "down" else 0), (writes, stale)
    helm(api, child, WEST)
    tenants.settle({child: WEST})


def test_only_the_operator_reads_and_nobody_writes_tenants(operator: Installation) -> None:
    """The operator cannot change what it takes for the truth."""
    account = operator.cluster.identities.service_account_api(
        "cozy-schedclass", "schedclass-controller"
    )
    with pytest.raises(ApiError) as refused:
        account.create(tenants_path("default"), {"metadata": {"name": "x"}})
    assert refused.value.status == 403
