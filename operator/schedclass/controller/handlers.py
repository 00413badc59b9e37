"""Kopf's part of the controller: it watches, and each event goes into the stores.

Handlers of events only: they leave no annotation and no finalizer on anything, and what they do is
level-triggered, so that a lost or doubled event does no harm.
"""

from collections.abc import Callable
from typing import Any

import kopf

from schedclass.controller.kopf_storage import NoDiffBase, NoProgress
from schedclass.domain import names
from schedclass.kube.client import REQUEST_SECONDS, WATCH_READ_SECONDS, WATCH_SERVER_SECONDS
from schedclass.kube.state import ClusterState
from schedclass.kube.store import Store
from schedclass.kube.transport import CONNECT_SECONDS


def register(registry: kopf.OperatorRegistry, state: ClusterState) -> None:
    """Register the handlers of namespaces, nodes and classes."""

    @kopf.on.event(
        "", "v1", "namespaces", id="namespaces", registry=registry, when=_news(state.namespaces)
    )
    async def namespace(event: kopf.RawEvent, **_: Any) -> None:
        _take(state.namespaces, event)

    @kopf.on.event("", "v1", "nodes", id="nodes", registry=registry, when=_news(state.nodes))
    async def node(event: kopf.RawEvent, **_: Any) -> None:
        _take(state.nodes, event)

    @kopf.on.event(
        *(names.GROUP, names.VERSION, names.PLURAL),
        id="classes",
        registry=registry,
        when=_news(state.classes),
    )
    async def scheduling_class(event: kopf.RawEvent, **_: Any) -> None:
        _take(state.classes, event)


def controller_settings() -> kopf.OperatorSettings:
    """Settings of Kopf for watching: nothing stored, nothing throttled, dead watches noticed."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = WATCH_SERVER_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.inactivity_timeout = WATCH_READ_SECONDS
    settings.watching.chunk_size = 500
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.queueing.worker_limit = None  # a limit would throttle events to a trickle
    # Each object has a task of its own for as long: with thousands of them, most of the memory.
    settings.queueing.idle_timeout = 0.1
    # Kopf takes this finalizer off wherever nothing of ours needs it. So it must not be the
    # default, on which other operators rely; nobody sets this one.
    settings.persistence.finalizer = f"{names.PREFIX}/kopf"
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    return settings


def _news(store: Store[Any]) -> Callable[..., bool]:
    """For `when`: what we wrote ourselves is known, and calling a handler has its price."""
    return lambda event, **_: store.is_news(event["type"] or "ADDED", event["object"])


def _take(store: Store[Any], event: kopf.RawEvent) -> None:
    # Objects that were there when the watch began come with type None.
    store.apply(event["type"] or "ADDED", event["object"])
