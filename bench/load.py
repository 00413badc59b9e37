"""Load on the API server, and what the processes spend meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.subjects import POD, Subject, is_right
from controlplane import Cluster
from controlplane.programs import program

COMPONENTS = ("kube-apiserver", "etcd", "webhook-service")


class BenchError(RuntimeError):
    """The figures would mean nothing; the message says why."""


async def at_once(
    items: Iterable[Any],
    work: Callable[[Any], Awaitable[Any]],
    concurrency: int,
    done: type[Exception],
) -> None:
    """Works on all items, so many at a time; where `done` is raised, others were faster."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            try:
                await work(item)
            except done:
                continue

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


@dataclass(frozen=True)
class Outcome:
    """What became of the requests in one namespace: all of them created a pod.

    Attributes:
        seconds: from the first request to the last answer.
        latencies: seconds of each request.
        wrong: how many pods are not pinned as they should be, because the API server gave up on
            the webhook. They were cheap, so with many of them the other figures mean little.
    """

    seconds: float
    latencies: tuple[float, ...]
    wrong: int

    @property
    def per_second(self) -> float:
        """Pods created each second."""
        return len(self.latencies) / self.seconds


class LoadGenerator:
    """Creates pods in the namespaces of subjects, looks at each and removes them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Writes the pod to a file in `folder`."""
        self._cluster = cluster
        self._body = folder / "pod.json"
        self._body.write_text(json.dumps(POD), encoding="utf-8")

    def saturate(
        self,
        subject: Subject,
        count: int,
        concurrency: int,
        created: Callable[[], object] = lambda: None,
    ) -> Outcome:
        """Creates pods as fast as they are taken.

        Args:
            subject: whose pods.
            count: how many.
            concurrency: how many requests are in flight.
            created: called when the pods are there, before they are checked and removed.
        """
        arguments = [f"-count={count}", f"-concurrency={concurrency}"]
        return self._run(arguments, [subject], count, created)[subject.key]

    def pace(
        self, subjects: Sequence[Subject], count: int, rate: float, turn: int
    ) -> dict[str, Outcome]:
        """Creates `count` pods for each subject, `rate` a second in all, started by the clock.

        Args:
            subjects: who take turns.
            count: pods for each; a multiple of `turn`.
            rate: pods a second.
            turn: pods for one subject before it is the next one's turn.
        """
        return self._run([f"-count={count}", f"-rate={rate}", f"-turn={turn}"], subjects, count)

    def _run(
        self,
        arguments: Iterable[str],
        subjects: Sequence[Subject],
        count: int,
        created: Callable[[], object] = lambda: None,
    ) -> dict[str, Outcome]:
        done = subprocess.run(
            [
                program("loadgen"),
                f"-kubeconfig={self._cluster.kubeconfig}",
                f"-body={self._body}",
                *arguments,
                *(subject.namespace for subject in subjects),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"the load generator failed: {done.stderr.strip()}")
        created()
        answer = json.loads(done.stdout)
        return {subject.key: self._outcome(subject, answer, count) for subject in subjects}

    def _outcome(self, subject: Subject, answer: Mapping[str, Any], count: int) -> Outcome:
        found = answer[subject.namespace]
        if found["failed"]:
            raise BenchError(
                f"{found['failed']} pods of {subject.namespace} could not be created, the first "
                f"one because of {found['error']}"
            )
        path = f"/api/v1/namespaces/{subject.namespace}/pods"
        pods = self._cluster.admin.get(path)["items"]
        if len(pods) != count:
            raise BenchError(f"{subject.namespace} has {len(pods)} pods instead of {count}")
        self._cluster.admin.request("DELETE", path, timeout=120)
        wrong = sum(not is_right(subject, pod) for pod in pods)
        return Outcome(found["seconds"], tuple(found["latencies"]), wrong)


class CpuMeter:
    """CPU seconds that processes of the run use from now on until `stop`.

    Attributes:
        used: CPU seconds by process, the webhook's replicas together; empty before `stop`.
    """

    def __init__(self, cluster: Cluster, webhooks: Sequence[str]) -> None:
        """Begins to measure the API server and its helpers, and these webhook replicas."""
        self.used: dict[str, float] = {}
        self._groups = {name: [cluster.process(name)] for name in COMPONENTS}
        self._groups["webhook"] = [cluster.process(name) for name in webhooks]
        self._before = self._now()

    def stop(self) -> None:
        """Ends the measurement."""
        self.used = {name: now - self._before[name] for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {
            name: sum(cpu_seconds(process.pid) for process in processes)
            for name, processes in self._groups.items()
        }


def cpu_seconds(pid: int) -> float:
    """CPU seconds that a process has used so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def memory(cluster: Cluster, webhooks: Sequence[str]) -> int:
    """Resident bytes of the largest webhook replica."""
    pids = [cluster.process(name).pid for name in webhooks]
    return max(int(psutil.Process(pid).memory_info().rss) for pid in pids)
