"""One live webhook replica, asked directly as the API server asks it: over TLS, by its CA."""

import base64
import contextlib
import http.client
import json
import re
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonpatch

from controlplane import Installation
from controlplane.installation import NAMESPACE, RELEASE
from tests.cluster.objects import Json

PODS = {"group": "", "version": "v1", "resource": "pods"}
NAMESPACES = {"group": "", "version": "v1", "resource": "namespaces"}


@dataclass(frozen=True)
class Reply:
    """What came back: the HTTP status and the body."""

    status: int
    text: str

    @property
    def response(self) -> Json:
        """The answer of an AdmissionReview."""
        assert self.status == 200, (self.status, self.text)
        return dict(json.loads(self.text)["response"])

    @property
    def patch(self) -> list[Json] | None:
        """Its JSON Patch; None if nothing is changed."""
        patch = self.response.get("patch")
        return json.loads(base64.b64decode(patch)) if patch is not None else None

    def applied_to(self, obj: Json) -> Json:
        """The object as the API server would go on with it."""
        return dict(jsonpatch.apply_patch(obj, self.patch or []))


class Replica:
    """A webhook replica by the name of its process."""

    def __init__(self, operator: Installation, name: str) -> None:
        self.name = name
        self._port = operator.cluster.port(name)
        self._probe_port = operator.probe_port(name)
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-webhook-tls"
        secret = operator.cluster.admin.get(path)
        ca = base64.b64decode(secret["data"]["ca.crt"]).decode()
        self._context = ssl.create_default_context(cadata=ca)

    def send(
        self, path: str, body: bytes | Json, *, method: str = "POST", timeout: float = 15
    ) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._context, timeout=timeout
        )
        with contextlib.closing(connection):
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode())

    def review_pod(self, obj: Json | None, namespace: str, **request: Any) -> Reply:
        """Sends a review of a pod; `request` adds to or replaces fields of the request."""
        return self.send("/mutate-pods", review(PODS, obj, namespace=namespace, **request))

    def metric(self, name: str, **wanted: str) -> float:
        """The sum of the series of a metric that have these labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self._probe_port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        series = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
        pairs = [f'{key}="{value}"' for key, value in wanted.items()]
        return sum(float(value) for found, value in series if all(pair in found for pair in pairs))

    def is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._probe_port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200


def review(
    resource: Json,
    obj: Json | None,
    *,
    operation: str = "CREATE",
    user: str = "jane",
    groups: Sequence[str] = ("system:authenticated",),
    **request: Any,
) -> Json:
    """An AdmissionReview as kube-apiserver sends it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": secrets.token_hex(8),
            "resource": resource,
            "operation": operation,
            "userInfo": {"username": user, "groups": list(groups)},
            "object": obj,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }
