"""The controller process: stands by for the Lease, then leads until it ends."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import kopf

from schedclass.controller import inheritance
from schedclass.controller.bindings import Bindings
from schedclass.controller.classes import ClassController, class_reference
from schedclass.controller.compliance import ComplianceController
from schedclass.controller.handlers import controller_settings, register
from schedclass.controller.reconciler import Reconciler
from schedclass.controller.workqueue import WorkQueue
from schedclass.domain.compliance_index import ComplianceIndex
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.hosting import register_login, run_kopf
from schedclass.kube.client import KubeClient
from schedclass.kube.events import EventRecorder, namespace_reference
from schedclass.kube.lease import LeaseElector, LeaseTimings
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
from schedclass.observability.probes import Check, ProbeServer, recent
from schedclass.processes import in_background, spare_collector, stop_on_signals, unless_stopped
from schedclass.settings import Settings
from schedclass.tls.publisher import CertificatePlan, Publisher

logger = logging.getLogger(__name__)

CLASS_WORKERS = 4


class ControllerRole:
    """Everything one controller replica consists of; `run` brings it to life."""

    def __init__(self, settings: Settings, client: KubeClient, instance: str) -> None:
        """Nothing is opened or requested before `run`."""
        self._settings = settings
        self._client = client
        self._metrics = Metrics(Role.CONTROLLER, revision=settings.revision)
        self._recorder = EventRecorder(
            client,
            component="schedclass-controller",
            instance=instance,
            on_lost=self._metrics.count_dropped_event,
        )
        self._elector = self._new_elector(instance)
        # Between two complete lists Kopf's watches feed the stores, and they have no bookmarks.
        self._state = ClusterState(
            ExcludedNamespaces(settings.excluded_namespaces, settings.namespace),
            stale_after=2 * settings.resync_seconds,
            namespace_labels=True,
        )
        self._indexes: dict[str, tuple[str, Store[Any]]] = {
            "namespaces": (NAMESPACES_PATH, self._state.namespaces),
            "nodes": (NODES_PATH, self._state.nodes),
            "schedulingclasses": (CLASSES_PATH, self._state.classes),
        }
        bindings, classes = Bindings(), WorkQueue()
        self._inheritance = inheritance.InheritanceController(
            self._state, bindings, client, self._recorder, on_class_use=classes.add_all
        )
        self._compliance = self._new_compliance(bindings, on_change=classes.add_all)
        self._scheduler = LeaseWatch(
            client,
            namespace=settings.namespace,
            name=settings.scheduler_lease,
            on_change=lambda: classes.add_all(self._state.classes),
        )
        self._classes = ClassController(
            self._state,
            bindings,
            client,
            self._recorder,
            self._metrics,
            queue=classes,
            compliance=self._compliance,
            scheduler=self._scheduler.sign,
        )

    def _new_elector(self, identity: str) -> LeaseElector:
        settings = self._settings
        return LeaseElector(
            self._client,
            namespace=settings.namespace,
            name=settings.lease,
            identity=identity,
            timings=LeaseTimings(
                settings.lease_duration_seconds,
                settings.lease_deadline_seconds,
                settings.lease_retry_seconds,
            ),
            on_change=self._metrics.set_leader,
        )

    def _new_compliance(
        self, bindings: Bindings, *, on_change: Callable[[Iterable[str]], None]
    ) -> ComplianceController:
        settings = self._settings
        return ComplianceController(
            self._state,
            bindings,
            self._client,
            self._recorder,
            ComplianceIndex(
                default_label_keys=settings.default_label_selector_keys,
                exempt_daemon_sets=settings.exempt_daemon_sets,
            ),
            self._metrics,
            resync_seconds=settings.resync_seconds,
            sweep_seconds=settings.sweep_seconds,
            on_change=on_change,
        )

    async def run(self) -> None:
        """Stand by and lead until SIGTERM.

        Raises:
            LeadershipLost: the process must end at once.
            Exception: a part failed that cannot be done without; the process must end.
        """
        stop = stop_on_signals()
        for resource, (_, index) in self._indexes.items():
            self._metrics.follow_index(resource, index)
        for resource, store in self._compliance.indexes.items():
            self._metrics.follow_index(resource, store)
        async with ProbeServer.of(self._settings, self._checks(), self._metrics):
            await unless_stopped(stop, self._elector.run(lambda: self._lead(stop)))

    async def _lead(self, stop: asyncio.Event) -> None:
        logger.info("leading as %s", self._elector.identity)
        plan = CertificatePlan.of(
            self._settings,
            mutating=(self._settings.release,),
            validating=(self._settings.release,),
        )
        publisher = Publisher(
            self._client,
            plan,
            interval=self._settings.certificate_check_seconds,
            on_failure=self._metrics.count_certificate_error,
        )
        async with in_background(
            *(reflector.run() for reflector in self._reflectors()),
            self._recorder.run(),
            publisher.run(),
            self._reconcile(),
            self._scheduler.run(),
        ) as tasks:
            await run_kopf(self._registry(), controller_settings(), stop, tasks)

    async def _reconcile(self) -> None:
        """Reconcile from the first complete list of namespaces on, never before."""
        await self._state.namespaces.wait_synced()
        await self._inheritance.prime()
        spare_collector()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                Reconciler(
                    inheritance.CONTROLLER,
                    self._inheritance.queue,
                    self._inheritance.reconcile,
                    self._metrics,
                    about=namespace_reference,
                    concurrency=self._settings.patch_concurrency,
                ).run()
            )
            await self._state.classes.wait_synced()
            await self._state.nodes.wait_synced()
            self._inheritance.mark_all()  # whether each class exists is known only now
            group.create_task(
                Reconciler(
                    "classes",
                    self._classes.queue,
                    self._classes.reconcile,
                    self._metrics,
                    about=class_reference,
                    concurrency=CLASS_WORKERS,
                ).run()
            )
            # Last, so that each pod is looked at once.
            group.create_task(self._compliance.run())

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        register_login(registry, self._client)
        register(registry, self._state)
        return registry

    def _reflectors(self) -> list[Reflector[Any]]:
        seconds = self._settings.resync_seconds
        # Kopf does not watch Tenants: an aggregated API that fails would end it.
        tenants = Reflector(self._client, TENANTS_PATH, self._state.tenants, resync_seconds=seconds)
        return [
            tenants,
            *(
                Reflector(
                    self._client,
                    path,
                    store,
                    # Kopf looks for a kind when a CRD changes and never again, and the API
                    # server's discovery lags behind: a CRD that comes later may go unwatched.
                    watch=path == CLASSES_PATH,
                    resync_seconds=seconds,
                    metadata_only=path == NAMESPACES_PATH,
                )
                for path, store in self._indexes.values()
            ),
        ]

    def _checks(self) -> dict[str, Check]:
        """A replica that stands by must see the Lease; one that leads must have a complete state.

        A leader need not be asked whether it sees anything: blind, it loses the Lease and ends.
        """

        def complete() -> str | None:
            if not self._elector.leading:
                return None
            missing = [name for name, (_, index) in self._indexes.items() if not index.synced]
            return f"waiting for the first list of {', '.join(missing)}" if missing else None

        lease = recent(
            "the Lease",
            lambda: self._elector.heard_at,
            seconds=self._settings.stale_seconds,
        )
        return {"state": complete, "lease-recent": lease}
