"""An API server that refuses, forgets, delays, or cannot be reached."""

import time
from functools import partial

import pytest

from controlplane import eventually
from controlplane.installation import GRACE_SECONDS, NAMESPACE, RELEASE
from tests.cluster.objects import Json
from tests.cluster.replicas import Replica
from tests.faults.scene import BACK_SECONDS, Scene
from tests.faults.tokens import CACHED_SECONDS, Rotation, short_token

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"


# --- 410 ------------------------------------------------------------------------------------------


def compact(scene: Scene) -> None:
    """Makes etcd and the API server's cache forget all history."""
    revision = scene.etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    scene.etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
    scene.restart_api_server()


def is_told_of_a_gap(scene: Scene, name: str, before: int) -> bool:
    return "too old resource version" in scene.log(name)[before:]


def test_a_compacted_history_is_listed_anew(scene: Scene) -> None:
    """Whoever was cut off meanwhile asks for a version that nobody knows any more: 410."""
    since = {name: len(scene.log(name)) for name in scene.operator.webhooks}

    def forget() -> None:
        scene.proxy.cut(True)
        scene.change_class()
        compact(scene)

    row = scene.strike(
        "410 by compaction, while cut off", forget, lambda: scene.proxy.cut(False), changes=False
    )
    for name, before in since.items():
        # Each comes back in its own time, and not each is needed for a tenant's change to show.
        eventually(
            f"{name} was told that its version is too old",
            partial(is_told_of_a_gap, scene, name, before),
            seconds=BACK_SECONDS,
        )
    # Where the API server is slow to start, replicas that hear nothing for so long go unready.
    assert row.escaped == row.blocked == 0


# --- 429 ------------------------------------------------------------------------------------------


def rejecting() -> tuple[Json, Json]:
    """A priority level without seats, and a flow schema that sends our accounts there."""
    level = {
        "metadata": {"name": "reject-schedclass"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 0,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }
    accounts = [
        {
            "kind": "ServiceAccount",
            "serviceAccount": {"namespace": NAMESPACE, "name": f"{RELEASE}-{r}"},
        }
        for r in ("webhook", "controller")
    ]
    everything: Json = {
        "subjects": accounts,
        "resourceRules": [
            {
                **{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                **{"clusterScope": True, "namespaces": ["*"]},
            }
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    schema = {
        "metadata": {"name": "reject-schedclass"},
        "spec": {
            "matchingPrecedence": 2,  # only `exempt` may come first
            "priorityLevelConfiguration": {"name": "reject-schedclass"},
            "rules": [everything],
        },
    }
    return level, schema


def test_too_many_requests_are_waited_for(scene: Scene) -> None:
    level, schema = rejecting()
    user = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-controller"
    audit = scene.cluster.audit
    start = audit.mark()

    def rejected() -> int:
        events = audit.events(start, user=user)
        return sum(e.get("responseStatus", {}).get("code") == 429 for e in events)

    def reject() -> None:
        scene.api.create(f"{FLOW_CONTROL}/prioritylevelconfigurations", level)
        scene.api.create(f"{FLOW_CONTROL}/flowschemas", schema)
        # An API server that was killed before may be slow to notice its own new configuration.
        eventually("requests of ours are answered with 429", rejected, seconds=BACK_SECONDS)

    def accept() -> None:
        scene.api.delete(f"{FLOW_CONTROL}/flowschemas/reject-schedclass")
        scene.api.delete(f"{FLOW_CONTROL}/prioritylevelconfigurations/reject-schedclass")

    row = scene.strike(
        "429 for every request of ours", reject, accept, during=30 if scene.long else 2
    )
    assert row.escaped == row.blocked == 0


# --- credentials ----------------------------------------------------------------------------------


def test_tokens_that_live_for_seconds_are_read_again(scene: Scene) -> None:
    with Rotation(scene.operator, seconds=8) as rotation:
        row = scene.strike(
            "tokens expire every 8 s and are renewed in the file",
            lambda: time.sleep(CACHED_SECONDS + 8),  # now the first token is worth nothing
            during=60 if scene.long else 0,
        )
        assert rotation.turns > 3
    assert row.escaped == row.refused == row.blocked == row.restarts == 0


def test_a_token_that_nobody_renews_costs_a_replica_its_work_but_unpins_nothing(
    scene: Scene,
) -> None:
    """One replica of each role, the leading controller among them."""
    leader = scene.leader()
    stale = {"webhook-0": "webhook", leader: "controller"}

    def expire() -> None:
        for name, role in stale.items():
            scene.operator.write_token(name, short_token(scene.cluster, role, seconds=1))
            scene.operator.process(name).restart(GRACE_SECONDS)
        eventually("another leads", lambda: scene.leader() != leader, seconds=60)
        time.sleep(CACHED_SECONDS)

    row = scene.strike(
        "a token expires and is not renewed",
        expire,
        lambda: scene.operator.renew_tokens(stale),
        during=2,
    )
    assert row.escaped == row.refused == row.blocked == 0


# --- the way there --------------------------------------------------------------------------------


def test_slow_replies_slow_the_controller_only(scene: Scene) -> None:
    def slow() -> None:
        scene.proxy.delay = 2.0 if scene.long else 0.5

    row = scene.strike("each reply takes 0.5 s longer (long form: 2 s)", slow)
    assert row.escaped == row.refused == row.blocked == 0


def test_broken_connections_are_made_anew(scene: Scene) -> None:
    def cut() -> None:
        broken = 0
        for _ in range(20 if scene.long else 4):
            broken += scene.proxy.reset()  # there are few while everybody backs off
            time.sleep(0.5)
        assert broken >= len(scene.operator.replicas)

    row = scene.strike("every connection of ours is reset, again and again", cut)
    assert row.escaped == row.refused == row.blocked == 0


def test_watches_that_go_half_dead_are_noticed_and_replaced(scene: Scene) -> None:
    """Open connections on which no byte passes any more, as after a failed router."""
    if not scene.long:
        pytest.skip("takes as long as a silence of 75 seconds: make test-faults")
    row = scene.strike("every connection of ours goes half dead", scene.proxy.freeze)
    # Nor does the leader end for want of a renewal: the next attempt has a new connection.
    assert row.escaped == row.refused == row.blocked == row.restarts == 0


# --- what it costs --------------------------------------------------------------------------------


def reviews(scene: Scene) -> float:
    """How many reviews both replicas together have answered."""
    replicas = [Replica(scene.operator, name) for name in scene.operator.webhooks]
    return sum(replica.metric("schedclass_admission_requests_total") for replica in replicas)


def test_reviews_are_answered_from_memory_while_the_api_server_cannot_be_reached(
    scene: Scene,
) -> None:
    scene.proxy.cut(True)
    try:
        before = reviews(scene)
        row = scene.strike(
            "the API server cannot be reached by us",
            lambda: None,
            lambda: scene.proxy.cut(False),
            during=3,
            changes=False,
        )
        assert reviews(scene) > before + 20
    finally:
        scene.proxy.cut(False)
    assert row.escaped == row.refused == row.blocked == 0
