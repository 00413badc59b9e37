"""The same pods through two schedulers: by class through ours, by their own spec through the stock.

Both have the same rate limits, wide enough never to matter, and nobody else works on pods or nodes:
kwok and kube-controller-manager are stopped before.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from bench.load import BenchError, at_once
from controlplane import Cluster, Installation, nodes
from controlplane.programs import program
from schedclass.domain import names
from schedclass.kube.client import KubeClient
from schedclass.kube.errors import NotFound

Json = dict[str, Any]

OURS, STOCK = "ours", "stock"
SCHEDULER, EXTENDER, DEFAULT = "scheduler-0", "extender-0", "kube-scheduler"
NODES: Final = "/api/v1/nodes"
POOL: Final = "bench-pool"
SMALL: Final = 10
"""Nodes of the small pool."""

UNLIMITED: Final = {"qps": 5000, "burst": 5000}
CONCURRENCY: Final = 16
REQUESTS: Final = {"cpu": "10m", "memory": "16Mi"}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SETTLE_SECONDS: Final = 1.5
"""After the last binding: what the schedulers do with the events of it is part of its price."""


@dataclass(frozen=True)
class Row:
    """One class.

    Attributes:
        key: its name, also the pods' label `app`.
        title: for people.
        spec: of the class.
        holds: whether nodes (with labels) of all pods together satisfy it.
    """

    key: str
    title: str
    spec: Mapping[str, Any]
    holds: Callable[[list[Mapping[str, str]]], bool]

    @property
    def pod_spec(self) -> Json:
        """The same constraints as a pod has them."""
        affinities = ("nodeAffinity", "podAffinity", "podAntiAffinity")
        affinity = {name: self.spec[name] for name in affinities if name in self.spec}
        rest = {name: value for name, value in self.spec.items() if name not in affinities}
        return {**rest, **({"affinity": affinity} if affinity else {})}


def _apart(placed: list[Mapping[str, str]]) -> bool:
    return len({labels[names.HOSTNAME_LABEL] for labels in placed}) == len(placed)


def _even(placed: list[Mapping[str, str]]) -> bool:
    counts = Counter({zone: 0 for zone in nodes.ZONES})
    counts.update(labels[names.ZONE_LABEL] for labels in placed)
    return max(counts.values()) - min(counts.values()) <= 1


ROWS: Final = (
    Row(
        "third",
        "node selector, a third",
        {"nodeSelector": {names.ZONE_LABEL: "a"}},
        lambda placed: all(labels[names.ZONE_LABEL] == "a" for labels in placed),
    ),
    Row(
        "ten",
        "node selector, 10 nodes",
        {"nodeSelector": {POOL: "small"}},
        lambda placed: all(labels.get(POOL) == "small" for labels in placed),
    ),
    Row(
        "apart",
        "hostname anti-affinity",
        {
            "podAntiAffinity": {
                REQUIRED: [
                    {
                        "topologyKey": names.HOSTNAME_LABEL,
                        "labelSelector": {"matchLabels": {"app": "apart"}},
                    }
                ]
            }
        },
        _apart,
    ),
    Row(
        "spread",
        "zone spread",
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": names.ZONE_LABEL,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "spread"}},
                }
            ]
        },
        _even,
    ),
)


@dataclass(frozen=True)
class Turn:
    """What one scheduler needed for the pods of one row.

    Attributes:
        pods: how many.
        seconds: from the start of the scheduler until the last pod was bound.
        cpu: CPU seconds by process.
        rss: resident bytes by process, at the end.
        filters: seconds of filter by upper bound, cumulated; empty for the stock scheduler.
        results: what the extender counted, by verb and result.
    """

    pods: int
    seconds: float
    cpu: Mapping[str, float]
    rss: Mapping[str, int]
    filters: Mapping[float, float] = field(default_factory=dict)
    results: Mapping[str, float] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        """Pods bound each second."""
        return self.pods / self.seconds

    @property
    def cpu_ms(self) -> dict[str, float]:
        """Milliseconds of CPU per pod, by process."""
        return {name: 1000 * used / self.pods for name, used in self.cpu.items()}


NO_ADMISSION: Final[Json] = {"webhook": {"enabled": False}, "policies": {"enabled": False}}
"""Chart values that leave every request to the API server alone."""


def limits(cluster: Cluster) -> None:
    """Gives the stock scheduler of a control plane the same limits as ours, and starts it anew."""
    path = cluster.folder / "config" / "kube-scheduler.json"
    configuration = json.loads(path.read_text(encoding="utf-8"))
    configuration["clientConnection"].update(UNLIMITED)
    path.write_text(json.dumps(configuration), encoding="utf-8")
    cluster.process(DEFAULT).restart()


def values(extra: Mapping[str, Any] | None = None) -> Json:
    """Chart values: no admission of ours, and the limits of the stock scheduler."""
    scheduler = {"kubeScheduler": {"clientConnection": dict(UNLIMITED)}, **(extra or {})}
    return {**NO_ADMISSION, "scheduler": scheduler}


LEASE_ENV: Final = {
    "SCHEDCLASS_LEASE_DURATION_SECONDS": "600",
    "SCHEDCLASS_LEASE_DEADLINE_SECONDS": "500",
}
"""While pods are created their scheduler is paused; it must not lose its Lease by that."""


class Placing:
    """Lets pods be placed, one scheduler at a time."""

    def __init__(
        self, cluster: Cluster, operator: Installation, admin: KubeClient, folder: Path
    ) -> None:
        self._cluster = cluster
        self._operator = operator
        self._admin = admin
        self._folder = folder
        self._labels: dict[str, Mapping[str, str]] = {}

    async def prepare(self, count: int) -> None:
        """Creates namespaces, classes and nodes, with nobody left who would work on them.

        The nodes are Ready once and for all: thousands of them kept alive by kwok, and watched over
        by kube-controller-manager, would be most of what is measured.
        """
        for name in (OURS, STOCK, "running"):
            await asyncio.to_thread(self._cluster.create_namespace, name)
        for name in ("kwok", "kube-controller-manager"):
            self._cluster.process(name).stop()
        for row in ROWS:
            body = {
                **{"apiVersion": names.API_VERSION, "kind": names.KIND},
                **{"metadata": {"name": row.key}, "spec": row.spec},
            }
            await self._admin.create(f"/apis/{names.API_VERSION}/{names.PLURAL}", body)
        manifests = [_node(number) for number in range(1, count + 1)]
        self._labels = {m["metadata"]["name"]: m["metadata"]["labels"] for m in manifests}

        async def create(body: Json) -> None:
            await self._admin.create(NODES, body)
            # Admission taints each new node as not ready.
            path = f"{NODES}/{body['metadata']['name']}"
            await self._admin.merge_patch(path, {"spec": {"taints": None}})

        await at_once(manifests, create, CONCURRENCY, NotFound)

    async def run_pods(self, count: int) -> None:
        """Creates pods that run already, dealt out to the nodes, of a few dozen workloads."""
        where = list(self._labels)

        def body(number: int) -> Json:
            labels = {"app": f"old-{number % 50}"}
            metadata = {"name": f"old-{number}", "labels": labels}
            return {"metadata": metadata, "spec": _spec(nodeName=where[number % len(where)])}

        path = "/api/v1/namespaces/running/pods"
        await at_once(
            range(count),
            lambda number: self._admin.create(path, body(number)),
            CONCURRENCY,
            NotFound,
        )

    async def turn(self, row: Row, who: str, count: int) -> Turn:
        """Creates pods while their scheduler is paused, lets it work, and removes them again.

        Raises:
            BenchError: the pods were not placed in time, or not as their class wants it.
        """
        processes = [SCHEDULER, EXTENDER] if who == OURS else [DEFAULT]
        counted, before = await self._counted(who), self._cpu(processes)
        # The extender sees pods as they are created, as anywhere; what that costs it counts.
        scheduler = self._cluster.process(processes[0])
        scheduler.pause()
        await asyncio.to_thread(self._create, row, who, count)
        waiting = asyncio.create_task(self._bound(who, count))
        await asyncio.sleep(0.3)  # for the watch; nobody places pods yet
        began = time.perf_counter()
        scheduler.resume()
        placed, ended = await waiting
        await asyncio.sleep(SETTLE_SECONDS)
        used = {name: now - before[name] for name, now in self._cpu(processes).items()}
        if not row.holds([self._labels[node] for node in placed]):
            raise BenchError(f"{row.title} does not hold for the pods of {who}")
        filters, results = _difference(await self._counted(who), counted)
        rss = {name: self._process(name).memory_info().rss for name in processes}
        await self._remove(who)
        return Turn(count, ended - began, used, rss, filters, results)

    def _create(self, row: Row, who: str, count: int) -> None:
        metadata: Json = {"generateName": f"{row.key}-", "labels": {"app": row.key}}
        spec = _spec(**row.pod_spec)
        if who == OURS:
            metadata["annotations"] = {names.CLASS_KEY: row.key}
            spec = _spec(schedulerName=names.SCHEDULER_NAME)
        body = self._folder / "pod.json"
        body.write_text(json.dumps({"metadata": metadata, "spec": spec}), encoding="utf-8")
        done = subprocess.run(
            [
                program("loadgen"),
                f"-kubeconfig={self._cluster.kubeconfig}",
                f"-body={body}",
                f"-count={count}",
                f"-concurrency={CONCURRENCY}",
                who,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or json.loads(done.stdout)[who]["failed"]:
            raise BenchError(f"pods could not be created: {done.stderr or done.stdout[:500]}")

    async def _bound(self, who: str, count: int, seconds: float = 600) -> tuple[list[str], float]:
        """Waits until all pods have a node; returns the nodes, and when the last one got its."""
        path = f"/api/v1/namespaces/{who}/pods"
        bound = {"fieldSelector": "spec.nodeName!="}
        placed: dict[str, str] = {}

        def take(pod: Json) -> bool:
            placed[pod["metadata"]["name"]] = pod["spec"]["nodeName"]
            return len(placed) == count

        try:
            async with asyncio.timeout(seconds):
                # The API server ends a watch whose reader was held up; then both begin anew.
                while True:
                    version = ""
                    pages = self._admin.list_pages(path, params=bound)
                    async for page, version in pages:  # noqa: B007 - the last page's is used
                        for pod in page:
                            if take(pod):
                                return list(placed.values()), time.perf_counter()
                    watch = self._admin.watch(path, resource_version=version, params=bound)
                    async with aclosing(watch) as events:
                        async for kind, pod in events:
                            if kind != "BOOKMARK" and take(pod):
                                return list(placed.values()), time.perf_counter()
        except TimeoutError:
            error = f"only {len(placed)} of {count} pods of {who} were placed"
            raise BenchError(error) from None

    async def _remove(self, who: str) -> None:
        path = f"/api/v1/namespaces/{who}/pods"
        found = (await self._admin.get(path))["items"]

        # Their grace period is 0, so they are gone at once.
        paths = [f"{path}/{pod['metadata']['name']}" for pod in found]
        await at_once(paths, self._admin.delete, CONCURRENCY, NotFound)
        await asyncio.sleep(SETTLE_SECONDS)

    def _process(self, name: str) -> psutil.Process:
        return psutil.Process(self._cluster.process(name).pid)

    def _cpu(self, processes: Iterable[str]) -> dict[str, float]:
        return {name: sum(self._process(name).cpu_times()[:2]) for name in processes}

    async def _counted(self, who: str) -> tuple[dict[float, float], dict[str, float]]:
        """What the extender counts: times of filter, and results."""
        if who != OURS:
            return {}, {}
        url = f"http://127.0.0.1:{self._operator.probe_port(EXTENDER)}/metrics"
        text = await asyncio.to_thread(_read, url)
        return _buckets(text), _results(text)


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback, http
        return str(answer.read().decode())


def _buckets(text: str) -> dict[float, float]:
    pattern = r'^schedclass_extender_duration_seconds_bucket\{le="([^"]+)",verb="filter"\} (\S+)$'
    return {float(le): float(n) for le, n in re.findall(pattern, text, re.MULTILINE)}


def _results(text: str) -> dict[str, float]:
    found = re.findall(
        r'^schedclass_extender_requests_total\{result="(\w+)",verb="(\w+)"\} (\S+)$', text, re.M
    )
    counted = {f"{verb} {result}": float(n) for result, verb, n in found}
    hints = re.findall(
        r'^schedclass_extender_hints_total\{result="(\w+)"\} (\S+)$', text, re.MULTILINE
    )
    return {**counted, **{f"hint {result}": float(n) for result, n in hints}}


def _difference(
    now: tuple[dict[float, float], dict[str, float]],
    before: tuple[dict[float, float], dict[str, float]],
) -> tuple[dict[float, float], dict[str, float]]:
    filters = {bound: count - before[0].get(bound, 0) for bound, count in now[0].items()}
    results = {what: count - before[1].get(what, 0) for what, count in now[1].items()}
    return filters, {what: count for what, count in results.items() if count}


def _node(number: int) -> Json:
    labels = {POOL: "small"} if number <= SMALL else {}
    node = nodes.node(f"node-{number}", nodes.zone_of(number), labels=labels)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "Bench"}]
    return node


def _spec(**more: Any) -> Json:
    container = {"name": "c", "image": "registry.k8s.io/pause", "resources": {"requests": REQUESTS}}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **more}
