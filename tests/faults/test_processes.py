"""Processes that are killed or stopped under load."""

import time
from functools import partial

from controlplane import eventually
from tests.faults.scene import Scene
from tests.faults.supervisor import Supervisor


def test_killing_a_webhook_replica_again_and_again_unpins_nothing(scene: Scene) -> None:
    def kill() -> None:
        for turn in range(20 if scene.long else 3):
            name = scene.operator.webhooks[turn % 2]
            other = scene.operator.webhooks[(turn + 1) % 2]
            eventually(f"{other} is ready", partial(scene.operator.is_ready, other), seconds=60)
            scene.operator.process(name).kill()
            time.sleep(0.5)

    row = scene.strike("kill -9 of one webhook replica", kill)
    assert row.escaped == row.blocked == 0


def kill_webhooks(scene: Scene) -> None:
    for name in scene.operator.webhooks:
        scene.operator.process(name).kill()


def without_webhooks(scene: Scene) -> Supervisor:
    supervisor = Supervisor(scene.operator)
    supervisor.held.update(scene.operator.webhooks)
    return supervisor


def test_without_any_webhook_pods_of_pinned_namespaces_wait_and_all_others_go_on(
    scene: Scene,
) -> None:
    supervisor = without_webhooks(scene)
    row = scene.strike(
        "kill -9 of all webhook replicas",
        lambda: kill_webhooks(scene),
        supervisor.held.clear,
        during=20 if scene.long else 2,
        supervisor=supervisor,
    )
    assert row.escaped == row.blocked == 0
    assert row.refused > 0


def test_without_policies_an_outage_is_a_way_out(scene: Scene) -> None:
    """What the policies are for, and that an escape would be counted."""
    supervisor = without_webhooks(scene)
    scene.operator.install_chart(policies={"enabled": False})
    try:
        eventually("no policy holds", lambda: not scene.policies_hold())
        row = scene.strike(
            "the same with policies.enabled=false",
            lambda: kill_webhooks(scene),
            supervisor.held.clear,
            supervisor=supervisor,
        )
    finally:
        scene.operator.install_chart(policies={})
        eventually("the policies hold again", scene.policies_hold)
    assert row.escaped > 0
    assert row.blocked == 0


def test_killing_the_leader_in_the_middle_of_a_change_unpins_nothing(scene: Scene) -> None:
    def kill() -> None:
        for _ in range(10 if scene.long else 2):
            scene.change_class()
            scene.operator.process(scene.leader()).kill()

    row = scene.strike("kill -9 of the leading controller", kill)
    assert row.escaped == row.refused == row.blocked == 0


def test_killing_the_api_server_unpins_nothing(scene: Scene) -> None:
    def kill() -> None:
        for _ in range(5 if scene.long else 1):
            scene.restart_api_server()

    row = scene.strike("kill -9 of the API server", kill, during=0)
    assert row.escaped == row.refused == row.blocked == 0
    # It listens again after a tenth of a second, which a few pods may well miss.
    assert row.unanswered > 0 or not scene.long


def test_a_frozen_api_server_makes_both_roles_unready_until_it_answers_again(scene: Scene) -> None:
    server = scene.cluster.process("kube-apiserver")

    def all_blind() -> bool:
        return not any(map(scene.operator.is_ready, scene.operator.replicas))

    def freeze() -> None:
        server.pause()
        eventually("nobody is ready", all_blind, seconds=150 if scene.long else 60)

    row = scene.strike("SIGSTOP of the API server", freeze, server.resume, changes=False, during=0)
    assert row.escaped == row.blocked == 0


def test_the_death_of_everything_at_once_is_survived(scene: Scene) -> None:
    def kill() -> None:
        for name in (*scene.operator.replicas, "kube-apiserver"):
            scene.cluster.process(name).kill()
        scene.cluster.heal()

    row = scene.strike("kill -9 of all replicas and the API server", kill, during=0)
    assert row.escaped == row.blocked == 0
