"""The few reads that admission makes itself, for what the watches have not delivered yet.

Both are off the hot path: a namespace that is known and a class that exists cost no request.

Names come from labels, annotations and ownerReferences, which tenants write, so nothing is asked
about a name that no object can have: in a path it could lead to another object.
"""

import asyncio
from collections.abc import Awaitable, Callable

from schedclass.domain.admission import ClassState, ClassView
from schedclass.domain.inheritance import Effective
from schedclass.domain.label_syntax import why_not_dns_label, why_not_dns_subdomain
from schedclass.domain.namespaces import Namespace
from schedclass.domain.tree import parent_candidates
from schedclass.kube.absences import ConfirmedAbsences
from schedclass.kube.client import KubeClient
from schedclass.kube.errors import ApiError, NotFound, Unreachable
from schedclass.kube.state import CLASSES_PATH, NAMESPACES_PATH, ClusterState

DEEPEST = 64
"""Namespace names have at most 63 characters, so no chain by name is longer."""


class Undecided(Exception):  # noqa: N818 - a state, not a fault
    """What the answer rests on is not known; the message says what."""


class LiveReader:
    """Completes the state of the cluster by single GETs, each bounded and shared."""

    def __init__(self, state: ClusterState, client: KubeClient, *, seconds: float) -> None:
        """`seconds` bounds each GET."""
        self._state = state
        self._client = client
        self._seconds = seconds
        self._running: dict[str, asyncio.Task[None]] = {}
        self._absent = ConfirmedAbsences()

    async def effective(self, namespace: str) -> Effective:
        """The class that applies to a namespace, also to one created a moment ago.

        Raises:
            Undecided: the namespaces are not listed yet, or the API server did not answer.
        """
        if not self._state.namespaces.synced:
            raise Undecided("the namespaces have not been listed yet")
        known = self._state.effective(namespace)
        if known is not None:
            return known
        await self._shared(namespace, lambda: self._read_chain(namespace))
        return self._state.effective(namespace) or Effective()

    async def class_view(self, name: str | None) -> ClassView:
        """The class of that name; absent only when the API server itself says so."""
        if name is None:
            return ClassView(ClassState.ABSENT)
        view = self._state.view_class(name)
        if view.state is ClassState.EXISTS:
            return view
        if why_not_dns_subdomain(name):
            return ClassView(ClassState.ABSENT)
        if view.state is ClassState.UNKNOWN or self._absent.believed(name):
            return view
        try:
            await self._shared(f"class {name}", lambda: self._read_class(name))
        except Undecided:
            return ClassView(ClassState.UNKNOWN)
        return self._state.view_class(name)

    async def _shared(self, key: str, read: Callable[[], Awaitable[None]]) -> None:
        """Let requests that come together wait for one read; a cancelled one harms no other."""
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(_as_coroutine(read))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    async def _read_class(self, name: str) -> None:
        found = await self._get(CLASSES_PATH, name)
        if found is not None:
            self._state.classes.apply("MODIFIED", found)
            return
        self._absent.note(name)

    async def _read_chain(self, namespace: str) -> None:
        """Read a namespace and those of its possible parents that are not known."""
        waiting = [namespace]
        for _ in range(DEEPEST):
            if not waiting:
                return
            name = waiting.pop()
            if self._state.tree.get(name) is None and not await self._read_namespace(name):
                continue
            ns = self._state.tree.get(name)
            if ns is not None:
                waiting.extend(self._unknown_parents(ns))

    async def _read_namespace(self, name: str) -> bool:
        if why_not_dns_label(name):
            return False
        found = await self._get(NAMESPACES_PATH, name)
        if found is None:
            return False
        self._state.namespaces.apply("MODIFIED", found)
        if self._state.tree.get(name) is None:
            raise Undecided(f"namespace {name} was read, but contradicts what is known of it")
        return True

    def _unknown_parents(self, ns: Namespace) -> list[str]:
        tree = self._state.tree
        if ns.owners:
            return [owner.name for owner in ns.owners if not tree.has_uid(owner.uid)]
        unknown: list[str] = []
        for candidate in parent_candidates(ns.name):
            if tree.get(candidate) is not None:
                break
            unknown.append(candidate)
        return unknown

    async def _get(self, collection: str, name: str) -> dict[str, object] | None:
        path = f"{collection}/{name}"
        try:
            found = await self._client.get(path, timeout=self._seconds)
        except NotFound as error:
            if error.object_absent:
                return None
            raise Undecided(f"{path} is not served at the moment") from error
        except (ApiError, Unreachable) as error:
            raise Undecided(f"{path} could not be read: {error}") from error
        metadata = found.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != name:
            raise Undecided(f"{path} was answered with another object")
        return found


async def _as_coroutine(read: Callable[[], Awaitable[None]]) -> None:
    await read()
