"""Pods created at a steady rate beside what a test does meanwhile."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from controlplane import Api
from controlplane.waiting import PATIENCE_SECONDS
from tests.cluster.objects import Json, pod, pods_path

IN_FLIGHT = 16


class PodStream:
    """Creates pods while it is entered.

    Attributes:
        created: the pods as stored.
        refused: by name of a pod, what went wrong instead.
        asked: by name of a pod, the monotonic seconds of its request and of its answer.
    """

    def __init__(self, api: Api, namespace: str, *, per_second: float) -> None:
        self.created: list[Json] = []
        self.refused: dict[str, Exception] = {}
        self.asked: dict[str, tuple[float, float]] = {}
        self._api = api
        self._path = pods_path(namespace)
        self._pause = 1 / per_second
        self._stop = threading.Event()
        self._free = threading.Semaphore(IN_FLIGHT)
        self._clock = threading.Thread(target=self._run, name=f"pods of {namespace}")

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._clock.join()

    def wait(self, more: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Lets so many further pods be created or refused."""
        target = len(self.created) + len(self.refused) + more
        deadline = time.monotonic() + seconds
        while len(self.created) + len(self.refused) < target:
            assert time.monotonic() < deadline, f"{more} pods take longer than {seconds} s"
            time.sleep(self._pause)

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                self._free.acquire()  # a slow server slows the stream down
                pool.submit(self._create, number)
                number += 1
                due = max(due + self._pause, time.monotonic())

    def _create(self, number: int) -> None:
        name = f"p{number}"
        began = time.monotonic()
        try:
            self.created.append(self._api.create(self._path, pod(name)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.refused[name] = error
        finally:
            self.asked[name] = (began, time.monotonic())
            self._free.release()
