"""Looks at once for the pods that run in a namespace when a class comes to it.

Those of other schedulers are not watched (see compliance.py), and the next search for them may be
minutes away. Until it is known what runs there, nothing is said of how the class is kept.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn

from schedclass.domain.compliance import ObservedPod
from schedclass.domain.grouped import discard
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.delays import Delays
from schedclass.kube.errors import KubeError
from schedclass.kube.store import Store

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Namespaces that are listed at the same time; thousands may get a class at once."""

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0


class Adoptions:
    """The namespaces that a class came to, and whose pods are to be listed yet."""

    def __init__(
        self,
        client: KubeClient,
        pods: Store[ObservedPod],
        *,
        params: Mapping[str, Any],
        on_seen: Callable[[str], None],
    ) -> None:
        """Nothing is requested before `run`.

        Args:
            client: who asks.
            pods: what the pods are put into.
            params: which pods, as query parameters of a LIST.
            on_seen: told each class of which all pods are known again.
        """
        self._client = client
        self._pods = pods
        self._params = params
        self._on_seen = on_seen
        self._open: dict[str, str] = {}
        self._by_class: dict[str, set[str]] = {}
        self._wake = asyncio.Event()

    def __contains__(self, namespace: str) -> bool:
        """Whether the pods of a namespace are to be listed yet."""
        return namespace in self._open

    def awaits(self, class_name: str) -> bool:
        """Whether pods of a class may be unknown."""
        return class_name in self._by_class

    def note(self, namespace: str, class_name: str) -> None:
        """A class came to a namespace."""
        self.drop(namespace)
        self._open[namespace] = class_name
        self._by_class.setdefault(class_name, set()).add(namespace)
        self._wake.set()

    def drop(self, namespace: str) -> None:
        """The namespace is known, gone, or without a class again."""
        class_name = self._open.pop(namespace, None)
        if class_name is not None:
            discard(self._by_class, class_name, namespace)
            if not self.awaits(class_name):
                self._on_seen(class_name)

    async def run(self) -> NoReturn:
        """List until cancelled; what cannot be listed stays open and is tried again."""
        delays = Delays(FIRST_DELAY, LONGEST_DELAY)
        while True:
            await self._wake.wait()
            some = list(self._open)[:AT_ONCE]
            if not some:
                self._wake.clear()
                continue
            try:
                await asyncio.gather(*(self._look(namespace) for namespace in some))
            except KubeError as error:
                logger.warning("pods that a class came to cannot be listed yet: %s", error)
                await asyncio.sleep(delays.next())
            else:
                delays.reset()

    async def _look(self, namespace: str) -> None:
        path = resource_path("v1", "pods", namespace=namespace)
        async with aclosing(self._client.list_pages(path, params=self._params)) as pages:
            async for page, _ in pages:
                for pod in page:
                    self._pods.apply("ADDED", pod)
        self.drop(namespace)
