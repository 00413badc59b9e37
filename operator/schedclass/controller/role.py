"""The controller process: stands by for the Lease, then leads until it ends."""

import asyncio
import gc
import logging
from typing import Any

import kopf

from schedclass.controller.classes import ClassController
from schedclass.controller.compliance import ComplianceController
from schedclass.controller.handlers import controller_settings, register
from schedclass.controller.inheritance import InheritanceController
from schedclass.controller.reconciler import Reconciler
from schedclass.domain.class_status import SchedulerSign
from schedclass.domain.compliance_index import ComplianceIndex
from schedclass.domain.namespaces import ExcludedNamespaces
from schedclass.hosting import (
    in_background,
    register_login,
    run_kopf,
    stop_on_signals,
    unless_stopped,
)
from schedclass.kube.client import KubeClient
from schedclass.kube.events import EventRecorder
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
        self._elector = LeaseElector(
            client,
            namespace=settings.namespace,
            name=settings.lease,
            identity=instance,
            timings=LeaseTimings(
                settings.lease_duration_seconds,
                settings.lease_deadline_seconds,
                settings.lease_retry_seconds,
            ),
            on_change=self._metrics.set_leader,
        )
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
        self._classes: ClassController
        self._inheritance = InheritanceController(
            self._state,
            client,
            self._recorder,
            lambda used: self._classes.queue.add_all(used),  # noqa: PLW0108 - made below
        )
        self._classes = ClassController(
            self._state, self._inheritance.bindings, client, self._recorder, self._metrics
        )
        self._compliance = ComplianceController(
            self._state,
            self._inheritance.bindings,
            client,
            self._recorder,
            ComplianceIndex(
                default_label_keys=settings.default_label_selector_keys,
                exempt_daemon_sets=settings.exempt_daemon_sets,
            ),
            self._metrics,
            resync_seconds=settings.resync_seconds,
            sweep_seconds=settings.sweep_seconds,
            on_change=self._classes.queue.add_all,
        )
        self._classes.pods = self._compliance.counts
        self._classes.pods_to_come = lambda: self._compliance.to_come
        self._scheduler = LeaseWatch(
            client,
            namespace=settings.namespace,
            name=settings.scheduler_lease,
            on_change=self._classes.mark_all,
        )
        if settings.scheduler_lease:
            self._classes.scheduler = lambda: SchedulerSign(
                f"{settings.namespace}/{settings.scheduler_lease}", self._scheduler.alive
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
        probes = ProbeServer(
            self._checks(),
            render=self._metrics.render,
            host=self._settings.probe_host,
            port=self._settings.probe_port,
        )
        async with probes:
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
        async with asyncio.TaskGroup() as group:
            tasks = in_background(
                group,
                *(reflector.run() for reflector in self._reflectors()),
                self._recorder.run(),
                publisher.run(),
                self._reconcile(),
                *([self._scheduler.run()] if self._settings.scheduler_lease else []),
            )
            await run_kopf(self._registry(), controller_settings(), stop, tasks)
            for task in tasks:
                task.cancel()

    async def _reconcile(self) -> None:
        """Reconcile from the first complete list of namespaces on, never before."""
        await self._state.namespaces.wait_synced()
        await self._inheritance.prime()
        # What is in memory now stays; looking at it again and again would stall the renewal of the
        # Lease and every event.
        gc.collect()
        gc.freeze()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                Reconciler(
                    "inheritance",
                    self._inheritance.queue,
                    self._inheritance.reconcile,
                    self._metrics,
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
