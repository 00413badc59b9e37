"""How long reviews take beside lists and storms of ten thousand namespaces."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

from bench.large_cluster import WEBHOOK, Scale
from bench.report import percentile
from bench.reviews import ReviewStream
from controlplane import Installation
from controlplane.installation import NAMESPACE, RELEASE

RATE = 300.0
"""Reviews a second."""

ANOTHER = "webhook-1"
GOAL_MS = 4.0
_SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-webhook-tls"


async def measure(scale: Scale, folder: Path) -> None:
    """Notes the p99 of reviews beside complete LISTs and beside a storm.

    Both load the machine as well, whoever works for them. So the same LISTs are also made by
    another replica, which tells what of it is the fault of the process that answers.
    """
    _end(scale, _start(scale, folder, 10), "at rest")
    relisting = Installation(scale.cluster, replicas=2, env={"SCHEDCLASS_RESYNC_SECONDS": "2"})
    relisting.start_replica(ANOTHER)
    await _beside_lists(scale, folder, "while another replica lists anew")
    relisting.process(ANOTHER).stop(15)
    relisting.start_replica(WEBHOOK)
    p99 = await _beside_lists(scale, folder, "while it lists anew")
    _note(scale, "during complete re-lists", p99)
    process = scale.operator.start_replica(WEBHOOK)
    await scale.settle(process.pid)
    stream = _start(scale, folder, 15)
    await asyncio.sleep(1)
    await scale.storm(f"class-{scale.classes - 1}")
    still = stream.running
    scale.out.print(f"the storm ended {'before' if still else 'after'} the reviews")
    _note(scale, "during the storm", _end(scale, stream, "during the storm"))


async def _beside_lists(scale: Scale, folder: Path, when: str) -> float:
    before = _lists(scale)
    p99 = _end(scale, _start(scale, folder, 10), when)
    pages = _lists(scale) - before
    if pages < scale.count / 500:
        raise RuntimeError(f"only {pages:g} pages of namespaces were listed meanwhile")
    return p99


def _start(scale: Scale, folder: Path, seconds: float) -> ReviewStream:
    """Starts the stream of reviews to the first webhook replica."""
    return ReviewStream(
        folder,
        port=scale.cluster.port(WEBHOOK),
        ca=base64.b64decode(scale.cluster.admin.get(_SECRET)["data"]["ca.crt"]),
        rate=RATE,
        seconds=seconds,
        to=scale.members[:: max(1, len(scale.members) // 500)],
    )


def _end(scale: Scale, stream: ReviewStream, when: str) -> float:
    """Waits for the stream to end; returns the p99 in ms."""
    sample = stream.latencies()
    median, p99 = (1000 * percentile(sample, part) for part in (0.5, 0.99))
    scale.out.print(f"reviews {when}: {len(sample)}, median {median:.2f} ms, p99 {p99:.2f} ms")
    return p99


def _note(scale: Scale, when: str, p99: float) -> None:
    text = f"p99 of {RATE:g} reviews a second {when}"
    scale.note(text, f"{GOAL_MS:g} ms", f"{p99:.2f} ms", met=p99 <= GOAL_MS)


def _lists(scale: Scale) -> float:
    """How many LISTs of namespaces the API server has answered."""
    text = scale.cluster.admin.text("/metrics")
    pattern = r'^apiserver_request_total\{(?=.*resource="namespaces")(?=.*verb="LIST").*\} (\S+)$'
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))
