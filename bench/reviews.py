"""A steady stream of pod reviews to one replica.

Command line: `python -m bench.reviews PORT CA RATE SECONDS NAMESPACE…`.

A process of its own, so that what else is measured does not disturb its clock. Each review has its
time by the clock; its latency counts from then, so that a stall is felt by all that wait for it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import orjson
import uvloop

from bench.subjects import POD

CONNECTIONS = 16
WARM_UP = 50


def body(namespace: str, number: int) -> bytes:
    """An AdmissionReview of a pod, as kube-apiserver sends it."""
    return orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": f"review-{number}",
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "operation": "CREATE",
                "namespace": namespace,
                "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
                "object": POD,
                "oldObject": None,
                "dryRun": False,
            },
        }
    )


async def stream(port: int, ca: str, rate: float, seconds: float, to: Sequence[str]) -> list[float]:
    """Sends reviews and returns the seconds that each took; a failed one raises."""
    context = ssl.create_default_context(cadata=ca)
    connector = aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS)
    latencies: list[float] = []
    url = f"https://127.0.0.1:{port}/mutate-pods"

    async with aiohttp.ClientSession(connector=connector) as session:

        async def review(namespace: str, number: int, due: float) -> None:
            async with session.post(url, data=body(namespace, number)) as answer:
                found = orjson.loads(await answer.read())["response"]
            if not found["allowed"] or "patch" not in found:
                raise RuntimeError(f"the pod of {namespace} was not pinned: {found}")
            if number >= 0:
                latencies.append(time.perf_counter() - due)

        turns = itertools.cycle(to)
        for number in range(WARM_UP):
            await review(next(turns), number - WARM_UP, time.perf_counter())
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(review(next(turns), number, due))
    return latencies


def main(arguments: Sequence[str]) -> None:
    """Prints the latencies as a JSON list."""
    port, ca, rate, seconds, *namespaces = arguments
    pem = Path(ca).read_text(encoding="ascii")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(stream(int(port), pem, float(rate), float(seconds), namespaces))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
