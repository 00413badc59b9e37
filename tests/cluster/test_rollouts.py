"""Replicas that die, restart and come back under load: no pod unpinned, none refused."""

import math
import signal
import time
from collections import Counter

import pytest

from controlplane import Api, Installation, eventually
from schedclass.domain import names
from schedclass.domain.findings import Reason
from tests.cluster.objects import (
    CLASSES,
    NAMESPACES,
    annotations,
    class_path,
    labels,
    owner_reference,
    pinned_to,
)
from tests.cluster.replicas import Replica
from tests.cluster.stream import PodStream
from tests.cluster.tenants import Tenants, unique

WEST, EAST = "dc-west", "dc-east"
PER_SECOND = 20

KOPF_LIMIT = 25
"""Seconds after which Kopf ends a process that hangs at its end, see hosting.py."""


@pytest.fixture
def pinned(tenants: Tenants) -> str:
    return tenants.create(wants=WEST, with_account=True)


def all_pinned(operator: Installation, stream: PodStream) -> None:
    assert stream.refused == {}
    log = operator.process("kube-apiserver").log.read_text(encoding="utf-8").splitlines()
    failures = [line for line in log if "failing open" in line][-3:]
    assert {pinned_to(created) for created in stream.created} == {WEST}, failures


def leader(operator: Installation) -> str:
    """The controller that leads."""
    leading = [
        name
        for name in operator.controllers
        if operator.process(name).is_alive()
        and Replica(operator, name).metric("schedclass_leader") == 1
    ]
    assert len(leading) == 1, leading
    return leading[0]


def wait_leader(operator: Installation) -> str:
    return eventually("one controller leads", lambda: leader(operator))


# --- webhook --------------------------------------------------------------------------------------


def test_a_webhook_killed_in_mid_stream_takes_nothing_with_it_but_what_it_held(
    api: Api, operator: Installation, pinned: str
) -> None:
    with PodStream(api, pinned, per_second=PER_SECOND) as stream:
        stream.wait(20)
        began = time.monotonic()
        operator.process("webhook-0").kill()
        gone = time.monotonic()
        stream.wait(30)
        operator.start_replica("webhook-0")
        stream.wait(20)
    assert {pinned_to(created) for created in stream.created} == {WEST}
    assert len(stream.created) >= 60
    # No HTTP client repeats a POST whose connection broke after it was sent. So a review that the
    # replica held at that moment is lost, and the API server refuses this one pod as not pinned.
    held = {name for name, (asked, told) in stream.asked.items() if asked < gone and told > began}
    assert stream.refused.keys() <= held
    assert all("create the pod again later" in str(error) for error in stream.refused.values())


def test_a_rolling_restart_unpins_and_refuses_nothing(
    api: Api, operator: Installation, pinned: str
) -> None:
    with PodStream(api, pinned, per_second=PER_SECOND) as stream:
        stream.wait(10)
        operator.rolling_restart(operator.webhooks)
        stream.wait(10)
    all_pinned(operator, stream)


def test_a_replica_ends_as_soon_as_it_has_drained(operator: Installation) -> None:
    """Left alone, Kopf would wait out its own limits before the process ends."""
    ending = ["webhook-1", wait_leader(operator)]
    for name in ending:
        operator.process(name).signal(signal.SIGTERM)
    for name in ending:
        assert operator.process(name).wait_gone(KOPF_LIMIT / 2), name
        operator.start_replica(name)


def test_two_hundred_pods_cost_the_webhook_no_request(
    api: Api, operator: Installation, pinned: str
) -> None:
    audit, user = operator.cluster.audit, operator.user("webhook")
    before = audit.mark()
    with PodStream(api, pinned, per_second=100) as stream:
        stream.wait(200)
    all_pinned(operator, stream)
    sent = Counter(
        (event["verb"], event["objectRef"]["resource"]) for event in audit.events(before, user=user)
    )
    # What comes at intervals, however many pods there are.
    assert {what for what in sent if what[0] not in {"list", "watch"}} <= {("get", "leases")}
    assert sent.total() < 50


# --- controller -----------------------------------------------------------------------------------


def test_when_the_leader_is_killed_the_other_converges_and_repeats_no_event(
    operator: Installation, tenants: Tenants
) -> None:
    root = tenants.create()
    below = [tenants.create(below=root) for _ in range(10)]
    told = tenants.create(below=root, wants=EAST)
    tenants.ask(root, WEST)
    tenants.wait_event(told, Reason.OVERRIDE_IGNORED)
    operator.heal()  # on a slow machine one may have lost the Lease, and ended
    killed = wait_leader(operator)
    operator.process(killed).kill()
    tenants.ask(root, EAST)
    late = tenants.create(below=below[-1], wants=WEST)
    tenants.settle(dict.fromkeys([root, *below, late], EAST))
    assert wait_leader(operator) != killed
    tenants.ask(root, WEST)
    tenants.settle(dict.fromkeys([root, *below, told], WEST))
    # The new leader looks at the one before the other, so it would have repeated itself by now.
    fence = tenants.create(below=root, wants=EAST)
    tenants.wait_event(fence, Reason.OVERRIDE_IGNORED)
    assert len(tenants.events(told, Reason.OVERRIDE_IGNORED)) == 1


def test_what_happened_while_no_controller_ran_is_healed_at_its_start(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    root, lost, removed = tenants.create(), unique("class"), tenants.create_class()
    below = [tenants.create(below=root) for _ in range(3)]
    wish, grandchild, forged = tenants.create(), tenants.create(), tenants.create()
    orphaned = tenants.create(wants=removed)
    tenants.settle({orphaned: removed})
    for name in (*operator.controllers, *operator.webhooks):
        operator.process(name).stop()
    # Neither controller nor webhook: every kind of change at once.
    tenants.ask(root, WEST)
    tenants.move(wish, below=root)
    tenants.ask(wish, EAST)
    tenants.move(grandchild, below=below[0])
    tenants.ask(orphaned, lost)
    tenants.label(forged, {names.ENFORCED: "true"})
    operator.heal()
    tenants.settle({root: WEST, wish: WEST, grandchild: WEST, orphaned: lost, forged: None})
    tenants.settle(dict.fromkeys(below, WEST))
    assert tenants.wish_of(wish) == EAST
    # The class that nobody uses any more is released.
    eventually("it is released", lambda: labels(api.get(class_path(removed))) == {})
    api.delete(class_path(removed))


def test_two_controllers_in_churn_neither_flap_nor_tell_twice(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    root = tenants.create()
    below = [tenants.create(below=root) for _ in range(5)]
    wish = tenants.create(below=root, wants=EAST)
    tenants.settle({wish: EAST})
    mark = operator.cluster.audit.mark()
    for turn in range(10):
        tenants.ask(root, WEST if turn % 2 == 0 else None)
        tenants.settle({below[-1]: WEST if turn % 2 == 0 else None, wish: (WEST, EAST)[turn % 2]})
    # Whatever changed, one writer wrote it once: a namespace never took more than its turns.
    user = operator.user("controller")
    patches = operator.cluster.audit.events(mark, user=user, resource="namespaces", verb="patch")
    accepted = Counter(
        e["objectRef"]["name"] for e in patches if e["responseStatus"]["code"] == 200
    )
    assert all(accepted[name] <= 10 for name in (*below, wish)), accepted
    assert len({e["userAgent"] for e in patches}) == 1
    told = tenants.events(wish, Reason.OVERRIDE_IGNORED)
    assert len(told) == 1, [(e["reportingInstance"], e["count"]) for e in told]


# --- a writer that never gives in -----------------------------------------------------------------


def test_a_contest_is_fought_with_back_off_and_told_once_by_name(
    api: Api, operator: Installation, tenants: Tenants
) -> None:
    parent = tenants.create(wants=WEST)
    below = tenants.create(below=parent)
    path = f"{NAMESPACES}/{below}"
    metadata = {
        "name": below,
        "ownerReferences": [owner_reference(tenants.get(parent))],
        "labels": {names.CLASS_KEY: ""},
    }
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    # As with an outage of the webhook: its correction within the request would end the contest.
    for name in operator.webhooks:
        operator.process(name).stop()
    mark = operator.cluster.audit.mark()
    reverts = 0
    began = time.monotonic()
    while reverts <= 20 or time.monotonic() - began < 8:
        # An engine that owns the namespace puts the label back to what its repository says.
        api.request("PATCH", f"{path}?fieldManager=gitops&force=true", manifest, headers=headers)
        reverts += 1
        time.sleep(0.1)
    took = time.monotonic() - began
    user = operator.user("controller")
    writes = [
        e
        for e in operator.cluster.audit.events(mark, user=user, verb="patch", name=below)
        if e["objectRef"]["resource"] == "namespaces" and e["responseStatus"]["code"] == 200
    ]
    # At once, at once, then after 1, 2, 4 seconds and so on.
    assert 2 <= len(writes) <= 2 + math.log2(took + 1), (len(writes), took)
    (event,) = tenants.events(below, Reason.LABEL_CONTESTED)
    assert event["message"].startswith("gitops keeps changing the scheduling class back")
    assert event["count"] <= len(writes)
    operator.heal()
    tenants.label(below, {"touched": "1"})
    tenants.settle({below: WEST})


def test_no_kopf_state_is_left_on_namespaces_pods_and_classes(
    api: Api, operator: Installation
) -> None:
    for path in (NAMESPACES, "/api/v1/pods", CLASSES):
        for item in api.get(path)["items"]:
            marks = [*annotations(item), *(item["metadata"].get("finalizers") or [])]
            assert not any("kopf" in mark or "zalando" in mark for mark in marks), item
            if path != CLASSES:
                assert names.IN_USE_FINALIZER not in marks
    for name in operator.replicas:
        operator.wait_replica_ready(name)
