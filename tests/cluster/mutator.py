"""Somebody else's mutating webhook: it writes `schedulerName` on the pods of one namespace."""

import base64
import http.server
import json
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controlplane import Api, eventually
from schedclass.domain import names
from schedclass.tls.authority import new_authority, new_certificate
from tests.cluster.objects import WEBHOOKS, pod, pods_path


class OtherMutator:
    """Serves while it is entered, and is registered under a name that decides about the order.

    Attributes:
        scheduler: what it writes.
        only_if: the schedulerName that it replaces; None for any.
        calls: how often it was called.
    """

    def __init__(self, api: Api, name: str, namespace: str) -> None:
        self.scheduler = "linstor-scheduler"
        self.only_if: str | None = None
        self.calls = 0
        self._api = api
        self._name = name
        self._namespace = namespace
        now, day = datetime.now(UTC), timedelta(days=1)
        self._ca = new_authority(common_name="other", now=now, lifetime=2 * day)
        self._pair = new_certificate(self._ca, hosts=("127.0.0.1",), now=now, lifetime=day)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            pem = Path(folder) / "pair.pem"
            pem.write_bytes(self._pair.certificate + self._pair.key)
            context.load_cert_chain(pem)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self._api.create(f"{WEBHOOKS}/mutatingwebhookconfigurations", self._configuration())
        probe = f"{pods_path(self._namespace)}?dryRun=All"

        def is_called() -> bool:
            self._api.create(probe, pod(metadata={"name": None, "generateName": "probe-"}))
            return self.calls > 0

        eventually(f"the API server calls {self._name}", is_called)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._api.delete(f"{WEBHOOKS}/mutatingwebhookconfigurations/{self._name}")
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response of one review."""
        self.calls += 1
        now = request["object"]["spec"].get("schedulerName")
        response = {"uid": request["uid"], "allowed": True}
        if now == self.scheduler or (self.only_if is not None and now != self.only_if):
            return response
        patch = [{"op": "add", "path": "/spec/schedulerName", "value": self.scheduler}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        return {**response, "patchType": "JSONPatch", "patch": encoded}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                review["response"] = answer(review.pop("request"))
                body = json.dumps(review).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return Handler

    def _configuration(self) -> dict[str, Any]:
        client = {
            "url": f"https://127.0.0.1:{self._server.server_port}/",
            "caBundle": base64.b64encode(self._ca.certificate).decode(),
        }
        only_here = {
            "key": names.NAMESPACE_NAME,
            "operator": "In",
            "values": [self._namespace],
        }
        return {
            "metadata": {"name": self._name},
            "webhooks": [
                {
                    "name": "pods.example.com",
                    "clientConfig": client,
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["pods"],
                            "operations": ["CREATE"],
                        }
                    ],
                    "namespaceSelector": {"matchExpressions": [only_here]},
                    "reinvocationPolicy": "Never",  # as most have it: it is the default
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "failurePolicy": "Fail",
                }
            ],
        }
