"""Pods created at a steady rate, each attempt recorded, each stored pod looked at afterwards."""

import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from controlplane import Api, ApiError, eventually
from controlplane.waiting import PATIENCE_SECONDS
from schedclass.domain import names
from tests.cluster.objects import Json, annotations, pod, pods_path

BY_ADMISSION = ("denied the request", "denied request", "failed calling webhook")
"""What the API server says when admission refused: a webhook, a policy, or a webhook's silence."""

IN_FLIGHT = 30
"""How many pods are being created, or tried again, at a time."""

TRIED_SECONDS = 300
"""How long one pod is tried again; whoever creates pods does so for ever, as a ReplicaSet."""


class Load:
    """Creates pods in turn in several namespaces while it is entered.

    Attributes:
        refused: attempts that admission refused, by namespace.
        unanswered: attempts without an answer, or answered with a failure of the API server.
        given_up: pods that could not be created at all.
        messages: what the refusals said.
    """

    def __init__(self, api: Api, namespaces: Sequence[str], *, per_second: float) -> None:
        self.refused: Counter[str] = Counter()
        self.unanswered: Counter[str] = Counter()
        self.given_up: list[str] = []
        self.messages: Counter[str] = Counter()
        self.done = 0
        self._api = api
        self._namespaces = namespaces
        self._pause = 1 / per_second
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._free = threading.Semaphore(IN_FLIGHT)
        self._clock = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:  # nobody will look at the result any more
            self._abandoned.set()
        self._stop.set()
        self._clock.join()

    def wait(self, more: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Lets so many further pods be created."""
        target = self.done + more
        eventually(f"{more} more pods", lambda: self.done >= target, seconds=seconds)

    def stored(self, namespace: str) -> list[Json]:
        """What has become of the pods of a namespace, whatever the answers said."""
        return list(self._api.get(pods_path(namespace))["items"])

    def _run(self) -> None:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            due = time.monotonic()
            futures = []
            for number, namespace in enumerate(itertools.cycle(self._namespaces)):
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    break
                self._free.acquire()  # a slow server slows the load down, or it would drown
                futures.append(pool.submit(self._create, namespace, f"p{number}"))
                due = max(due + self._pause, time.monotonic() - 1)  # no burst after a pause
        for future in futures:
            future.result()

    def _create(self, namespace: str, name: str) -> None:
        try:
            self._create_in_time(namespace, name)
        finally:
            self._free.release()

    def _create_in_time(self, namespace: str, name: str) -> None:
        deadline = time.monotonic() + TRIED_SECONDS
        pause = 0.2
        while time.monotonic() < deadline:
            if self._attempt(namespace, name):
                self.done += 1
                return
            if self._abandoned.wait(pause):
                break
            pause = min(pause * 2, 2)
        self.given_up.append(f"{namespace}/{name}")

    def _attempt(self, namespace: str, name: str) -> bool:
        try:
            self._api.request("POST", pods_path(namespace), pod(name), timeout=15)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return True  # an earlier attempt whose answer was lost
            text = str(error)
            if any(sign in text for sign in BY_ADMISSION):
                self.refused[namespace] += 1
                self.messages[text.partition(": ")[2].replace(name, "NAME")] += 1
            else:
                self.unanswered[namespace] += 1
        except (OSError, http.client.HTTPException):
            self.unanswered[namespace] += 1
        else:
            return True
        return False


def is_pinned(stored: Json) -> bool:
    """Whether our scheduler and a class are on a pod."""
    scheduler = stored["spec"].get("schedulerName")
    return scheduler == names.SCHEDULER_NAME and bool(annotations(stored).get(names.CLASS_KEY))
