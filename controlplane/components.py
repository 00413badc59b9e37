"""How each program of the control plane is started and asked whether it is ready."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from controlplane import audit
from controlplane.api import Api, plain_answers_ok
from controlplane.paths import STAGES
from controlplane.processes import Command, write_atomically
from controlplane.programs import program

ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The components, in the order in which they are started."""

PORTS = ("etcd", "etcd-peer", *ORDER[1:])

SERVICE_ADDRESSES = "10.96.0.0/16"

ROOMY = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Environment with which a component trades memory for a sixth of its CPU: Go collects garbage
less often while there is room (https://go.dev/doc/gc-guide)."""


@dataclass(frozen=True)
class Layout:
    """Files and ports of one control plane."""

    folder: Path
    ports: Mapping[str, int]

    @property
    def pki(self) -> Path:
        """The folder of certificates and keys."""
        return self.folder / "pki"

    @property
    def audit_log(self) -> Path:
        """The audit log, JSON lines."""
        return self.folder / "logs" / "audit.jsonl"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a component or a made-up user."""
        return self.folder / "kubeconfigs" / user

    def url(self, component: str, scheme: str = "https") -> str:
        """The base URL of a component."""
        return f"{scheme}://127.0.0.1:{self.ports[component]}"


def commands(layout: Layout, *, with_audit: bool, env: Mapping[str, str]) -> dict[str, Command]:
    """Returns how each component is started; writes the configuration files they read."""
    own = {
        "etcd": _etcd(layout),
        "kube-apiserver": _apiserver(layout, with_audit=with_audit),
        "kube-controller-manager": _controller_manager(layout),
        "kube-scheduler": _scheduler(layout),
        "kwok": _kwok(layout),
    }
    return {name: replace(command, env={**command.env, **env}) for name, command in own.items()}


def probes(layout: Layout, admin: Api, tls: ssl.SSLContext) -> dict[str, Callable[[], bool]]:
    """Returns for each component the question whether it is ready now."""
    ports = layout.ports
    return {
        "etcd": lambda: plain_answers_ok(ports["etcd"], "/readyz"),
        "kube-apiserver": lambda: admin.answers_ok("/readyz"),
        "kube-controller-manager": lambda: tls_answers_ok(
            ports["kube-controller-manager"], "/healthz", tls
        ),
        "kube-scheduler": lambda: tls_answers_ok(ports["kube-scheduler"], "/readyz", tls),
        "kwok": lambda: plain_answers_ok(ports["kwok"], "/readyz"),
    }


def tls_answers_ok(port: int, path: str, context: ssl.SSLContext) -> bool:
    """Tells whether GET over https on 127.0.0.1 answers 200 now."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        with closing(connection):
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def _etcd(layout: Layout) -> Command:
    client = layout.url("etcd", "http")
    peer = layout.url("etcd-peer", "http")
    return _command(
        layout,
        "etcd",
        f"--data-dir={layout.folder / 'etcd'}",
        "--name=default",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # The data need not survive a power cut.
        "--unsafe-no-fsync",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--log-level=warn",
    )


def _apiserver(layout: Layout, *, with_audit: bool) -> Command:
    pki = layout.pki
    arguments = [
        f"--etcd-servers={layout.url('etcd', 'http')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-apiserver']}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--cert-dir={pki}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'tokens.pub'}",
        f"--service-account-signing-key-file={pki / 'tokens.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        "--allow-privileged=true",
        # There is no address under which pods could reach this server.
        "--endpoint-reconciler-type=none",
    ]
    if with_audit:
        policy = layout.folder / "config" / "audit-policy.json"
        write_atomically(policy, json.dumps(audit.POLICY, indent=1))
        arguments += [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={layout.audit_log}",
            "--audit-log-maxsize=0",  # one file, never rotated away from its reader
        ]
    return _command(layout, "kube-apiserver", *arguments)


def _controller_manager(layout: Layout) -> Command:
    kubeconfig = layout.kubeconfig("kube-controller-manager")
    pki = layout.pki
    return _command(
        layout,
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-tolerate-lookup-failure",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-controller-manager']}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        # Without credentials of their own its controllers are forbidden everything.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'tokens.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        "--controllers=*,-node-ipam-controller",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )


def _scheduler(layout: Layout) -> Command:
    kubeconfig = str(layout.kubeconfig("kube-scheduler"))
    configuration = layout.folder / "config" / "kube-scheduler.json"
    write_atomically(
        configuration,
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": kubeconfig, "qps": 200, "burst": 400},
                "leaderElection": {"leaderElect": False},
            },
            indent=1,
        ),
    )
    return _command(
        layout,
        "kube-scheduler",
        f"--config={configuration}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-tolerate-lookup-failure",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-scheduler']}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
    )


def _kwok(layout: Layout) -> Command:
    return _command(
        layout,
        "kwok",
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{layout.ports['kwok']}",
        *(f"--config={stage}" for stage in sorted(STAGES.glob("*.yaml"))),
    )


def _command(layout: Layout, name: str, *arguments: str) -> Command:
    return Command(
        [str(program(name)), *arguments],
        # A home of its own, so that no file of the user's is read or written.
        env={"HOME": str(layout.folder / "home")},
        unset=("KUBECONFIG",),
    )
