"""What `simulate` says is what the real scheduler then does."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from controlplane import ApiError, Cluster, Installation, eventually
from tests.cluster.cli.conftest import Cli
from tests.cluster.leftovers import remove_workloads
from tests.cluster.objects import REGION, namespace_path, pods_path
from tests.cluster.scheduling.workloads import Nodes, message
from tests.unit.cli.running import SCENARIOS

ZONE = "topology.kubernetes.io/zone"
SCENARIO_NAMES = ("selector", "preferred-affinity", "anti-affinity", "spread-7", "spread-9")
GENERATED = 8


@pytest.fixture
def nodes(operator: Installation) -> Iterator[Nodes]:
    changed = Nodes(operator.cluster)
    yield changed
    changed.restore()


@contextlib.contextmanager
def applied(cluster: Cluster, file: Path, namespaces: list[str]) -> Iterator[None]:
    """Applies manifests for a while; pods end at once, so that they take no place afterwards."""
    cluster.kubectl("apply", "-f", str(file))
    try:
        yield
    finally:
        flags = ("--ignore-not-found", "--wait=false")
        cluster.kubectl("delete", *flags, "namespaces", *namespaces)
        for namespace in namespaces:
            cluster.admin.request(
                "DELETE",
                f"/apis/apps/v1/namespaces/{namespace}/deployments",
                {"propagationPolicy": "Background"},
            )
            cluster.admin.request("DELETE", pods_path(namespace), {"gracePeriodSeconds": 0})

            def empty(where: str = namespace) -> bool:
                return not cluster.admin.get(pods_path(where))["items"]

            eventually(f"{namespace} is empty", empty)
            # Spares the namespace controller its search for content, which takes five seconds.
            body = {"metadata": {"name": namespace}, "spec": {"finalizers": []}}
            with contextlib.suppress(ApiError):  # it was faster after all
                cluster.admin.request("PUT", f"{namespace_path(namespace)}/finalize", body)
        for cls in _names(file, "SchedulingClass"):
            path = f"/apis/cozystack.io/v1alpha1/schedulingclasses/{cls}"

            def gone(path: str = path) -> bool:
                with contextlib.suppress(Exception):
                    cluster.admin.delete(path)
                return cluster.admin.find(path) is None

            eventually(f"class {cls} is gone", gone)


def _names(file: Path, kind: str) -> list[str]:
    found = yaml.safe_load_all(file.read_text())
    return [obj["metadata"]["name"] for obj in found if obj and obj["kind"] == kind]


def settled(cluster: Cluster, namespace: str, total: int) -> list[dict[str, Any]]:
    """The pods once each has a node or was said to be unschedulable."""

    def all_spoken_for() -> list[dict[str, Any]]:
        pods = cluster.admin.get(pods_path(namespace))["items"]
        spoken = [pod for pod in pods if pod["spec"].get("nodeName") or message(pod)]
        return pods if len(pods) == len(spoken) == total else []

    return eventually(f"{total} pods of {namespace} are settled", all_spoken_for)


def compare(cluster: Cluster, cli: Cli, file: Path, namespace: str) -> tuple[int, int]:
    """Simulates, applies and compares; returns how many pods agree on their node, and of how many.

    How many find a node, on which set of nodes, and the reasons of those that do not must agree.
    """
    # Pods of earlier tests hold room for as long as they end: simulated with, and placed without.
    remove_workloads(cluster)
    simulated = cli("simulate", "--live", "-f", file, "-o", "json").document["groups"]
    groups = [group for group in simulated if f" {namespace}/" in group["name"]]
    placements = [placement for group in groups for placement in group["placements"]]
    ours = Counter(placement.get("node", "") for placement in placements)
    with applied(cluster, file, [namespace]):
        real = settled(cluster, namespace, len(placements))
    theirs = Counter(pod["spec"].get("nodeName", "") for pod in real)
    assert ours[""] == theirs[""], (placements, theirs)
    allowed = {v["node"] for group in groups for v in group["first"]["verdicts"] if v["passed"]}
    assert set(theirs) - {""} <= allowed or not allowed
    said = {placement["message"].rstrip(".") for placement in placements if "message" in placement}
    for pod in real:
        if not pod["spec"].get("nodeName"):
            assert any(text and text in message(pod) for text in said), (said, message(pod))
    return sum((ours & theirs).values()), len(placements)


@pytest.mark.parametrize("name", SCENARIO_NAMES)
def test_the_scenarios_of_the_course_end_as_simulated(
    operator: Installation, cli: Cli, name: str
) -> None:
    file = SCENARIOS / f"{name}.yaml"
    (namespace,) = _names(file, "Namespace")
    agreed, total = compare(operator.cluster, cli, file, namespace)
    # Which zone gets one more, or which of two equal nodes the odd pod, is left to chance.
    assert agreed >= total - 2


def generated(seed: int) -> list[dict[str, Any]]:
    """A class, a tenant and a Deployment; nodes are those of the session."""
    rng = Random(seed)
    name = f"tenant-generated-{seed}"
    spec: dict[str, Any] = {}
    if rng.random() < 0.5:
        spec["nodeSelector"] = {REGION: rng.choice(["west", "east"])}
    if rng.random() < 0.4:
        required = [{"topologyKey": rng.choice([ZONE, "kubernetes.io/hostname"])}]
        spec["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if rng.random() < 0.6:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": ZONE,
                "maxSkew": rng.choice([1, 2]),
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
            }
        ]
    labels = {
        "app": "web",
        **{f"apps.cozystack.io/application.{key}": "web" for key in ("group", "kind", "name")},
    }
    pod_spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "web",
                "resources": {"requests": {"cpu": rng.choice(["100m", "3"])}},
            }
        ]
    }
    if rng.random() < 0.3:
        pod_spec["nodeSelector"] = {ZONE: rng.choice(["a", "c"])}
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    return [
        {
            "apiVersion": "cozystack.io/v1alpha1",
            "kind": "SchedulingClass",
            "metadata": {"name": name},
            "spec": spec,
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"scheduler.cozystack.io/scheduling-class": name},
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": name},
            "spec": {
                "replicas": rng.randint(1, 5),
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        },
    ]


def test_generated_tenants_end_as_simulated(
    operator: Installation, cli: Cli, tmp_path: Path
) -> None:
    agreed = total = 0
    for seed in range(GENERATED):
        objects = generated(seed)
        file = tmp_path / f"{seed}.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        same, number = compare(operator.cluster, cli, file, objects[1]["metadata"]["name"])
        agreed, total = agreed + same, total + number
    sys.stdout.write(f"{agreed} of {total} pods on the simulated node\n")
    # Only ties differ: on three like nodes a pod or two of each Deployment.
    assert agreed >= 0.7 * total, f"{agreed} of {total} pods on the simulated node"


def test_a_taint_keeps_out_whom_the_simulation_keeps_out(
    operator: Installation, cli: Cli, nodes: Nodes
) -> None:
    nodes.taint("node-3", {"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
    text = (SCENARIOS / "taints.yaml").read_text()
    objects = [obj for obj in yaml.safe_load_all(text) if obj["kind"] != "Node"]
    file = operator.cluster.folder / "taints.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    agreed, total = compare(operator.cluster, cli, file, "tenant-taints")
    assert agreed == total
