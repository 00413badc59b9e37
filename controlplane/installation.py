"""The operator on a local control plane: its chart, its processes, and a stand-in of its Service.

The processes run beside the API server instead of in pods, each with a token of the ServiceAccount
that the chart installs, so that a missing right shows. Arguments, environment and configuration are
those of the chart's own Deployments; only addresses differ.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from controlplane.api import plain_answers_ok
from controlplane.cluster import Cluster
from controlplane.components import tls_answers_ok
from controlplane.helm import Release
from controlplane.paths import CHART
from controlplane.processes import Command, ManagedProcess, stop_all, write_atomically
from controlplane.programs import program
from controlplane.waiting import eventually

NAMESPACE = "cozy-schedclass"
RELEASE = "schedclass"
SERVICE = "webhook-service"
SCHEDULER = "scheduler"
READY_SECONDS = 45
GRACE_SECONDS = 15.0
"""A replica that is told to end in an orderly way drains first, as in a pod."""

# The stand-in of the Service looks every 0.2 s; endpoints of a real one take seconds to follow.
_LOCAL = {"SCHEDCLASS_DRAIN_SECONDS": "1"}


class Installation:
    """The operator, installed: release `schedclass` in `cozy-schedclass` by default.

    Processes: `webhook-0` …, `controller-0` …, `extender-0` … and `scheduler-0` …, and
    `webhook-service`, the stand-in of the Service. In a real cluster, an extender and a scheduler
    share a pod; here those of the same number belong together.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        values: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        replicas: int = 2,
    ) -> None:
        """Installs nothing yet.

        Args:
            cluster: A started control plane.
            values: Chart values that differ from the local defaults; of a default that is an
                object, only the keys that are named here change.
            env: Further environment of every replica, such as shorter lease times.
            replicas: Of each role.
        """
        self.cluster = cluster
        self.release = Release(cluster, CHART, RELEASE, NAMESPACE)
        self._env = {**_LOCAL, **(env or {})}
        self._values = dict(values or {})
        self.webhooks = [f"webhook-{number}" for number in range(replicas)]
        self.controllers = [f"controller-{number}" for number in range(replicas)]
        self.extenders = [f"extender-{number}" for number in range(replicas)]
        self.schedulers = [f"{SCHEDULER}-{number}" for number in range(replicas)]
        self._rendered: list[dict[str, Any]] = []

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Installs the chart, starts what does not run, and waits until admission works.

        Calling it again heals: it installs what has changed and starts what has died.

        Raises:
            HelmError: The chart cannot be installed.
            ProcessError: A process did not become ready; with the end of its log.
        """
        self.install_chart()
        self.start_service()
        for name in self.replicas:
            self.start_replica(name, wait=False)
        self.wait_ready()

    def heal(self) -> None:
        """Undoes what a fault test did to the processes; quick if there is nothing to undo."""
        names = [*self.replicas, SERVICE]
        for name in names:
            self.process(name).resume()
        if not (self.process(SERVICE).is_alive() and all(map(self.is_ready, self.replicas))):
            self.start()

    def stop(self) -> None:
        """Ends the operator's processes; the chart stays installed."""
        names = [*self.replicas, SERVICE]
        stop_all([self.process(name) for name in names], GRACE_SECONDS)

    def uninstall(self) -> None:
        """Ends the processes and removes the chart."""
        self.stop()
        self.release.uninstall()

    def install_chart(self, **values: object) -> bool:
        """Installs or upgrades the chart; tells whether that was needed.

        Args:
            **values: Top level values to change from now on.
        """
        self._values.update(values)
        self._rendered.clear()
        return self.release.install(self.values)

    def start_service(self) -> None:
        """Starts the stand-in of the Service in front of the webhook replicas."""
        port = self.cluster.port(SERVICE)
        backends = [
            f"-backend=127.0.0.1:{self.cluster.port(name)},{self._probe_url(name)}"
            for name in self.webhooks
        ]
        command = Command([str(program("service")), f"-listen=127.0.0.1:{port}", *backends])
        self.cluster.start_process(SERVICE, command)

    def start_replica(self, name: str, *, wait: bool = True) -> ManagedProcess:
        """Starts one replica with a fresh token; one that runs as it should stays.

        Args:
            name: `webhook-0` and so on.
            wait: Whether to wait until it is ready.
        """
        process = self.cluster.start_process(name, self.command(name))
        if wait:
            self.wait_replica_ready(name)
        return process

    def rolling_restart(self, names: Sequence[str] | None = None) -> None:
        """Ends one replica after the other and starts each anew before the next one ends."""
        for name in names or self.replicas:
            self.process(name).stop(GRACE_SECONDS)
            self.start_replica(name)

    # --- state --------------------------------------------------------------------------------

    @property
    def replicas(self) -> list[str]:
        """Names of all replicas of all roles."""
        return [*self.webhooks, *self.controllers, *self.extenders, *self.schedulers]

    @property
    def url(self) -> str:
        """Where the API server reaches the webhook."""
        return f"https://127.0.0.1:{self.cluster.port(SERVICE)}"

    @property
    def values(self) -> dict[str, Any]:
        """The chart values of this installation."""
        defaults: dict[str, dict[str, Any]] = {
            "deployments": {"enabled": False},
            # Its Job would need an image; a fake kubelet would call it done without doing it.
            "cleanup": {"enabled": False},
            "webhook": {"url": self.url},
            "certificate": {"hosts": ["127.0.0.1"]},
        }
        own = {
            key: {**defaults.get(key, {}), **v} if isinstance(v, Mapping) else v
            for key, v in self._values.items()
        }
        return {**defaults, **own}

    def user(self, role: str) -> str:
        """The user name under which a role's processes act."""
        return f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{role}"

    def process(self, name: str) -> ManagedProcess:
        """A replica's process, or the Service stand-in's: stop, kill, pause, resume."""
        return self.cluster.process(name)

    def probe_port(self, name: str) -> int:
        """The port of a replica's /healthz, /readyz and /metrics (https for `scheduler-N`)."""
        return self.cluster.port(f"{name}-probe")

    def is_ready(self, name: str) -> bool:
        """Tells whether a replica's readiness probe answers 200 now."""
        if _role(name) == SCHEDULER:
            tls = self.cluster.identities.tls()
            return tls_answers_ok(self.probe_port(name), "/healthz", tls)
        return plain_answers_ok(self.probe_port(name), "/readyz")

    def wait_replica_ready(self, name: str, *, seconds: float = READY_SECONDS) -> None:
        """Waits until a replica is ready.

        Raises:
            ProcessError: It ended or is not ready in time; with the end of its log.
        """
        self.process(name).wait_ready(lambda: self.is_ready(name), seconds=seconds)

    def wait_ready(self) -> None:
        """Waits until every replica is ready and the API server really calls the webhook.

        Raises:
            ProcessError: A process is not ready in time; with the end of its log.
        """
        for name in self.replicas:
            self.wait_replica_ready(name)

        def called() -> bool:
            self.start_service()
            return self.is_called()

        eventually("the API server reaches the webhook", called, seconds=READY_SECONDS)

    def is_called(self) -> bool:
        """Tells whether the API server gets an answer from the webhook now (by a dry run).

        A failing webhook would go unnoticed in the answer itself, as its failure is ignored.
        """
        before = self._answered_calls()
        self.cluster.admin.create(
            "/api/v1/namespaces?dryRun=All", {"metadata": {"generateName": "probe-"}}
        )
        return self._answered_calls() > before

    def _answered_calls(self) -> int:
        """Calls of the namespace webhook that it answered, as the API server counted them."""
        text = self.cluster.admin.text("/metrics")
        lines = re.findall(
            r"^apiserver_admission_webhook_request_total\{(.*)\} (\d+)", text, re.MULTILINE
        )
        return sum(
            int(count)
            for labels, count in lines
            if 'code="200"' in labels and 'name="namespaces.scheduler.cozystack.io"' in labels
        )

    # --- processes ----------------------------------------------------------------------------

    def command(self, name: str) -> Command:
        """Returns how a replica is started, and renews its ServiceAccount's token."""
        role = _role(name)
        account = self._account(role)
        kubeconfig = self.cluster.identities.service_account_kubeconfig(NAMESPACE, account)
        if role == SCHEDULER:
            return self._scheduler(name, str(kubeconfig))
        container = self._container(role)
        env = {
            **container.env,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(self.cluster.folder / "home"),
            "SCHEDCLASS_PROBE_HOST": "127.0.0.1",
            "SCHEDCLASS_PROBE_PORT": str(self.probe_port(name)),
            **self._env,
        }
        if role == "webhook":
            env["SCHEDCLASS_WEBHOOK_HOST"] = "127.0.0.1"
            env["SCHEDCLASS_WEBHOOK_PORT"] = str(self.cluster.port(name))
        if role == "extender":
            env["SCHEDCLASS_EXTENDER_PORT"] = str(self.cluster.port(name))
        inherited = [key for key in os.environ if key.startswith(("SCHEDCLASS_", "KUBERNETES_"))]
        return Command([sys.executable, "-m", "schedclass", *container.argv], env, inherited)

    def _scheduler(self, name: str, kubeconfig: str) -> Command:
        """A stock kube-scheduler with the chart's configuration and the extender of its number."""
        (text,) = (
            item["data"]["config.yaml"]
            for item in self._objects()
            if item["kind"] == "ConfigMap" and "config.yaml" in item["data"]
        )
        configuration = yaml.safe_load(text)
        configuration["clientConnection"]["kubeconfig"] = kubeconfig
        configuration["leaderElection"].update(self._lease_times)
        extender = f"extender-{name.rpartition('-')[2]}"
        configuration["extenders"][0]["urlPrefix"] = (
            f"http://127.0.0.1:{self.cluster.port(extender)}"
        )
        path = self.cluster.folder / "config" / f"{name}.json"
        write_atomically(path, json.dumps(configuration, indent=1))
        layout = self.cluster.layout
        ours = ("--config=", "--secure-port=")
        arguments = [
            *(
                given
                for given in self._container("kube-scheduler").argv
                if not given.startswith(ours)
            ),
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.probe_port(name)}",
            f"--tls-cert-file={layout.pki / 'server.crt'}",
            f"--tls-private-key-file={layout.pki / 'server.key'}",
        ]
        home = {"HOME": str(self.cluster.folder / "home")}
        return Command([str(program("kube-scheduler")), *arguments], home, ("KUBECONFIG",))

    @property
    def _lease_times(self) -> dict[str, str]:
        """The lease times of the other roles, where they were shortened."""
        keys = {"duration": "leaseDuration", "deadline": "renewDeadline", "retry": "retryPeriod"}
        given = {
            keys[key]: self._env.get(f"SCHEDCLASS_LEASE_{key.upper()}_SECONDS") for key in keys
        }
        return {key: f"{value}s" for key, value in given.items() if value}

    def _account(self, role: str) -> str:
        """The extender shares the pod of kube-scheduler, and with it its ServiceAccount."""
        return f"{RELEASE}-{SCHEDULER if role == 'extender' else role}"

    def _container(self, role: str) -> Command:
        """The arguments and environment that the chart gives a role's container."""
        (container,) = (
            container
            for item in self._objects()
            if item["kind"] == "Deployment"
            for container in item["spec"]["template"]["spec"]["containers"]
            if container["name"] == role
        )
        env = {entry["name"]: _value(entry) for entry in container.get("env", ())}
        return Command(container["args"], env)

    def _objects(self) -> list[dict[str, Any]]:
        """What the chart would install with Deployments."""
        if not self._rendered:
            values = {**self.values, "deployments": {"enabled": True}}
            self._rendered = self.release.render(values)
        return self._rendered

    def _probe_url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.probe_port(name)}/readyz"


def _role(name: str) -> str:
    return name.rpartition("-")[0]


def _value(entry: Mapping[str, Any]) -> str:
    """The value of one entry of a container's `env`, with the fields of a pod that we know."""
    if "value" in entry:
        return str(entry["value"])
    field = entry["valueFrom"]["fieldRef"]["fieldPath"]
    return {"metadata.namespace": NAMESPACE, "metadata.name": "local"}[field]
