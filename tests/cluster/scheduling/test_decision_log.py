"""`explain` says of a pod what the extender answered for it, as its own log of decisions has it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane import Installation, eventually
from schedclass.domain.scheduling import EXTENDER_UNIT
from tests.cluster.objects import REGION
from tests.cluster.scheduling.conftest import Tenant
from tests.cluster.scheduling.workloads import (
    HOSTNAME,
    ZONE,
    Nodes,
    Workloads,
    anti_affinity,
    container,
    spread,
)
from tests.unit.cli.running import schedclass

Json = dict[str, Any]
WEB = {"app": "web"}


class Log:
    """What the extenders have answered, from their logs."""

    def __init__(self, operator: Installation) -> None:
        self._cluster = operator.cluster
        self._files = [operator.process(name).log for name in operator.extenders]

    def last(self, namespace: str, name: str, decision: str) -> Json:
        """The last answer about a pod; there must be one."""
        found = [
            line
            for file in self._files
            for line in _lines(file)
            if line["decision"] == decision
            and (line["k8s"]["namespace"], line["k8s"]["name"]) == (namespace, name)
        ]
        assert found, f"nothing was answered about {namespace}/{name}"
        return max(found, key=lambda line: str(line["ts"]))


def _lines(file: Path) -> Iterator[Json]:
    for text in file.read_text(encoding="utf-8").splitlines():
        if '"decision"' in text:
            yield json.loads(text)


@pytest.fixture(scope="module")
def log(session_operator: Installation) -> Iterator[Log]:
    """The log is on while the tests of this file run."""
    before = session_operator.values.get("scheduler", {})
    session_operator.install_chart(scheduler={**before, "logDecisions": True})
    session_operator.rolling_restart(session_operator.extenders)
    yield Log(session_operator)
    session_operator.install_chart(scheduler=before)
    session_operator.rolling_restart(session_operator.extenders)


def explained(web: Workloads, name: str) -> Json:
    arguments = ("explain", "pod", name, "-n", web.namespace, "-o", "json")
    done = schedclass(*arguments, "--kubeconfig", web.cluster.kubeconfig)
    assert done.code == 0, done.err
    found: Json = done.document["explanation"]
    return found


def compare(log: Log, web: Workloads, name: str) -> Json:
    """Node for node and rule for rule; returns what was explained."""
    told = explained(web, name)
    verdicts = {verdict["node"]: verdict for verdict in told["judgement"]["verdicts"]}
    answered = log.last(web.namespace, name, "filter")
    assert answered["class"] == told["judgement"]["className"]
    assert "error" not in answered
    refused = {entry["node"]: entry["rules"] for entry in answered["refused"]}
    # kube-scheduler asks only about nodes that its own plugins let through.
    own = {
        node
        for node, verdict in verdicts.items()
        if any(not rejection.get("className") for rejection in verdict["rejections"])
    }
    assert {*answered["passed"], *answered["leftOut"], *refused} == verdicts.keys() - own
    for node in (*answered["passed"], *answered["leftOut"]):
        assert verdicts[node]["passed"], verdicts[node]
    for node, rules in refused.items():
        assert rules == [
            {key: rejection[key] for key in ("rule", "reason", "message")}
            for rejection in verdicts[node]["rejections"]
        ]
    _compare_scores(log, web, name, verdicts, answered["passed"])
    return told


def _compare_scores(
    log: Log, web: Workloads, name: str, verdicts: dict[str, Json], passed: list[str]
) -> None:
    if len(passed) < 2:
        return  # kube-scheduler does not score a single node
    scored = log.last(web.namespace, name, "prioritize")["scores"]
    assert {entry["node"]: entry["score"] * EXTENDER_UNIT for entry in scored} == {
        node: verdicts[node]["scores"]["SchedulingClass"]
        for node in passed
        if "SchedulingClass" in verdicts[node]["scores"]
    }
    for entry in scored:
        assert entry["rules"] == verdicts[entry["node"]]["classScores"]


def test_a_pod_that_was_placed(log: Log, tenant: Tenant) -> None:
    west = tenant("dc-west")
    west.create("web")
    west.wait_node("web")
    told = compare(log, west, "web")
    assert [v["node"] for v in told["judgement"]["verdicts"] if not v["passed"]] == ["node-3"]


def test_a_pod_that_no_node_takes_for_reasons_of_its_class(log: Log, tenant: Tenant) -> None:
    nowhere = tenant(nodeSelector={REGION: "west", ZONE: "c"})
    nowhere.create("web")
    said = nowhere.wait_pending("web", "node selector")
    assert compare(log, nowhere, "web")["judgement"]["message"].rstrip(".") in said


def test_a_pod_that_its_class_and_kube_scheduler_refuse(
    log: Log, tenant: Tenant, nodes: Nodes
) -> None:
    nodes.cordon("node-2")
    west = tenant("dc-west")
    west.create("web", containers=container(cpu="100"))
    said = west.wait_pending("web", "Insufficient cpu")
    told = compare_own(west, "web")
    assert told["judgement"]["message"].rstrip(".") in said
    west.create("small", nodeSelector={REGION: "east"})
    said = west.wait_pending("small", "node selector")
    assert compare(log, west, "small")["judgement"]["message"].rstrip(".") in said


def compare_own(web: Workloads, name: str) -> Json:
    """For a pod about which the extender is not asked, as no node is left for it."""
    told = explained(web, name)
    for verdict in told["judgement"]["verdicts"]:
        assert any(not rejection.get("className") for rejection in verdict["rejections"])
    return told


def test_anti_affinity_of_a_class_in_both_directions(log: Log, tenant: Tenant) -> None:
    apart = tenant(podAntiAffinity=anti_affinity(WEB))
    apart.deploy("web", replicas=3)
    apart.wait_placed(3, "web")
    apart.create("fourth", labels=WEB)
    said = apart.wait_pending("fourth", "anti-affinity")
    assert compare(log, apart, "fourth")["judgement"]["message"].rstrip(".") in said
    for pod in apart.pods("web"):
        if pod["metadata"]["name"] != "fourth":
            assert explained(apart, pod["metadata"]["name"])["outcome"].startswith("it runs on")


def test_a_spread_of_a_class(log: Log, tenant: Tenant, nodes: Nodes) -> None:
    nodes.cordon("node-3")
    web = tenant(topologySpreadConstraints=spread(WEB))
    for number in (1, 2):
        web.create(f"web-{number}", labels=WEB)
        web.wait_node(f"web-{number}")
    web.create("third", labels=WEB)
    said = web.wait_pending("third", "topology spread constraints")
    assert compare(log, web, "third")["judgement"]["message"].rstrip(".") in said


def test_scores_of_several_preferences(log: Log, tenant: Tenant) -> None:
    def wish(node: str, weight: int) -> Json:
        expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    (soft,) = spread(WEB)
    wishes = [wish("node-2", 7), wish("node-1", 3)]
    web = tenant(
        nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": wishes},
        topologySpreadConstraints=[{**soft, "whenUnsatisfiable": "ScheduleAnyway"}],
    )
    web.create("web-1", labels=WEB)
    assert web.wait_node("web-1") == "node-2"
    web.create("web-2", labels=WEB)
    assert web.wait_node("web-2") == "node-1"
    told = compare(log, web, "web-2")["judgement"]
    assert told["node"] == "node-1"
    rules = {rule for verdict in told["verdicts"] for rule in verdict["classScores"]}
    assert rules == {"NodeAffinity", "PodTopologySpread"}


def test_a_pod_s_own_spread_does_not_see_the_nodes_of_its_class(log: Log, tenant: Tenant) -> None:
    """kube-scheduler counts zone c, where the class lets no pod go, as an empty one."""
    west = tenant("dc-west")
    own: Json = {"labels": WEB, "topologySpreadConstraints": spread(WEB)}
    for number in (1, 2):
        west.create(f"web-{number}", **own)
        west.wait_node(f"web-{number}")
    west.create("third", **own)
    said = west.wait_pending("third", "topology spread constraints", "node selector")
    assert compare(log, west, "third")["judgement"]["message"].rstrip(".") in said


def test_the_lesson_on_filter_score_and_bind(log: Log, tenant: Tenant) -> None:
    """One node is refused for its CPU, two are scored, and the emptier one is bound."""
    anywhere = tenant(nodeSelector={"kubernetes.io/os": "linux"})
    for node, cpu in (("node-1", "7500m"), ("node-2", "4")):
        anywhere.create(f"busy-{node}", nodeName=node, containers=container(cpu=cpu, memory="1Gi"))
    anywhere.create("web", containers=container(cpu="1", memory="1Gi"))
    assert anywhere.wait_node("web") == "node-3"
    told = compare(log, anywhere, "web")
    verdicts = {verdict["node"]: verdict for verdict in told["judgement"]["verdicts"]}
    assert [r["message"] for r in verdicts["node-1"]["rejections"]] == ["Insufficient cpu"]
    assert verdicts["node-3"]["score"] > verdicts["node-2"]["score"]
    passed = log.last(anywhere.namespace, "web", "filter")["passed"]
    assert sorted(passed) == ["node-2", "node-3"]
    assert log.last(anywhere.namespace, "web", "bind")["node"] == "node-3"

    where = f"Successfully assigned {anywhere.namespace}/web to node-3"
    eventually(
        "its Event says where it went",
        lambda: any(where in event for event in explained(anywhere, "web")["events"]),
    )
