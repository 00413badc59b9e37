"""Generated clusters: each pod ends as `simulate` said just before it was created.

Pods come one after the other, so that no choice between equal nodes makes later ones differ. Which
nodes take a pod and why it stays Pending must agree always; the node must be the best or as good.
SCHEDCLASS_SIMULATIONS sets how many clusters are tried, SCHEDCLASS_SEED where the series begins.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from controlplane import ApiError, Cluster, Installation, eventually
from controlplane.nodes import RESOURCES
from schedclass.domain import names
from tests.cluster.cli.conftest import Cli
from tests.cluster.objects import (
    CLASSES,
    NODES,
    Json,
    class_path,
    namespace_path,
    pods_path,
    scheduling_class,
)
from tests.cluster.scheduling.workloads import message
from tests.differential import clusters
from tests.differential.clusters import NAMESPACE_LABELS, NAMESPACES, pairs
from tests.unit.cli.running import Done

SIMULATIONS = int(os.environ.get("SCHEDCLASS_SIMULATIONS", "2"))
SEED = int(os.environ.get("SCHEDCLASS_SEED", "0"))
PODS = 10
REPLICAS = 5
TENANTS = NAMESPACES[:2]
CLASS_NAMES = ("one", "two")


@dataclass
class Tally:
    """How the pods of a run ended."""

    placed: int = 0
    best: int = 0
    pending: int = 0
    otherwise: list[str] = field(default_factory=list)


class Stage:
    """Three namespaces that stay, and classes, nodes and pods that are made anew for each seed."""

    def __init__(self, cluster: Cluster, cli: Cli, folder: Path) -> None:
        self._cluster, self._api, self._cli = cluster, cluster.admin, cli
        self._folder = folder
        self._nodes: list[str] = []

    def prepare(self, seed: int) -> None:
        """Everything but the pods."""
        self.clear()
        rng = Random(seed)
        for name in CLASS_NAMES:
            self._set_class(name, rng)
        for name in NAMESPACES:
            labels = dict.fromkeys(NAMESPACE_LABELS) | pairs(0.6, NAMESPACE_LABELS)(rng)
            if name in TENANTS:
                labels[names.CLASS_KEY] = rng.choice(["one", "one", "one", "two", None])
            self._api.merge_patch(namespace_path(name), {"metadata": {"labels": labels}})
        made = [_node(f"n{number}", rng) for number in range(rng.randint(2, 6))]
        self._nodes = [node["metadata"]["name"] for node in made]
        self._cluster.add_nodes(made)
        self._cluster.wait_nodes_ready(self._nodes)

    def _set_class(self, name: str, rng: Random) -> None:
        """A class of which the operator thinks that it can be applied."""
        while True:
            body = scheduling_class(name, **clusters.class_spec(rng))
            known = self._api.find(class_path(name))
            try:
                if known is None:
                    self._api.create(CLASSES, body)
                else:
                    body["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
                    self._api.request("PUT", class_path(name), body)
            except ApiError as error:
                if error.status not in (403, 409, 422):
                    raise
            else:
                return

    def clear(self) -> None:
        """Pods at once, then nodes."""
        for namespace in NAMESPACES:
            self._api.request("DELETE", pods_path(namespace), {"gracePeriodSeconds": 0})
        for name in self._nodes:
            self._api.delete(f"{NODES}/{name}")
        self._nodes = []

    def try_pod(self, name: str, rng: Random, tally: Tally) -> None:
        """Simulates a pod, creates it, and compares; one that stays Pending is taken away."""
        pod = _pod(name, rng)
        path = pods_path(pod["metadata"]["namespace"])
        try:
            self._api.create(f"{path}?dryRun=All", pod)
        except ApiError as error:
            if error.status == 422:
                return  # nobody could create it
            raise
        file = self._folder / "pod.json"
        file.write_text(json.dumps(pod))
        done = self._cli("simulate", "--live", "-f", file, "-o", "json")
        self._api.create(path, pod)
        said = _first(done, f"Pod {pod['metadata']['namespace']}/{name}")
        self._compare(f"{path}/{name}", pod, said, tally)

    def try_replicas(self, name: str, rng: Random, tally: Tally) -> None:
        """The same for the replicas of a Deployment, one after the other: they are spread."""
        namespace = rng.choice(NAMESPACES)
        obj = _deployment(name, namespace, rng)
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._api.create(path, obj)
        known: set[str] = set()
        for number in range(1, REPLICAS + 1):
            obj["spec"]["replicas"] = number
            file = self._folder / "deployment.json"
            file.write_text(json.dumps(obj))
            how = ("--live", "-f", file) if number % 2 else ("--change", file)
            said = _first(
                self._cli("simulate", *how, "-o", "json"), f"Deployment {namespace}/{name}"
            )
            self._api.merge_patch(f"{path}/{name}", {"spec": {"replicas": number}})
            made = self._new_pod(namespace, name, known)
            if not self._compare(f"{pods_path(namespace)}/{made}", obj, said, tally, keep=True):
                break  # none of its siblings would find a node
            known.add(made)
        self._api.request("DELETE", f"{path}/{name}", {"propagationPolicy": "Background"})
        selector = f"{pods_path(namespace)}?labelSelector=app%3D{name}"
        self._api.request("DELETE", selector, {"gracePeriodSeconds": 0})
        eventually("all are gone", lambda: not self._api.get(selector)["items"])

    def _new_pod(self, namespace: str, app: str, known: set[str]) -> str:
        selector = f"{pods_path(namespace)}?labelSelector=app%3D{app}"

        def new() -> str:
            found = [pod["metadata"]["name"] for pod in self._api.get(selector)["items"]]
            return next((name for name in found if name not in known), "")

        return eventually(f"another pod of {app}", new)

    def _compare(
        self, path: str, pod: Json, said: Json, tally: Tally, *, keep: bool = False
    ) -> bool:
        """Tells whether the pod found a node; one that did not is taken away unless kept."""

        def spoken() -> Json:
            found = self._api.get(path)
            return found if found["spec"].get("nodeName") or message(found) else {}

        real = eventually(f"{path} is settled", spoken, interval=0.05)
        where = f"{json.dumps(pod)}\nsimulated: {json.dumps(said)}\nreal: {json.dumps(real)}"
        node = real["spec"].get("nodeName")
        allowed = [verdict["node"] for verdict in said["verdicts"] if verdict["passed"]]
        if node is None:
            assert not allowed, where
            assert message(real).startswith(said["message"].rstrip(".")), where
            tally.pending += 1
            if not keep:
                self._api.request("DELETE", path, {"gracePeriodSeconds": 0})
            return False
        assert node in allowed, where
        tally.placed += 1
        if node in (said["node"], *said["ties"]):
            tally.best += 1
        else:
            tally.otherwise.append(where)
        return True


def _first(done: Done, title: str) -> Json:
    """What is said of the first pod of a group, which is the next to be made."""
    assert done.code in (0, 1), done.err
    (group,) = (group for group in done.document["groups"] if group["name"] == title)
    first: Json = group["first"]
    return first


def _deployment(name: str, namespace: str, rng: Random) -> Json:
    resources = {"requests": {"cpu": rng.choice(["100m", "1"]), "memory": "64Mi"}}
    containers = [{"name": "main", "image": "image", "resources": resources}]
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def _node(name: str, rng: Random) -> Json:
    made: Json = clusters.node(name, rng)
    size = {**RESOURCES, "cpu": rng.choice(["2", "4", "8"]), "pods": rng.choice(["3", "110"])}
    made["spec"]["unschedulable"] = rng.random() < 0.1
    return {
        "apiVersion": "v1",
        "kind": "Node",
        **made,
        "status": {"allocatable": size, "capacity": size},
    }


def _pod(name: str, rng: Random) -> Json:
    made: Json = clusters.pod(name, rng)
    del made["metadata"]["uid"]
    spec = made["spec"]
    for term in _own_terms(spec):
        # kube-scheduler 1.36 takes NotIn and DoesNotExist here for everything.
        if term.get("namespaceSelector", {}).get("matchExpressions"):
            del term["namespaceSelector"]
    some = clusters.lists(clusters.one_of(*clusters.TOLERATIONS), most=rng.choice([0, 2]))
    spec["tolerations"] = some(rng)
    container: Json = {"name": "main", "image": "image"}
    requests = {"cpu": rng.choice(["100m", "1", "3"]), "memory": rng.choice(["64Mi", "4Gi"])}
    container["resources"] = {"requests": requests}
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 81])}]
    spec["containers"] = [container]
    return {"apiVersion": "v1", "kind": "Pod", **made}


def _own_terms(spec: Json) -> Iterator[Json]:
    for kind in ("podAffinity", "podAntiAffinity"):
        part = spec.get("affinity", {}).get(kind, {})
        yield from part.get(clusters.REQUIRED, ())
        yield from (wish["podAffinityTerm"] for wish in part.get(clusters.PREFERRED, ()))


@pytest.fixture
def stage(operator: Installation, cli: Cli, tmp_path: Path) -> Iterator[Stage]:
    cluster = operator.cluster
    for name in NAMESPACES:
        cluster.create_namespace(name)
    made = Stage(cluster, cli, tmp_path)
    yield made
    made.clear()
    for name in NAMESPACES:
        cluster.admin.delete(namespace_path(name))


@pytest.mark.timeout(300 + 60 * SIMULATIONS)
def test_every_pod_of_generated_clusters_ends_as_simulated(stage: Stage) -> None:
    tally = Tally()
    for seed in range(SEED, SEED + SIMULATIONS):
        stage.prepare(seed)
        rng = Random(seed)
        for number in range(PODS):
            stage.try_pod(f"s{seed}-{number}", rng, tally)
        stage.try_replicas(f"web-{seed}", rng, tally)
    sys.stdout.write(
        f"{SIMULATIONS} clusters: {tally.pending} pods Pending for the reasons simulated, "
        f"{tally.placed} placed where simulated, {tally.best} of them on the best node\n"
    )
    assert tally.best == tally.placed, "\n\n".join(tally.otherwise)
