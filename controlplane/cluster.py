"""A real Kubernetes control plane on 127.0.0.1, in one folder."""

from __future__ import annotations

import functools
import json
import secrets
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controlplane import components, nodes, watchdog
from controlplane.api import Api
from controlplane.audit import AuditLog
from controlplane.components import ORDER, PORTS, Layout
from controlplane.identities import ADMIN, ADMINS, Identities
from controlplane.kubectl import Kubectl
from controlplane.ports import allocate, is_free
from controlplane.processes import (
    Command,
    ManagedProcess,
    ProcessError,
    recorded,
    stop_all,
    write_atomically,
)
from controlplane.waiting import PATIENCE_SECONDS, eventually

START_SECONDS = 180


class Cluster:
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok of one run.

    All state lies in the folder: ports, keys, data, pids, logs. A second object for the same
    folder, in another Python process too, picks up what runs. The programs must have been built
    (`controlplane.build`).

    Attributes:
        folder: The run folder.
        kubectl: kubectl with the admin's rights; call it with the command line.
    """

    def __init__(
        self,
        folder: Path,
        *,
        audit: bool = True,
        watched: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Writes nothing to disk yet.

        Args:
            folder: The run folder; made by `start`.
            audit: Whether the API server writes its audit log.
            watched: Whether everything ends with the calling process, however that ends.
            env: Further environment of every component, such as `components.ROOMY`.
        """
        self.folder = folder.resolve()
        self.kubectl = Kubectl(self.kubeconfig, self.folder / "home")
        self._with_audit = audit
        self._watched = watched
        self._env = dict(env or {})
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._processes: dict[str, ManagedProcess] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts what does not run (all, or what has died) and waits until all is ready.

        Raises:
            ProcessError: A component did not become ready; with the end of its log.
        """
        for path in (self.folder, self.folder / "home", self.folder / "logs"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._watched and self._watchdog is None:
            self._watchdog = watchdog.start(self.folder)
        try:
            for name in PORTS:
                self.port(name)
            self.identities.prepare()
            self._start_components()
        except BaseException:
            if self._watched:
                self.stop()
            raise

    def heal(self) -> None:
        """Undoes what a fault test did to the components; quick if there is nothing to undo."""
        for name in ORDER:
            self.process(name).resume()
        if not (all(self.process(name).is_alive() for name in ORDER) and self.admin.answers_ok()):
            self.start()

    def stop(self) -> None:
        """Ends every process of the folder, the operator's first; none is left.

        Raises:
            ProcessError: A process survived SIGKILL.
        """
        everything = [self.process(name) for name in recorded(self.folder)]
        # Whoever talks to the API server ends while it still answers.
        stop_all([p for p in everything if p.name not in ORDER])
        stop_all([p for p in everything if p.name in ORDER])
        if self._watchdog is not None:
            self._watchdog.communicate()  # closes the pipe and waits
            self._watchdog = None

    def process(self, name: str) -> ManagedProcess:
        """Returns a process of the run by its name, such as `kube-apiserver` or `webhook-0`.

        It can be stopped, killed, paused, resumed and started again.
        """
        return self._processes.setdefault(name, ManagedProcess(self.folder, name))

    def start_process(self, name: str, command: Command) -> ManagedProcess:
        """Starts a program of this run under a name; one that runs with this command stays.

        Raises:
            ProcessError: It cannot be started, or a stranger has its port (see `port`).
        """
        process = self.process(name)
        if process.runs(command):
            process.start(command)
            return process
        process.stop()
        port = self._ports.get(name)
        if port is not None and not is_free(port):
            raise ProcessError(
                f"{name} cannot start: port {port} of 127.0.0.1 is taken by another program; "
                f"end that, or remove {self.folder} for a new control plane on other ports"
            )
        process.start(command)
        return process

    def port(self, name: str) -> int:
        """Returns the port of a program of this run, the same one over all restarts."""
        if name not in self._ports:
            self._ports.update(allocate([name], self.folder))
            write_atomically(self._ports_file, json.dumps(self._ports, indent=1))
        return self._ports[name]

    def _start_components(self) -> None:
        commands = components.commands(self.layout, with_audit=self._with_audit, env=self._env)
        probes = components.probes(self.layout, self.admin, self.identities.tls())
        # The API server is started beside etcd and waits for it; the others would exit.
        for wave in (("etcd", "kube-apiserver"), ORDER[2:]):
            for name in wave:
                self.start_process(name, commands[name])
            for name in wave:
                self.process(name).wait_ready(probes[name], seconds=START_SECONDS)

    # --- access -------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of a member of system:masters."""
        return self.folder / "kubeconfig"

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self.layout.url("kube-apiserver")

    @functools.cached_property
    def layout(self) -> Layout:
        """Files and ports of the run."""
        return Layout(self.folder, self._ports)

    @functools.cached_property
    def identities(self) -> Identities:
        """Issues clients and kubeconfigs for any user, group or ServiceAccount."""
        return Identities(self.layout)

    @functools.cached_property
    def admin(self) -> Api:
        """A plain JSON client with the admin's rights."""
        return self.identities.api(ADMIN, ADMINS)

    @functools.cached_property
    def audit(self) -> AuditLog:
        """The API server's audit log, to count requests in."""
        return AuditLog(self.layout.audit_log, self._send_as_agent)

    def _send_as_agent(self, user_agent: str) -> None:
        path = "/api/v1/namespaces/default"
        self.admin.request("GET", path, headers={"User-Agent": user_agent})

    @property
    def _ports_file(self) -> Path:
        return self.folder / "ports.json"

    @functools.cached_property
    def _ports(self) -> dict[str, int]:
        try:
            return dict(json.loads(self._ports_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}

    # --- content ------------------------------------------------------------------------------

    def create_namespace(self, name: str | None = None, **metadata: object) -> str:
        """Creates a namespace in which pods can be created at once.

        Args:
            name: Its name; by default one that nobody else has.
            **metadata: Further metadata: `labels`, `annotations`, `ownerReferences`.

        Returns:
            Its name.
        """
        name = name or f"test-{secrets.token_hex(4)}"
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": name, **metadata}})
        # Until its default ServiceAccount exists, every pod in it is refused.
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(f"{account} exists", lambda: self.admin.find(account), interval=0.02)
        return name

    def create_nodes(self, count: int = 3, *, first: int = 1, wait: bool = True) -> list[str]:
        """Makes sure that nodes `node-FIRST` and on exist, dealt out to the three zones.

        Args:
            count: How many.
            first: The number of the first.
            wait: Whether to wait until they are Ready.

        Returns:
            Their names.
        """
        present = {n["metadata"]["name"] for n in self.admin.get("/api/v1/nodes")["items"]}
        zones = {f"node-{n}": nodes.zone_of(n) for n in range(first, first + count)}
        self.add_nodes(nodes.node(n, zone) for n, zone in zones.items() if n not in present)
        if wait:
            self.wait_nodes_ready(list(zones))
        return list(zones)

    def add_nodes(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Creates Node objects (see `controlplane.nodes.node`) without waiting."""
        for manifest in manifests:
            self.admin.create("/api/v1/nodes", manifest)

    def wait_nodes_ready(self, names: Sequence[str], *, seconds: float = PATIENCE_SECONDS) -> None:
        """Waits until all of these nodes are Ready and take pods."""
        wanted = set(names)

        def ready() -> bool:
            items = self.admin.get("/api/v1/nodes")["items"]
            return wanted <= {n["metadata"]["name"] for n in items if nodes.is_ready(n)}

        eventually(f"{len(wanted)} nodes are Ready", ready, seconds=seconds)
