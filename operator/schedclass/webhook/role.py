"""The webhook process: caches, certificate, probes and the admission server under one roof."""

import asyncio
from collections.abc import Mapping
from typing import Any

import kopf

from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.hosting import register_login, run_kopf
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.events import EventRecorder
from schedclass.kube.liveness import LeaseWatch
from schedclass.kube.reflector import Reflector
from schedclass.kube.state import (
    CLASSES_PATH,
    NAMESPACES_PATH,
    NODES_PATH,
    TENANTS_PATH,
    ClusterState,
)
from schedclass.kube.store import Store
from schedclass.observability.definitions import Role
from schedclass.observability.metrics import Metrics
from schedclass.observability.probes import Check, ProbeServer, caches, unless
from schedclass.processes import in_background, spare_collector, stop_on_signals, unless_stopped
from schedclass.settings import Settings
from schedclass.tls.serving import ServingCertificate
from schedclass.webhook.handlers import RULES, register_handlers
from schedclass.webhook.live import LiveReader
from schedclass.webhook.server import AdmissionServer, Listening, admission_settings
from schedclass.webhook.service import AdmissionService


class WebhookRole:
    """Everything one webhook replica consists of; `run` brings it to life."""

    def __init__(self, settings: Settings, client: KubeClient, instance: str) -> None:
        """Nothing is opened or requested before `run`."""
        self._settings = settings
        self._client = client
        self._metrics = Metrics(Role.WEBHOOK, revision=settings.revision)
        self._recorder = EventRecorder(
            client,
            component="schedclass-webhook",
            instance=instance,
            on_lost=self._metrics.count_dropped_event,
        )
        self._certificate = ServingCertificate(
            on_error=lambda _: self._metrics.count_certificate_error()
        )
        self._certified = asyncio.Event()
        self._secrets: Store[Mapping[str, Any]] = Store(dict)
        self._secrets.on_change(self._secret_changed)
        self._state = ClusterState(
            ExcludedNamespaces(settings.excluded_namespaces, settings.namespace),
            stale_after=settings.stale_seconds,
        )
        self._server = AdmissionServer(
            RULES,
            tls=self._certificate.context,
            ready=self._certified.wait,
            listening=Listening.of(settings),
            observe=self._metrics.observe_admission,
        )
        self._scheduler = LeaseWatch(
            client, namespace=settings.namespace, name=settings.scheduler_lease
        )
        self._indexes: dict[str, Store[Any]] = {
            "namespaces": self._state.namespaces,
            "nodes": self._state.nodes,
            "schedulingclasses": self._state.classes,
        }

    async def run(self) -> None:
        """Serve until SIGTERM.

        Raises:
            Exception: a part failed that cannot be done without; the process must end.
        """
        stop = stop_on_signals()
        for resource, index in self._indexes.items():
            self._metrics.follow_index(resource, index)
        self._metrics.follow_certificate(lambda: self._certificate.expires_at)
        async with (
            ProbeServer.of(self._settings, self._checks(), self._metrics),
            in_background(
                *(reflector.run() for reflector in self._reflectors()),
                self._recorder.run(),
                self._scheduler.run(),
            ) as tasks,
        ):
            if await unless_stopped(stop, self._complete()):
                await run_kopf(self._registry(), self._kopf_settings(), stop, tasks)

    async def _complete(self) -> None:
        """Wait for everything that an answer rests on."""
        for index in self._indexes.values():
            await index.wait_synced()
        await self._certified.wait()
        spare_collector()

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        live = LiveReader(self._state, self._client, seconds=self._settings.live_get_seconds)
        service = AdmissionService(
            self._state,
            live,
            self._recorder,
            exempt_daemon_sets=self._settings.exempt_daemon_sets,
            controller_user=self._settings.controller_user,
            label_keys=self._settings.default_label_selector_keys,
            scheduler=self._scheduler.sign,
        )
        register_login(registry, self._client)
        register_handlers(registry, service)
        return registry

    def _kopf_settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        admission_settings(settings, self._server)
        return settings

    def _reflectors(self) -> list[Reflector[Any]]:
        secrets = resource_path("v1", "secrets", namespace=self._settings.namespace)
        one_secret = {"fieldSelector": f"metadata.name={self._settings.serving_secret}"}
        return [
            self._reflector(NAMESPACES_PATH, self._state.namespaces, metadata_only=True),
            self._reflector(NODES_PATH, self._state.nodes, metadata_only=True),
            self._reflector(CLASSES_PATH, self._state.classes),
            self._reflector(secrets, self._secrets, params=one_secret),
            self._reflector(TENANTS_PATH, self._state.tenants),
        ]

    def _reflector(self, path: str, store: Store[Any], **options: Any) -> Reflector[Any]:
        seconds = self._settings.resync_seconds
        return Reflector(self._client, path, store, resync_seconds=seconds, **options)

    def _secret_changed(
        self, _key: str, _old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
    ) -> None:
        """A Secret that is deleted takes nothing away: the pair in use stays in use."""
        if new is not None and self._certificate.offer_secret(new) is None:
            self._certified.set()

    def _checks(self) -> dict[str, Check]:
        return {
            **caches(self._indexes, seconds=self._settings.stale_seconds),
            "certificate": self._why_no_certificate,
            "listening": unless(
                lambda: not self._server.listening, "the admission server does not listen yet"
            ),
            "draining": unless(
                lambda: self._server.draining, "the admission server was told to stop"
            ),
        }

    def _why_no_certificate(self) -> str | None:
        problem = self._certificate.problem()
        return problem.message if problem is not None else None
