"""Writes the effective class onto namespaces, level-triggered, one namespace at a time."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from schedclass.controller.bindings import Bindings
from schedclass.controller.workqueue import WorkQueue
from schedclass.domain import names
from schedclass.domain.admission import class_not_found
from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.inheritance import (
    Effective,
    NamespaceKeys,
    desired_keys,
    effective_class,
    findings,
    inherited_finding,
    merge_patch,
)
from schedclass.domain.namespaces import Namespace
from schedclass.kube.absences import ConfirmedAbsences
from schedclass.kube.client import KubeClient
from schedclass.kube.delays import doubled
from schedclass.kube.errors import ApiError, NotFound
from schedclass.kube.events import EventRecorder, namespace_reference
from schedclass.kube.state import CLASSES_PATH, NAMESPACES_PATH, ClusterState

logger = logging.getLogger(__name__)

CONTROLLER = "inheritance"
"""Its name in metrics and log lines."""

FIRST_HOLD = 1.0
LONGEST_HOLD = 300.0
FORGET_AFTER = 900.0
PRIMED_AT_ONCE = 500

ANNOTATIONS_REFUSED = Finding(
    Reason.ANNOTATIONS_REFUSED,
    "the API server refuses the annotations that say where the scheduling class comes from, as it "
    "does where all annotations together exceed 256 KiB; take some off the namespace",
    Severity.ERROR,
)


@dataclass
class _Contest:
    """How often another writer undid what we wrote on one namespace."""

    desired: NamespaceKeys
    written_at: float
    times: int = 0
    finding: Finding | None = None

    def hold_until(self) -> float:
        """When to write again: at once the first time, then after growing pauses."""
        if self.times == 0:
            return 0.0
        return self.written_at + doubled(FIRST_HOLD, self.times - 1, longest=LONGEST_HOLD)


class InheritanceController:
    """Brings the keys of each namespace to what the tree says.

    Every write is a merge patch of single keys with the resourceVersion that the decision rests on,
    so a wish written in between is never lost: the API server answers 409 and we look again.
    """

    def __init__(  # noqa: PLR0913 - what the classes follow from, and who is told
        self,
        state: ClusterState,
        bindings: Bindings,
        client: KubeClient,
        recorder: EventRecorder,
        *,
        on_class_use: Callable[[frozenset[str]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is requested before `prime` or `reconcile`.

        Args:
            state: namespaces and classes; fed by others.
            bindings: where the effective class of each namespace is noted.
            client: who writes.
            recorder: who is told of namespaces.
            on_class_use: told the names of the classes whose namespaces changed.
            clock: monotonic seconds.
        """
        self._state = state
        self._bindings = bindings
        self._client = client
        self._recorder = recorder
        self._on_class_use = on_class_use
        self._clock = clock
        self._contests: dict[str, _Contest] = {}
        self._told: dict[str, tuple[Finding, ...]] = {}
        self._absent = ConfirmedAbsences(clock)
        self.queue = WorkQueue(self._root_of)
        state.on_affected = self.queue.add_all
        state.classes.on_change(self._class_changed)

    async def prime(self) -> None:
        """Find out which class each namespace is bound to, and ask for each to be looked at.

        What counts the namespaces of a class must wait for this: before it, none are known.
        """
        for number, ns in enumerate(list(self._state.tree)):
            self._bind(ns.name, effective_class(self._state.tree, ns).class_name)
            if number % PRIMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.mark_all()

    def mark_all(self) -> None:
        """Ask for every namespace to be looked at."""
        self.queue.add_all(ns.name for ns in self._state.tree)

    async def reconcile(self, name: str) -> None:
        """Bring one namespace to its desired state.

        Raises:
            ApiError, Unreachable: from the patch; the caller tries again.
        """
        ns = self._state.tree.get(name)
        if ns is None:
            self._forget(name)
            return
        effective = effective_class(self._state.tree, ns)
        self._bind(name, effective.class_name)
        if ns.deleting or name in self._state.tree.excluded:
            self._tell(ns, effective, exists=None)
            return
        exists = await self._class_exists(effective.class_name)
        self._tell(ns, effective, exists=exists)
        desired = desired_keys(ns, effective, class_exists=exists)
        self._drop_contest_over_another_class(name, desired)
        changes = merge_patch(NamespaceKeys.of(ns), desired)
        if not changes:
            return
        if (pause := self._hold(name, desired)) > 0:
            self.queue.add_after(name, pause)
            return
        await self._write(ns, effective, desired, changes)

    async def _class_exists(self, name: str | None) -> bool | None:
        """Whether a class exists; None when that is not known.

        Classes and namespaces come by different watches, so a class that the webhook has seen may
        not be known here yet. Protection is taken off, and people are told, only where the API
        server itself says that the class is absent; once a second, however many namespaces ask.
        """
        exists = self._state.class_exists(name)
        if name is None or exists is not False:
            return exists
        if self._absent.believed(name):
            return False
        selector = {"fieldSelector": f"metadata.name={name}"}
        try:
            found = (await self._client.get(CLASSES_PATH, params=selector)).get("items") or []
        except NotFound:
            found = []  # not even the kind is served
        if found:
            self._state.classes.apply("MODIFIED", found[0])
            return True
        self._absent.note(name)
        return False

    def _root_of(self, name: str) -> str:
        ns = self._state.tree.get(name)
        if ns is None:
            return name
        # Below the one root of all tenants, each first-level tenant takes its own turns.
        chain = [name, *(ancestor.name for ancestor in self._state.tree.ancestors(ns))]
        return chain[-2] if len(chain) > 1 else name

    def _class_changed(self, name: str, old: object, new: object) -> None:
        if (old is None) != (new is None):
            self.queue.add_all(self._bindings.namespaces_of(name))

    def _bind(self, name: str, class_name: str | None) -> None:
        if changed := self._bindings.bind(name, class_name):
            self._on_class_use(changed)

    def _forget(self, name: str) -> None:
        self._contests.pop(name, None)
        self._told.pop(name, None)
        self._bind(name, None)

    def _tell(self, ns: Namespace, effective: Effective, *, exists: bool | None) -> None:
        """Events for what is new about the namespace, not for each look at it."""
        found = findings(self._state.tree, ns, effective)
        if exists is False and effective.origin == ns.name:  # once, not below it as well
            found += (class_not_found(effective, ns.name),)
        fresh = [finding for finding in found if finding not in self._told.get(ns.name, ())]
        if found:
            self._told[ns.name] = found
        else:
            self._told.pop(ns.name, None)
        for finding in fresh:
            self._recorder.emit(namespace_reference(ns.name, ns.uid), finding)

    def _drop_contest_over_another_class(self, name: str, desired: NamespaceKeys) -> None:
        """Whoever writes what is wanted now undid nothing, even if it was not us who wrote it."""
        contest = self._contests.get(name)
        if contest is not None and contest.desired.label != desired.label:
            del self._contests[name]

    def _hold(self, name: str, desired: NamespaceKeys) -> float:
        """Seconds to wait before writing, because another writer keeps undoing the same write."""
        contest = self._contests.get(name)
        now = self._clock()
        if contest is None or contest.desired != desired:
            return 0.0
        if now - contest.written_at > FORGET_AFTER:
            del self._contests[name]
            return 0.0
        return max(0.0, contest.hold_until() - now)

    async def _write(
        self,
        ns: Namespace,
        effective: Effective,
        desired: NamespaceKeys,
        changes: dict[str, Any],
    ) -> None:
        contest = self._contests.get(ns.name)
        if contest is not None and contest.desired == desired and contest.times > 0:
            # Said in the same words each time, so that it stays one Event.
            path = f"{NAMESPACES_PATH}/{ns.name}"
            contest.finding = contest.finding or contested(await self._client.get(path))
            self._recorder.emit(namespace_reference(ns.name, ns.uid), contest.finding)
        try:
            await self._patch(ns, changes)
        except ApiError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "annotations" in changes:
                await self._protect_at_least(ns, changes)
            raise
        logger.info(
            "namespace %s: %s",
            ns.name,
            f"class {effective.class_name} from {effective.origin}"
            if effective.class_name
            else "no class",
            extra={
                "controller": CONTROLLER,
                "k8s": namespace_reference(ns.name, ns.uid).fields(),
                "class": effective.class_name,
            },
        )
        self._note_contest(ns, desired)
        if desired.inherited_from is not None and ns.inherited_from != desired.inherited_from:
            self._recorder.emit(namespace_reference(ns.name, ns.uid), inherited_finding(effective))

    async def _patch(self, ns: Namespace, changes: Mapping[str, Any]) -> None:
        body = {"metadata": {**changes, "resourceVersion": ns.resource_version}}
        answer = await self._client.merge_patch(f"{NAMESPACES_PATH}/{ns.name}", body)
        self._state.namespaces.apply("MODIFIED", answer)

    async def _protect_at_least(self, ns: Namespace, changes: Mapping[str, Any]) -> None:
        """The labels alone: a namespace full of annotations must not stay without its policies."""
        self._recorder.emit(namespace_reference(ns.name, ns.uid), ANNOTATIONS_REFUSED)
        if "labels" in changes:
            await self._patch(ns, {"labels": changes["labels"]})

    def _note_contest(self, ns: Namespace, desired: NamespaceKeys) -> None:
        contest = self._contests.get(ns.name)
        if contest is None or contest.desired != desired:
            self._contests[ns.name] = _Contest(desired, self._clock())
        else:
            contest.times += 1
            contest.written_at = self._clock()


def contested(namespace: dict[str, Any]) -> Finding:
    """The finding about a namespace whose keys another writer keeps changing back.

    Args:
        namespace: the whole object as that writer left it. Its managedFields (KEP-555) name who
            owns our keys; one who removed them owns nothing of them, but wrote last.
    """
    entries = [
        entry
        for entry in namespace.get("metadata", {}).get("managedFields") or []
        if entry.get("manager") != names.FIELD_MANAGER
    ]
    owners = sorted({entry["manager"] for entry in entries if _owns_class_label(entry)})
    latest = max((entry.get("time") or "" for entry in entries), default="")
    last = {entry["manager"] for entry in entries if (entry.get("time") or "") == latest}
    who = " or ".join(owners or sorted(last)) or "another writer"
    message = (
        f"{who} keeps changing the scheduling class back; let it ignore the label "
        f"{names.CLASS_KEY}, or set the class where the tenant is defined"
    )
    return Finding(Reason.LABEL_CONTESTED, message)


def _owns_class_label(entry: dict[str, Any]) -> bool:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{names.CLASS_KEY}" in (metadata.get("f:labels") or {})
