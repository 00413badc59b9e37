"""Pods created at a steady rate beside what a test does meanwhile."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from controlplane import Api
from tests.cluster.objects import Json, pod, pods_path


class PodStream:
    """Creates pods while it is entered; afterwards `created` and `refused` tell how it went."""

    def __init__(self, api: Api, namespace: str, *, per_second: float) -> None:
        self.created: list[Json] = []
        self.refused: list[Exception] = []
        self._api = api
        self._path = pods_path(namespace)
        self._pause = 1 / per_second
        self._stop = threading.Event()
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

    def wait(self, more: int, *, seconds: float = 30) -> None:
        """Lets so many further pods be created or refused."""
        target = len(self.created) + len(self.refused) + more
        deadline = time.monotonic() + seconds
        while len(self.created) + len(self.refused) < target:
            assert time.monotonic() < deadline, f"{more} pods take longer than {seconds} s"
            time.sleep(self._pause)

    def _run(self) -> None:
        futures: list[Future[None]] = []
        with ThreadPoolExecutor(16) as pool:
            due = time.monotonic()
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                futures.append(pool.submit(self._create, len(futures)))
                due += self._pause
        for future in futures:
            future.result()

    def _create(self, number: int) -> None:
        try:
            self.created.append(self._api.create(self._path, pod(f"p{number}")))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.refused.append(error)
