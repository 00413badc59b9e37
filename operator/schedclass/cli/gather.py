"""A snapshot of a running cluster, in pages; nothing is ever written to it."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from schedclass.cli.kubeconfig import choose
from schedclass.cli.options import Common
from schedclass.cli.problems import CliError
from schedclass.cli.progress import Progress
from schedclass.cli.screen import tell
from schedclass.cli.unreachable import ssl_reason, why_unreachable
from schedclass.domain import names
from schedclass.domain.insight.assembly import DEFAULT_NAMESPACE, Assembly, MalformedObject
from schedclass.domain.insight.snapshot import Part, PodRecord, Snapshot, Workload
from schedclass.domain.rawjson import mapping_or_empty, mappings_in
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.credentials import Source
from schedclass.kube.errors import (
    ApiError,
    ConfigurationError,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
    Unreachable,
)

T = TypeVar("T")

WEBHOOKS_PATH: Final = resource_path(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"
)
EVENTS_SHOWN: Final = 5

ATTEMPTS: Final = 3
"""How often a LIST is begun that the server could not end consistently (410 between pages)."""


@dataclass(frozen=True, slots=True)
class _Resource:
    """One collection that a part is read from."""

    part: Part
    api_version: str
    plural: str
    kind: str
    namespaced: bool = False
    metadata_only: bool = False

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        return resource_path(self.api_version, self.plural, namespace=namespace, name=name)


RESOURCES: Final = (
    _Resource(Part.NODES, "v1", "nodes", "Node"),
    _Resource(Part.NAMESPACES, "v1", "namespaces", "Namespace", metadata_only=True),
    _Resource(Part.TENANTS, names.TENANT_API_VERSION, "tenants", "Tenant", namespaced=True),
    _Resource(Part.CLASSES, names.API_VERSION, names.PLURAL, names.KIND),
    _Resource(Part.PODS, "v1", "pods", "Pod", namespaced=True),
    _Resource(Part.WORKLOADS, "apps/v1", "deployments", "Deployment", namespaced=True),
    _Resource(Part.WORKLOADS, "apps/v1", "statefulsets", "StatefulSet", namespaced=True),
    _Resource(Part.WORKLOADS, "apps/v1", "replicasets", "ReplicaSet", namespaced=True),
    _Resource(Part.WORKLOADS, "apps/v1", "daemonsets", "DaemonSet", namespaced=True),
    _Resource(Part.WORKLOADS, "batch/v1", "jobs", "Job", namespaced=True),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the cluster.

    Attributes:
        source: of credentials.
        namespace: of the context, `default` where it names none.
        context: for messages; empty where the account of a pod is used.
    """

    source: Source
    namespace: str
    context: str = ""


def connection(common: Common) -> Connection:
    """Choose kubeconfig, context and namespace as kubectl does.

    Raises:
        CliError: the kubeconfig cannot be read.
    """
    chosen = choose(common)
    namespace = common.namespace or chosen.namespace or DEFAULT_NAMESPACE
    return Connection(chosen.source, namespace, chosen.context)


def gather_snapshot(common: Common, parts: Collection[Part]) -> Snapshot:
    """Read what is needed of a cluster.

    What the user may not read, and what the API server does not serve, is left unknown with one
    sentence; of a namespaced kind that may not be read everywhere, the user's own namespace is.

    Args:
        common: the options.
        parts: what is needed.

    Raises:
        CliError: there is no cluster to be reached, or it answers nonsense; one sentence.
    """
    reached = connection(common)
    return ask(reached, lambda client: Gathering(client, reached, parts).run())


def ask(
    reached: Connection,
    question: Callable[[KubeClient], Awaitable[T]],
    let: tuple[type[ApiError], ...] = (),
) -> T:
    """Run one conversation with the API server.

    Args:
        reached: how to reach it.
        question: what is asked; called once.
        let: refusals that the caller deals with.

    Raises:
        CliError: it cannot be held; one sentence with the server's address.
    """

    async def talk() -> T:
        async with await KubeClient.load(role="cli", source=reached.source) as client:
            try:
                return await question(client)
            except Unreachable as error:
                raise CliError(why_unreachable(client.server, error)) from error
            except Unauthorized as error:
                raise CliError(
                    f"the API server {client.server} does not accept the credentials of {whose}; "
                    "log in again, or choose another with --context or --kubeconfig"
                ) from error
            except ApiError as error:
                if isinstance(error, let):
                    raise
                raise CliError(
                    f"the API server {client.server} refuses: {error.message} ({error.path})"
                ) from error

    whose = f"context {reached.context}" if reached.context else "this pod's account"
    try:
        return asyncio.run(talk())
    except ConfigurationError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.filename:
            what = f"{cause.filename}: {cause.strerror}"
            raise CliError(f"cannot read the cluster's credentials: {what}") from error
        raise CliError(str(error)) from error
    except ssl.SSLError as error:  # before anything is sent
        raise CliError(
            f"the certificates of {whose} cannot be used: {ssl_reason(error)}; see "
            "certificate-authority and client-certificate in kubeconfig"
        ) from error


@dataclass(slots=True)
class Gathering:
    """One reading of a cluster; see `gather_snapshot`."""

    client: KubeClient
    reached: Connection
    parts: Collection[Part]
    assembly: Assembly = field(default_factory=Assembly)
    unknown: dict[Part, str] = field(default_factory=dict)

    async def run(self) -> Snapshot:
        """Read the parts one after the other.

        Raises:
            ApiError: a refusal other than 403 and 404; `Unreachable`: no answer.
        """
        wanted = [resource for resource in RESOURCES if resource.part in self.parts]
        with Progress("reading the cluster") as progress:
            for resource in wanted:  # one after the other: memory holds one page at a time
                progress.begin(resource.plural)
                await self._read(resource, progress)
        for note in self.assembly.notes:
            tell("note", note)
        try:
            snapshot = self.assembly.finish(self.unknown, self.client.server)
        except MalformedObject as error:
            raise _unreadable(error) from error
        return replace(snapshot, operator_namespace=await self._operator_namespace())

    async def _operator_namespace(self) -> str:
        """Where the API server finds the operator's webhook; empty for who may not read that."""
        try:
            async for items, _ in self.client.list_pages(WEBHOOKS_PATH):
                for item in items:
                    for webhook in mappings_in(item.get("webhooks")):
                        if webhook.get("name") == names.POD_WEBHOOK:
                            reached = mapping_or_empty(webhook.get("clientConfig"))
                            service = mapping_or_empty(reached.get("service"))
                            return str(service.get("namespace") or "")
        except (Forbidden, NotFound, Gone):
            pass
        return ""

    async def _read(self, resource: _Resource, progress: Progress) -> None:
        try:
            await self._list(resource, None, progress)
        except NotFound:
            self._not_served(resource)
        except Forbidden:
            await self._read_own(resource, progress)

    def _not_served(self, resource: _Resource) -> None:
        if resource.part is Part.CLASSES:
            self.unknown[resource.part] = (
                f"the API server does not serve {names.PLURAL}.{names.GROUP}; is it installed?"
            )
        # Outside Cozystack there are no Tenants at all, and everything follows from namespaces.

    async def _read_own(self, resource: _Resource, progress: Progress) -> None:
        """What a tenant's user may see: its own namespace."""
        own = self.reached.namespace
        if resource.part is Part.NAMESPACES:
            why = f"not allowed to list {resource.plural}"
            self.unknown[resource.part] = f"{why}; only {own} is looked at"
            try:
                obj = await self.client.get(resource.path(name=own), metadata_only=True)
            except (Forbidden, NotFound):
                self.unknown[resource.part] = f"{why}, nor to get {own}"
                return
            self._add({**obj, "kind": "Namespace", "apiVersion": "v1"})
            return
        why = f"not allowed to list {resource.plural}"
        if not resource.namespaced:
            self.unknown[resource.part] = why
            return
        try:
            await self._list(resource, own, progress)
        except (Forbidden, NotFound):
            self.unknown.setdefault(resource.part, f"{why}, not even in {own}")
            return
        self.unknown.setdefault(resource.part, f"{why} of all namespaces; only those in {own}")

    async def _list(self, resource: _Resource, namespace: str | None, progress: Progress) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async for items, _ in self.client.list_pages(
                    resource.path(namespace), metadata_only=resource.metadata_only
                ):
                    self._add_all(resource, items)
                    progress.advance(len(items))
            except Gone:  # the next attempt reads every object anew, the last reading counts
                if attempt == ATTEMPTS:
                    raise
                self.assembly.forget(resource.kind)
            else:
                return

    def _add_all(self, resource: _Resource, items: Iterable[Mapping[str, Any]]) -> None:
        for item in items:
            self._add({**item, "kind": resource.kind, "apiVersion": resource.api_version})

    def _add(self, obj: Mapping[str, Any]) -> None:
        try:
            self.assembly.add(obj)
        except MalformedObject as error:
            raise _unreadable(error) from error


def _unreadable(error: MalformedObject) -> CliError:
    return CliError(f"the API server sends what cannot be read: {error}")


def events_of(common: Common, record: PodRecord) -> tuple[list[str], str]:
    """What core/v1 Events say of a pod, the newest last; what is said several times stands once.

    Returns:
        `TYPE REASON (xCOUNT): message` each, and why they could not be read (empty if they were).
    """
    return _events_about(common, record.pod.namespace, record.pod.name, record.pod.uid)


def refused_creations(common: Common, workload: Workload) -> tuple[list[str], str]:
    """What the controller of a workload says of pods that it could not create; see `events_of`.

    The controllers of Kubernetes all call it FailedCreate, and name the object that the pod is for:
    of a Deployment that is its ReplicaSet.
    """
    said, problem = _events_about(
        common, workload.namespace, workload.name, workload.uid, "FailedCreate"
    )
    return [f"{workload.kind} {workload.name}: {event}" for event in said], problem


def _events_about(
    common: Common, namespace: str, name: str, uid: str, reason: str = ""
) -> tuple[list[str], str]:
    reached = connection(common)
    selector = f"involvedObject.name={name},involvedObject.uid={uid}"
    if reason:
        selector += f",reason={reason}"
    path = resource_path("v1", "events", namespace=namespace)

    async def read(client: KubeClient) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        async for items, _ in client.list_pages(path, params={"fieldSelector": selector}):
            found += items
        return found

    try:
        items = ask(reached, read, let=(Forbidden,))
    except Forbidden:
        return [], f"not allowed to list events in {namespace}"
    items.sort(key=lambda item: str(item.get("lastTimestamp") or item.get("eventTime") or ""))
    counts: dict[tuple[str, str, str], int] = {}
    for item in items:
        said = (str(item.get("type")), str(item.get("reason")), str(item.get("message")))
        counts[said] = counts.pop(said, 0) + int(item.get("count") or 1)
    told = [f"{kind} {why} (x{n}): {text}" for (kind, why, text), n in counts.items()]
    return told[-EVENTS_SHOWN:], ""
