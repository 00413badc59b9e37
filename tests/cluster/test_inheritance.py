"""The class of a tenant reaches all tenants below it, and leaves them as it came."""

from typing import Any

import pytest

from controlplane import Api, ApiError, Installation, eventually
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    NAMESPACES,
    annotations,
    labels,
    namespace_path,
    owner_reference,
    pinned_to,
    pod,
    pods_path,
)
from tests.cluster.replicas import Replica
from tests.cluster.tenants import Tenants, unique

WEST, EAST = "dc-west", "dc-east"


def owned_chain(tenants: Tenants, length: int) -> list[str]:
    """Namespaces of which each owns the next."""
    chain = [tenants.create()]
    for _ in range(length - 1):
        chain.append(tenants.create(below=chain[-1]))
    return chain


def named_chain(tenants: Tenants, length: int) -> list[str]:
    """Tenants of which each is named after the one above it."""
    root = unique("tenant")
    chain = [root + "".join(f"-{letter}" for letter in "abcdefg"[:n]) for n in range(length)]
    return [tenants.create(name) for name in chain]


CHAINS = pytest.mark.parametrize("make", [owned_chain, named_chain], ids=["owners", "names"])


def reparent(tenants: Tenants, name: str, owners: list[dict[str, Any]]) -> None:
    change = {"metadata": {"ownerReferences": owners}}
    tenants.api.merge_patch(namespace_path(name), change)


# --- down the tree --------------------------------------------------------------------------------


@CHAINS
def test_a_class_reaches_every_descendant_within_a_second(tenants: Tenants, make: Any) -> None:
    chain = make(tenants, 4)
    tenants.ask(chain[0], WEST)
    tenants.settle(dict.fromkeys(chain, WEST), seconds=1)
    assert [tenants.origin_of(name) for name in chain] == [None, *[chain[0]] * 3]
    event = tenants.wait_event(chain[3], Reason.CLASS_INHERITED)
    assert event["message"] == f'scheduling class "{WEST}" is inherited from {chain[0]}'


@CHAINS
def test_a_class_leaves_with_the_parents_and_each_wish_comes_back(
    tenants: Tenants, make: Any
) -> None:
    chain = make(tenants, 4)
    tenants.ask(chain[2], EAST)
    tenants.ask(chain[0], WEST)
    tenants.settle(dict.fromkeys(chain, WEST))
    assert tenants.wish_of(chain[2]) == EAST
    tenants.ask(chain[0], None)
    expected = {chain[0]: None, chain[1]: None, chain[2]: EAST, chain[3]: EAST}
    tenants.settle(expected)
    assert [tenants.origin_of(name) for name in chain] == [None, None, None, chain[2]]
    for name in chain[:3]:
        left = {key for key in annotations(tenants.get(name)) if key.startswith(names.PREFIX)}
        assert left == set()


@CHAINS
def test_a_wish_without_a_classed_ancestor_is_granted(tenants: Tenants, make: Any) -> None:
    chain = make(tenants, 3)
    tenants.ask(chain[1], EAST)
    tenants.settle({chain[0]: None, chain[1]: EAST, chain[2]: EAST})


def test_the_root_most_request_decides(tenants: Tenants) -> None:
    top, middle, bottom = owned_chain(tenants, 3)
    tenants.ask(bottom, "dc-b")
    tenants.ask(middle, EAST)
    tenants.settle({bottom: EAST})
    tenants.ask(top, WEST)
    tenants.settle({middle: WEST, bottom: WEST})
    assert (tenants.wish_of(middle), tenants.wish_of(bottom)) == (EAST, "dc-b")
    event = tenants.wait_event(bottom, Reason.OVERRIDE_IGNORED)
    assert event["type"] == "Warning"
    messages = [e["message"] for e in tenants.events(bottom, Reason.OVERRIDE_IGNORED)]
    assert any(top in message and f'"{WEST}"' in message for message in messages)


def test_a_wish_can_be_written_as_annotation(tenants: Tenants) -> None:
    top, below = owned_chain(tenants, 2)
    tenants.annotate(below, {names.REQUESTED_CLASS: EAST})
    tenants.settle({below: EAST})
    tenants.ask(top, WEST)
    tenants.settle({below: WEST})
    tenants.ask(top, None)
    tenants.settle({below: EAST})


def test_an_owner_comes_before_the_name(tenants: Tenants) -> None:
    by_name = tenants.create(unique("tenant"), wants=WEST)
    owner = tenants.create(wants=EAST)
    below = tenants.create(f"{by_name}-a", below=owner)
    tenants.settle({below: EAST})
    assert tenants.origin_of(below) == owner


def test_three_changes_in_quick_succession_end_with_the_last(tenants: Tenants) -> None:
    chain = owned_chain(tenants, 3)
    for class_name in (WEST, None, EAST, WEST, EAST):
        tenants.ask(chain[0], class_name)
    tenants.settle(dict.fromkeys(chain, EAST), seconds=3)


def test_a_class_that_is_created_later_is_inherited_before_and_enforced_after(
    tenants: Tenants,
) -> None:
    chain = owned_chain(tenants, 3)
    later = unique("later")
    tenants.ask(chain[0], later)
    tenants.settle(dict.fromkeys(chain, later))
    tenants.create_class(later)
    tenants.settle(dict.fromkeys(chain, later), seconds=3)


# --- parents that come, go and return -------------------------------------------------------------


def test_a_late_parent_takes_in_its_children_at_once(tenants: Tenants) -> None:
    root = unique("tenant")
    below = [tenants.create(f"{root}-a"), tenants.create(f"{root}-a-b")]
    tenants.settle(dict.fromkeys(below, None))
    tenants.create(root, wants=WEST)
    tenants.settle(dict.fromkeys(below, WEST), seconds=1)


def test_a_parent_between_two_tenants_changes_the_chain(tenants: Tenants) -> None:
    root = tenants.create(unique("tenant"))
    below = tenants.create(f"{root}-a-b")
    tenants.ask(below, EAST)
    middle = tenants.create(f"{root}-a", wants=WEST)
    tenants.settle({below: WEST})
    assert tenants.origin_of(below) == middle


def test_tenant_root_is_the_last_resort(tenants: Tenants) -> None:
    tenant = tenants.create(unique("tenant"))
    other = tenants.create()
    root = tenants.create(names.TENANT_ROOT, wants=WEST)
    tenants.settle({tenant: WEST, other: None}, seconds=3)
    tenants.ask(root, None)
    tenants.settle({tenant: None})
    tenants.remove(root)


def test_a_deleted_parent_leaves_its_class_behind_and_says_so(tenants: Tenants) -> None:
    parent = tenants.create(wants=WEST)
    below = tenants.create(below=parent)
    tenants.settle({below: WEST})
    tenants.remove(parent)
    event = tenants.wait_event(below, Reason.PARENT_MISSING)
    assert event["type"] == "Warning"
    assert (f'"{WEST}"' in event["message"], parent in event["message"]) == (True, True)
    tenants.settle({below: WEST})
    grandchild = tenants.create(below=below)
    tenants.settle({grandchild: WEST})


@pytest.mark.parametrize("with_wish", [None, EAST])
def test_a_re_created_parent_is_another_one(tenants: Tenants, with_wish: str | None) -> None:
    parent = tenants.create(unique("tenant"), wants=WEST)
    below = tenants.create(f"{parent}-a")
    tenants.settle({below: WEST})
    tenants.remove(parent)
    tenants.wait_event(below, Reason.PARENT_MISSING)
    tenants.create(parent, wants=with_wish)
    # A class of the new one decides; having none takes nothing away from those it never gave to.
    tenants.settle({below: with_wish or WEST})
    beside = tenants.create(f"{parent}-b")
    tenants.settle({beside: with_wish, below: with_wish or WEST})


def test_moving_to_another_parent_follows_it(tenants: Tenants) -> None:
    first, second = tenants.create(wants=WEST), tenants.create(wants=EAST)
    below = tenants.create(below=first)
    grandchild = tenants.create(below=below)
    tenants.settle({grandchild: WEST})
    tenants.move(below, below=second)
    tenants.settle({below: EAST, grandchild: EAST})


def test_a_cycle_of_owners_hangs_nothing_and_unpins_nobody(tenants: Tenants) -> None:
    ring = owned_chain(tenants, 3)
    tenants.ask(ring[0], WEST)
    tenants.settle(dict.fromkeys(ring, WEST))
    tenants.move(ring[0], below=ring[2])
    itself = tenants.create()
    tenants.move(itself, below=itself)
    tenants.ask(itself, EAST)
    tenants.settle({**dict.fromkeys(ring, WEST), itself: EAST})
    for name in ring:
        tenants.move(name, below=None)  # or the garbage collector would hold them for ever


def test_a_dangling_owner_is_no_way_out(api: Api, tenants: Tenants) -> None:
    parent = tenants.create(wants=WEST)
    below = tenants.create(below=parent)
    tenants.settle({below: WEST})
    gone = {**owner_reference(tenants.get(parent)), "uid": "00000000-0000-0000-0000-000000000000"}
    # The garbage collector deletes what has no living owner at all.
    node = {**owner_reference(api.get("/api/v1/nodes/node-1")), "kind": "Node"}
    reparent(tenants, below, [{**gone, "name": "no-such-namespace"}, node])
    assert tenants.class_of(below) == WEST
    tenants.wait_event(below, Reason.PARENT_MISSING)
    assert tenants.class_of(below) == WEST


# --- pods that are faster than labels -------------------------------------------------------------


def test_a_pod_ten_milliseconds_younger_than_its_namespace_is_pinned(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    parent = tenants.create(wants=WEST)
    tenants.settle({parent: WEST})
    owner = owner_reference(tenants.get(parent))
    for controller in operator.controllers:
        operator.process(controller).pause()
    for _ in range(10):
        name = tenants.adopt(unique("ns"))
        api.create(NAMESPACES, {"metadata": {"name": name, "ownerReferences": [owner]}})
        make_account(api, name)
        assert pinned_to(first_pod(api, name)) == WEST
    for controller in operator.controllers:
        operator.process(controller).resume()


def make_account(api: Api, namespace: str) -> None:
    """Creates what pods need, unless the controller manager was faster."""
    try:
        api.create(f"{NAMESPACES}/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    except ApiError as error:
        if error.status != 409:
            raise


def first_pod(api: Api, namespace: str) -> dict[str, Any]:
    """A pod as early as the API server takes one: its ServiceAccount is cached a moment later."""

    def attempt() -> dict[str, Any] | None:
        try:
            return api.create(pods_path(namespace), pod())
        except ApiError as error:
            if "serviceaccount" not in str(error):
                raise
            return None

    created = eventually(f"a pod in {namespace}", attempt, interval=0.001)
    assert created is not None
    return created


def test_a_pod_is_pinned_by_the_tree_although_its_namespace_has_no_label(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    chain = owned_chain(tenants, 3)
    bottom = tenants.create(below=chain[-1], with_account=True)
    for name in operator.controllers:
        operator.process(name).pause()
    tenants.ask(chain[0], WEST)
    path = f"{pods_path(bottom)}?dryRun=All"
    eventually("pods are pinned", lambda: pinned_to(api.create(path, pod())) == WEST, seconds=3)
    assert tenants.class_of(bottom) is None
    for name in operator.controllers:
        operator.process(name).resume()
    tenants.settle({bottom: WEST})


# --- many -----------------------------------------------------------------------------------------


def test_fifty_descendants_follow_and_nothing_foreign_is_touched(tenants: Tenants) -> None:
    root = tenants.create(unique("tenant"))
    below = [tenants.create(f"{root}-{n}", labels={"n": str(n)}) for n in range(50)]
    tenants.ask(root, WEST)
    tenants.settle(dict.fromkeys(below, WEST))
    assert [labels(tenants.get(name))["n"] for name in below] == [str(n) for n in range(50)]


def test_children_that_are_deleted_meanwhile_cause_no_errors(
    operator: Installation, tenants: Tenants
) -> None:
    def errors() -> float:
        metrics = [Replica(operator, name) for name in operator.controllers]
        return sum(replica.metric("schedclass_reconcile_errors_total") for replica in metrics)

    root = tenants.create()
    below = [tenants.create(below=root) for _ in range(20)]
    before = errors()
    for number, name in enumerate(below):
        tenants.ask(root, (WEST, EAST, None)[number % 3])
        tenants.api.delete(namespace_path(name))
    last = tenants.create(below=root)
    tenants.ask(root, WEST)
    tenants.settle({last: WEST})
    assert errors() == before


# --- beside others, and without room --------------------------------------------------------------


def test_what_another_operator_has_put_on_a_namespace_stays(tenants: Tenants) -> None:
    """The default finalizer of Kopf, with which other operators guard their own work."""
    root = tenants.create()
    child = tenants.create(below=root)
    path, guard = namespace_path(child), ["kopf.zalando.org/KopfFinalizerMarker"]
    tenants.api.merge_patch(path, {"metadata": {"finalizers": guard}})
    for wanted in (WEST, EAST, None):
        tenants.ask(root, wanted)
        tenants.settle({child: wanted})
        assert tenants.get(child)["metadata"]["finalizers"] == guard


def test_a_namespace_full_of_annotations_is_protected_all_the_same(tenants: Tenants) -> None:
    root = tenants.create()
    child = tenants.create(below=root)
    path = namespace_path(child)
    room = 256 * 1024 - sum(len(k) + len(v) for k, v in annotations(tenants.get(child)).items())
    tenants.api.merge_patch(path, {"metadata": {"annotations": {"x": "x" * (room - 1)}}})
    tenants.ask(root, WEST)
    tenants.settle({root: WEST, child: WEST})
    tenants.wait_event(child, Reason.ANNOTATIONS_REFUSED)
    tenants.api.merge_patch(path, {"metadata": {"annotations": {"x": None}}})
    eventually("its origin is told", lambda: tenants.origin_of(child) == root)
