"""An admission server as Kopf hosts it: Kopf's own engine behind it, real TLS before it."""

import asyncio
import contextlib
import functools
import io
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import kopf
from kopf._cogs.structs import ephemera, references
from kopf._core.engines import admission, indexing
from kopf._core.reactor import inventory

from schedclass.domain.findings import Reason
from schedclass.tls.authority import KeyPair, new_authority, new_certificate
from schedclass.tls.serving import ServingCertificate
from schedclass.webhook.reviews import HandlerRule, Review, ReviewHandler, register
from schedclass.webhook.server import AdmissionServer, Listening

PODS = HandlerRule("mutate-pods", "", "v1", "pods", frozenset({"CREATE"}))
NAMESPACES = HandlerRule(
    "mutate-namespaces", "", "v1", "namespaces", frozenset({"CREATE", "UPDATE"})
)
RULES = (PODS, NAMESPACES)
YEAR = timedelta(days=365)


def authority() -> KeyPair:
    return new_authority(common_name="test", now=datetime.now(UTC), lifetime=10 * YEAR)


def certificate(signer: KeyPair, *, lifetime: timedelta = YEAR) -> KeyPair:
    hosts = ("localhost", "127.0.0.1")
    return new_certificate(signer, hosts=hosts, now=datetime.now(UTC), lifetime=lifetime)


def serving(signer: KeyPair) -> ServingCertificate:
    held = ServingCertificate()
    pair = certificate(signer)
    assert held.offer(pair.certificate, pair.key) is None
    return held


def trusting(signer: KeyPair) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=signer.certificate.decode())


@dataclass
class Engine:
    """Kopf's engine with these handlers, as `kopf.operator` would bind it."""

    handlers: dict[str, ReviewHandler]
    rules: Iterable[HandlerRule] = RULES
    registry: kopf.OperatorRegistry = field(default_factory=kopf.OperatorRegistry)
    memories: inventory.ResourceMemories = field(default_factory=inventory.ResourceMemories)

    def webhook_fn(self) -> kopf.WebhookFn:
        insights = references.Insights()
        for rule in self.rules:
            insights.webhook_resources.add(
                references.Resource(rule.group, rule.version, rule.plural, namespaced=True)
            )
            if rule.id in self.handlers:
                register(self.registry, rule, self.handlers[rule.id], mutates=True)
        return functools.partial(
            admission.serve_admission_request,
            settings=kopf.OperatorSettings(),
            registry=self.registry,
            insights=insights,
            memories=self.memories,
            memobase=ephemera.AnyMemo(ephemera.Memo()),
            indices=indexing.OperatorIndexers().indices,
        )


@dataclass
class Seen:
    """What the server reported of its answers."""

    answers: list[tuple[str, str, str]] = field(default_factory=list)

    def __call__(self, operation: str, decision: str, reason: str, seconds: float) -> None:
        assert seconds > 0
        assert decision in {"patched", "unchanged", "denied", "error"}
        Reason(reason)
        self.answers.append((operation, decision, reason))


async def until(condition: Callable[[], bool], *, seconds: float = 30) -> None:
    """Let the loop run until something is the case that nobody signals."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def _at_once() -> None:
    """Ready from the start."""


@contextlib.asynccontextmanager
async def hosted(
    engine: Engine,
    *,
    tls: ServingCertificate,
    seen: Seen | None = None,
    ready: Callable[[], Awaitable[object]] = _at_once,
    drain_seconds: float = 0.0,
    max_body_bytes: int = 8 << 20,
) -> AsyncIterator[AdmissionServer]:
    """Run a server the way Kopf does, and end it the way Kopf does: by cancelling its task."""
    server = AdmissionServer(
        engine.rules,
        tls=tls.context,
        ready=ready,
        listening=Listening("127.0.0.1", 0, max_body_bytes, drain_seconds),
        observe=seen or Seen(),
    )
    opened = asyncio.Event()

    async def host() -> None:
        async with server as entered:
            async for _ in entered(engine.webhook_fn()):
                opened.set()

    before = _open_files()
    task = asyncio.create_task(host())
    try:
        if ready is _at_once:
            await asyncio.wait_for(opened.wait(), 5)
        yield server
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # Both ends of a TLS connection close their sockets some turns of the loop after `close`.
        await until(lambda: _open_files() <= before)


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))


@dataclass
class Client:
    """Posts reviews as an API server does: one connection, kept alive."""

    session: aiohttp.ClientSession
    port: int

    async def post(self, handler: str, body: Any) -> tuple[int, Any]:
        """Status and answer: the review as JSON, or the sentence of a refusal."""
        raw: Any = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
        url = f"https://localhost:{self.port}/{handler}"
        async with self.session.post(url, **raw) as response:
            if response.status == 200:
                return response.status, (await response.json())["response"]
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def client_of(server: AdmissionServer, signer: KeyPair) -> AsyncIterator[Client]:
    connector = aiohttp.TCPConnector(ssl=trusting(signer))
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(session, server.port)


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-", **metadata},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }


def review(obj: Any = None, /, **request: Any) -> dict[str, Any]:
    """An AdmissionReview of a pod's CREATE, with these request fields instead."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "5f6c0b5e-review",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "tenant-a",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "groups": ["tenants"]},
            "object": obj if obj is not None else pod(),
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **request,
        },
    }


async def annotate(review: Review) -> None:
    """A handler that patches as ours do."""
    annotations = (review.object or {})["metadata"].get("annotations")
    if annotations is None:
        review.operations.append(
            {"op": "add", "path": "/metadata/annotations", "value": {"example.com/seen": "yes"}}
        )
    else:
        review.operations.append(
            {"op": "add", "path": "/metadata/annotations/example.com~1seen", "value": "yes"}
        )
    review.reason = Reason.CLASS_APPLIED
