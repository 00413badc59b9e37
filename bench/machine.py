"""What the figures depend on besides the code: the machine, and who else uses it."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import psutil

from controlplane import Cluster
from controlplane.processes import recorded
from controlplane.programs import KUBERNETES


def facts() -> dict[str, str | int | float]:
    """Returns machine and versions, for people who compare figures."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kubernetes": KUBERNETES,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


QUIET_CORES = 0.1
"""With more than this used by others, latencies say more about them than about admission."""


class ForeignLoad:
    """How many cores others kept busy while a control plane was measured."""

    def __init__(self, cluster: Cluster) -> None:
        """Begins to measure; processes of `cluster`, and this one, are no others."""
        self._cluster = cluster
        self._before = self._now()

    def cores(self) -> float:
        """Cores that others, or the host of a virtual machine, used on average since the start."""
        busy, wall = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return max(busy, 0.0) / wall

    def _now(self) -> tuple[float, float]:
        """CPU seconds of others, and seconds by the clock."""
        machine = psutil.cpu_times()
        busy = sum(machine) - machine.idle - machine.iowait - machine.guest - machine.guest_nice
        pids = [self._cluster.process(name).pid for name in recorded(self._cluster.folder)]
        own = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)
        return busy - own - sum(psutil.Process().cpu_times()[:4]), time.monotonic()
