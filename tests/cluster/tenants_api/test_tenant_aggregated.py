"""Tenants from an aggregated API that fails in every way: nothing is unpinned by any of it."""

import time

import pytest

from controlplane import Api, Installation, eventually
from tests.cluster.objects import class_path, conditions, pinned_to, pod, pods_path
from tests.cluster.tenants import Tenants
from tests.cluster.tenants_api import standin
from tests.cluster.tenants_api.conftest import NOTICED_SECONDS, is_served
from tests.cluster.tenants_api.standin import Fault, StandIn

WEST, EAST = "dc-west", "dc-east"

LASTS_SECONDS = 3.0

# An API that is only odd: what it has to say is heard while it is so.
ODD = [
    standin.watch_ends_at_once,
    standin.no_watch,
    standin.always_gone,
    standin.gone_within,
    standin.malformed_items,
    standin.slow_list,
]

# An API that says nothing of use.
USELESS = [
    standin.unavailable,
    standin.internal_error,
    standin.not_found,
    standin.forbidden,
    standin.no_json,
    standin.empty_list,
]


@pytest.fixture
def child(tenants: Tenants, parent: str) -> str:
    return tenants.create(f"{parent}-a", with_account=True)


@pytest.fixture
def server(
    served_by_aggregation: StandIn, api: Api, tenants: Tenants, parent: str, child: str
) -> StandIn:
    """The API in good order, with a Tenant for `child` that asks for the class `dc-west`."""
    served_by_aggregation.put(parent, "a", WEST)
    eventually("Tenants are served", lambda: is_served(api))
    tenants.settle({child: WEST}, seconds=NOTICED_SECONDS)
    return served_by_aggregation


def assert_all_else_works(api: Api, operator: Installation, tenants: Tenants, child: str) -> None:
    assert tenants.class_of(child) == WEST
    assert pinned_to(api.create(f"{pods_path(child)}?dryRun=All", pod("probe"))) == WEST
    other = tenants.create(wants=EAST)
    below = tenants.create(below=other)
    tenants.settle({below: EAST})
    tenants.ask(other, WEST)
    tenants.settle({other: WEST, below: WEST})
    made = tenants.create_class()
    eventually(
        "a new class is reconciled",
        lambda: conditions(api.get(class_path(made))).get("Ready"),
    )
    api.delete(class_path(made))
    assert all(map(operator.is_ready, operator.replicas))


def name_of(fault: Fault) -> str:
    return getattr(fault, "__name__", "").replace("_", "-")


@pytest.mark.parametrize("fault", USELESS, ids=name_of)
def test_a_useless_api_changes_nothing_and_is_heard_again_afterwards(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    parent: str,
    child: str,
    server: StandIn,
    fault: Fault,
) -> None:
    server.fault = fault
    server.take_down()  # running watches end
    server.bring_up()
    before = server.requests
    began = time.monotonic()
    eventually("it is asked", lambda: server.requests > before)
    assert_all_else_works(api, operator, tenants, child)
    time.sleep(max(0.0, LASTS_SECONDS - (time.monotonic() - began)))
    asked = server.requests - before
    # Three readers, each with growing pauses; a LIST beside each watch.
    assert asked <= 12 * (time.monotonic() - began + 1), asked
    assert tenants.class_of(child) == WEST
    server.fault = None
    server.put(parent, "a", EAST)
    tenants.settle({child: EAST}, seconds=NOTICED_SECONDS)


@pytest.mark.parametrize("fault", ODD, ids=name_of)
def test_an_odd_api_is_understood_all_the_same(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    parent: str,
    child: str,
    server: StandIn,
    fault: Fault,
) -> None:
    server.fault = fault
    server.take_down()
    server.bring_up()
    before = server.requests
    eventually("it is asked", lambda: server.requests > before + 1)
    assert_all_else_works(api, operator, tenants, child)
    server.put(parent, "a", EAST)
    tenants.settle({child: EAST}, seconds=2 * NOTICED_SECONDS)


def test_an_api_that_is_down_at_the_start_is_neither_waited_for_nor_missed(
    api: Api,
    operator: Installation,
    tenants: Tenants,
    parent: str,
    child: str,
    server: StandIn,
) -> None:
    server.take_down()
    for name in operator.replicas:
        operator.process(name).stop()
    operator.heal()  # all of them are ready without it
    assert_all_else_works(api, operator, tenants, child)
    server.put(parent, "a", EAST)
    server.bring_up()
    tenants.settle({child: EAST}, seconds=2 * NOTICED_SECONDS)
