"""Who talks to the API server: kubeconfigs and clients for any user or ServiceAccount."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from controlplane import kubeconfig
from controlplane.api import Api
from controlplane.components import Layout
from controlplane.pki import Authority
from controlplane.processes import write_atomically

TOKEN_SECONDS = 24 * 3600

ADMIN = "admin"
ADMINS = ("system:masters",)

_COMPONENTS = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ADMINS),
}


class Identities:
    """Issues identities of one control plane."""

    def __init__(self, layout: Layout) -> None:
        """Makes nothing yet; see `prepare`."""
        self._layout = layout
        self._authority = Authority(layout.pki)
        self.admin_kubeconfig = layout.folder / "kubeconfig"

    def prepare(self) -> None:
        """Makes the CA and the kubeconfigs of the admin and the components unless they exist."""
        self._authority.prepare()
        if not self.admin_kubeconfig.exists():
            self._write(self.admin_kubeconfig, ADMIN, ADMINS)
        for component, (user, groups) in _COMPONENTS.items():
            path = self._layout.kubeconfig(component)
            if not path.exists():
                self._write(path, user, groups)

    def tls(self) -> ssl.SSLContext:
        """Returns a client context that trusts this control plane's CA only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._authority.certificate_file)
        return context

    def api(self, user: str, groups: Sequence[str] = ()) -> Api:
        """Returns a plain JSON client that authenticates as any user in any groups."""
        pair = self._authority.issue(user, groups)
        pem = self._layout.pki / "clients" / f"{_file_name(user)}.pem"
        write_atomically(pem, pair.certificate + pair.key, 0o600)
        context = self.tls()
        context.load_cert_chain(pem)
        return Api(self._layout.ports["kube-apiserver"], context)

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Writes a kubeconfig for any user in any groups (by client certificate)."""
        return self._write(self._layout.kubeconfig(_file_name(user)), user, groups)

    def service_account_token(self, namespace: str, name: str) -> str:
        """Returns a token of a ServiceAccount, valid for a day (TokenRequest).

        Raises:
            ApiError: There is no such ServiceAccount.
        """
        answer = self.api(ADMIN, ADMINS).create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"spec": {"expirationSeconds": TOKEN_SECONDS}},
        )
        return str(answer["status"]["token"])

    def service_account_api(self, namespace: str, name: str) -> Api:
        """Returns a plain JSON client that authenticates with a ServiceAccount's token."""
        token = self.service_account_token(namespace, name)
        return Api(self._layout.ports["kube-apiserver"], self.tls(), token=token)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Writes a kubeconfig for a ServiceAccount; its token lies in a file of its own.

        Calling it again renews the token for everybody who uses the file.
        """
        path = self._layout.kubeconfig(f"{namespace}.{name}")
        token = path.with_name(f"{path.name}.token")
        write_atomically(token, self.service_account_token(namespace, name), 0o600)
        return kubeconfig.write(
            path,
            server=self._layout.url("kube-apiserver"),
            ca=self._authority.certificate_file.read_text(encoding="utf-8"),
            user=f"system:serviceaccount:{namespace}:{name}",
            credentials=kubeconfig.token_file(token),
        )

    def _write(self, path: Path, user: str, groups: Sequence[str]) -> Path:
        return kubeconfig.write(
            path,
            server=self._layout.url("kube-apiserver"),
            ca=self._authority.certificate_file.read_text(encoding="utf-8"),
            user=user,
            credentials=kubeconfig.certificate_of(self._authority.issue(user, groups)),
        )


def _file_name(user: str) -> str:
    return user.replace(":", ".").replace("/", "_")
