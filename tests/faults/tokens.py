"""ServiceAccount tokens that live for seconds; TokenRequest gives them 600 at least."""

import base64
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from controlplane import Cluster
from controlplane.installation import NAMESPACE, RELEASE
from tests.faults.scene import ProxiedInstallation

ISSUER = "https://kubernetes.default.svc"

CACHED_SECONDS = 10
"""How long the API server believes a token without looking at it again."""


def short_token(cluster: Cluster, role: str, *, seconds: float) -> str:
    """A token of a role's ServiceAccount, signed with the control plane's own key."""
    account = f"{RELEASE}-{role}"
    found = cluster.admin.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}")
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{NAMESPACE}:{account}",
        "iat": now,
        "nbf": now,
        "exp": int(now + seconds),
        "kubernetes.io": {
            "namespace": NAMESPACE,
            "serviceaccount": {"name": account, "uid": found["metadata"]["uid"]},
        },
    }
    pem = (cluster.layout.pki / "tokens.key").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    signed = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part(claims)}"
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_base64(signature)}"


def _part(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Rotation:
    """Writes new short-lived tokens into the replicas' files all the time, as a kubelet does."""

    def __init__(self, operator: ProxiedInstallation, *, seconds: float) -> None:
        self.turns = 0
        self._operator = operator
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="token rotation")

    def __enter__(self) -> Self:
        self._turn()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._operator.renew_tokens(self._operator.replicas)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds / 2):
            self._turn()

    def _turn(self) -> None:
        for name in self._operator.replicas:
            token = short_token(
                self._operator.cluster, name.rpartition("-")[0], seconds=self._seconds
            )
            self._operator.write_token(name, token)
        self.turns += 1
