"""The cluster under fault: an operator behind a proxy, a tree of tenants, and load on it."""

import contextlib
import http.client
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane import Api, ApiError, Cluster, Installation, eventually
from controlplane import kubeconfig as kubeconfigs
from controlplane.installation import NAMESPACE, RELEASE
from controlplane.processes import Command, write_atomically
from schedclass.domain import names
from tests.cluster.objects import CLASSES, NAMESPACES, REGION, annotations, pod, pods_path
from tests.cluster.tenants import Tenants
from tests.faults.load import Load, is_pinned
from tests.faults.proxy import Proxy
from tests.faults.report import Row
from tests.faults.supervisor import Supervisor

WEST, EAST = "dc-west", "dc-east"
PER_SECOND = 20

BACK_SECONDS = 180.0
"""Within which the API server must be back, and all be right again, on however busy a machine."""


class ProxiedInstallation(Installation):
    """Webhook and controller with the proxy in between, each replica with a token of its own."""

    def __init__(self, cluster: Cluster, *, env: Mapping[str, str]) -> None:
        super().__init__(cluster, env=env)
        self.extenders, self.schedulers = [], []  # no test here looks at where pods go

    def command(self, name: str) -> Command:
        command = super().command(name)
        self.renew_tokens([name])
        path = kubeconfigs.write(
            self._folder / f"{name}.kubeconfig",
            server=f"https://127.0.0.1:{self.cluster.port('proxy')}",
            ca=(self.cluster.layout.pki / "ca.crt").read_text(encoding="utf-8"),
            user=name,
            credentials=kubeconfigs.token_file(self.token_file(name)),
        )
        return Command(command.argv, {**command.env, "KUBECONFIG": str(path)}, command.unset)

    @property
    def _folder(self) -> Path:
        return self.cluster.folder / "faults"

    def token_file(self, name: str) -> Path:
        return self._folder / f"{name}.token"

    def renew_tokens(self, replicas: Iterable[str]) -> None:
        """Gives replicas tokens that last."""
        for name in replicas:
            account = f"{RELEASE}-{name.rpartition('-')[0]}"
            token = self.cluster.identities.service_account_token(NAMESPACE, account)
            self.write_token(name, token)

    def write_token(self, name: str, token: str) -> None:
        write_atomically(self.token_file(name), token, 0o600)


@dataclass
class Scene:
    """What the tests of this folder share.

    Attributes:
        operator: the operator; its replicas reach the API server through `proxy`.
        long: whether this is the long form.
        report: what is done with the row of each fault.
        root, members: a tenant with a class, and all that inherit it.
        pinned: those of them in which the load creates pods.
        free: a namespace without a class that has its share of the load.
    """

    cluster: Cluster
    operator: ProxiedInstallation
    proxy: Proxy
    tenants: Tenants
    long: bool
    report: Callable[[Row], object]
    root: str = ""
    members: list[str] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)
    free: str = ""
    wanted: str = WEST

    @property
    def api(self) -> Api:
        return self.cluster.admin

    def build(self) -> None:
        """Makes tree and classes."""
        self.create_classes()
        self.root = self.tenants.create("tenant-fault", wants=WEST, with_account=True)
        child = self.tenants.create("tenant-fault-a", with_account=True)
        self.members = [child, self.tenants.create("tenant-fault-a-b", with_account=True)]
        self.members += [self.tenants.create(f"tenant-fault-{n}") for n in range(8)]
        self.pinned = [self.root, *self.members[:2]]
        self.free = self.tenants.create("free-of-class", with_account=True)
        self.tenants.settle(dict.fromkeys(self._tenants, WEST), seconds=60)

    def create_classes(self) -> None:
        """Makes the classes as soon as their kind is served."""
        eventually("classes are served", lambda: self.api.answers_ok(CLASSES), seconds=60)
        for name, region in ((WEST, "west"), (EAST, "east")):
            self.tenants.create_class(name, nodeSelector={REGION: region})

    @property
    def _tenants(self) -> list[str]:
        return [self.root, *self.members]

    def heal(self) -> None:
        """Undoes whatever the last fault, or a test that failed, has left behind."""
        self.proxy.delay = 0.0
        self.proxy.cut(False)
        self.cluster.heal()
        self.operator.renew_tokens(self.operator.replicas)
        self.operator.heal()
        for namespace in (*self.pinned, self.free):
            self._remove_pods(namespace)

    # --- a fault ------------------------------------------------------------------------------

    def strike(
        self,
        fault: str,
        break_it: Callable[[], object],
        mend_it: Callable[[], object] = lambda: None,
        *,
        during: float = 2.0,
        changes: bool = True,
        supervisor: Supervisor | None = None,
    ) -> Row:
        """Breaks something under load, mends it, and waits until all is right again.

        Args:
            fault: what to call it in the table.
            break_it: begins the fault.
            mend_it: ends it.
            during: seconds in between, on which the load goes on.
            changes: whether the tenant changes its class in the middle of it.
            supervisor: who starts again what ends; one of its own by default.

        Returns:
            The row, already reported.
        """
        row = Row(fault)
        load = Load(self.api, [*self.pinned, self.free], per_second=PER_SECOND)
        with supervisor or Supervisor(self.operator) as kubelet:
            with load:
                load.wait(10)
                try:
                    break_it()
                    deadline = time.monotonic() + during
                    if changes:
                        self.change_class()
                    time.sleep(max(0.0, deadline - time.monotonic()))
                finally:
                    mend_it()
                ended = time.monotonic()
                self.converge(seconds=BACK_SECONDS)
                row.converged = time.monotonic() - ended
                load.wait(10)
            row.restarts = kubelet.restarts
        self._judge(row, load)
        for message, count in load.messages.most_common(3):
            sys.stdout.write(f"{fault}: {count} times {message}\n")
        return row

    def change_class(self) -> None:
        """Lets the tenant change to the other class; whether that is taken is part of a fault."""
        self.wanted = EAST if self.wanted == WEST else WEST
        self._asks()

    def converge(self, *, seconds: float) -> None:
        """Waits until every replica is ready and a change reaches namespaces and new pods.

        The change that was made during the fault is repeated first, as that may have been lost.
        """
        deadline = time.monotonic() + seconds
        eventually("the API server answers", self.api.answers_ok, seconds=seconds)
        eventually("the wish is taken", self._asks, seconds=seconds)
        everyone: dict[str, str | None] = dict.fromkeys(self._tenants, self.wanted)
        self.tenants.settle(everyone, seconds=deadline - time.monotonic())

        def all_ready() -> bool:
            unready = [n for n in self.operator.replicas if not self.operator.is_ready(n)]
            assert not unready, unready
            return True

        eventually("every replica is ready", all_ready, seconds=deadline - time.monotonic())
        eventually(
            f"new pods are pinned to {self.wanted}",
            self._pins_as_wanted,
            seconds=deadline - time.monotonic(),
        )

    def _asks(self) -> bool:
        with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
            self.tenants.ask(self.root, self.wanted)
            return True
        return False

    def _pins_as_wanted(self) -> bool:
        path = f"{pods_path(self.pinned[-1])}?dryRun=All"
        with contextlib.suppress(ApiError, OSError, http.client.HTTPException):  # not yet
            found = self.api.create(path, pod("probe"))
            return annotations(found).get(names.CLASS_KEY) == self.wanted
        return False

    def _judge(self, row: Row, load: Load) -> None:
        for namespace in self.pinned:
            stored = load.stored(namespace)
            row.created += len(stored)
            row.pinned += sum(map(is_pinned, stored))
            row.refused += load.refused[namespace]
            row.unanswered += load.unanswered[namespace]
        row.escaped = row.created - row.pinned
        stored = load.stored(self.free)
        row.free = len(stored)
        assert not any(map(is_pinned, stored)), "a pod of a namespace without a class was pinned"
        row.blocked = load.refused[self.free]
        self.report(row)
        for namespace in (*self.pinned, self.free):
            self._remove_pods(namespace)
        assert not load.given_up, load.given_up

    def policies_hold(self) -> bool:
        """Whether the API server applies our policies now; it takes a moment to follow a change."""
        binding = {"metadata": {"name": "nobody"}, "target": {"kind": "Node", "name": "node-1"}}
        path = f"{NAMESPACES}/{self.root}/bindings?dryRun=All"
        try:
            self.api.create(path, binding)
        except ApiError as error:
            return error.status == http.client.FORBIDDEN  # without a policy there is no such pod
        return False

    def _remove_pods(self, namespace: str) -> None:
        path = pods_path(namespace)

        def are_gone() -> bool:
            # Thousands may take longer than the API server gives one request.
            with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
                self.api.request("DELETE", f"{path}?gracePeriodSeconds=0", timeout=90)
                return not self.api.get(f"{path}?limit=1")["items"]
            return False

        eventually(f"the pods of {namespace} are gone", are_gone, seconds=BACK_SECONDS)

    def restart_api_server(self) -> None:
        """Kills it as a crash would, and has it back."""
        server = self.cluster.process("kube-apiserver")
        server.kill()
        server.start()
        eventually("the API server is back", self.api.answers_ok, seconds=BACK_SECONDS)

    # --- what is looked at --------------------------------------------------------------------

    def leader(self) -> str:
        """The controller that leads."""

        def leading() -> str | None:
            path = (
                f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}-controller"
            )
            holder = self.api.get(path)["spec"].get("holderIdentity") or ""
            return next(
                (n for n in self.operator.controllers if f"_{self._pid(n)}_" in holder), None
            )

        return eventually("a controller leads", leading, seconds=60) or ""

    def _pid(self, name: str) -> int:
        identity = self.operator.process(name).identity
        return identity.pid if identity is not None and identity.is_alive() else -1

    def log(self, name: str) -> str:
        """What a replica has logged."""
        return self.operator.process(name).log.read_text(encoding="utf-8", errors="replace")

    @contextlib.contextmanager
    def new_in_log(self, name: str) -> Iterator[Callable[[], str]]:
        """Gives a function that returns what a replica logs from now on."""
        before = len(self.log(name))
        yield lambda: self.log(name)[before:]

    def etcd(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A call of etcd's JSON gateway."""
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port("etcd"), timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body))
            return dict(json.loads(connection.getresponse().read()))
