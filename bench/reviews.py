"""A steady stream of pod reviews to one replica, as the API server would send them.

The client is a process of its own, so that what else is measured does not disturb its clock. Each
review has its time by the clock; its latency counts from then, so that a stall is felt by all that
wait for it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.subjects import POD
from controlplane.programs import program


class ReviewStream:
    """Runs from its making until its end."""

    def __init__(  # noqa: PLR0913 - what a request is made of, and how many
        self, folder: Path, *, port: int, ca: bytes, rate: float, seconds: float, to: Iterable[str]
    ) -> None:
        """Begins to send.

        Args:
            folder: for the files of the client.
            port: of the replica.
            ca: PEM of the certificate authority of its certificate.
            rate: reviews a second.
            seconds: how long.
            to: namespaces whose pods are reviewed, in turn.
        """
        (folder / "ca.pem").write_bytes(ca)
        lines = (json.dumps(_review(namespace)) for namespace in to)
        (folder / "bodies.jsonl").write_text("\n".join(lines), encoding="utf-8")
        self._answers = folder / "reviews.json"
        # Into a file: nobody reads a pipe while a storm is measured.
        with self._answers.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(program("loadgen"), "reviews"),
                    f"-url=https://127.0.0.1:{port}/mutate-pods",
                    f"-ca={folder / 'ca.pem'}",
                    f"-bodies={folder / 'bodies.jsonl'}",
                    f"-rate={rate}",
                    f"-count={int(rate * seconds)}",
                ],
                stdout=output,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def latencies(self) -> list[float]:
        """Waits for the end; the seconds that each review took, ascending.

        Raises:
            RuntimeError: one failed, or did not pin its pod; standard error says which.
        """
        if self._process.wait():
            raise RuntimeError("the stream of reviews failed, see above")
        return sorted(json.loads(self._answers.read_bytes()))


def _review(namespace: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": f"review-{namespace}",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": namespace,
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": POD,
            "oldObject": None,
            "dryRun": False,
        },
    }
