"""Kubeconfig files, written as JSON (every reader of a kubeconfig takes it, as it is YAML)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.pki import KeyPair
from controlplane.processes import write_atomically


def write(path: Path, *, server: str, ca: str, user: str, credentials: Mapping[str, Any]) -> Path:
    """Writes a kubeconfig with one context, readable by its owner only.

    Args:
        path: The file to write; replaced as a whole.
        server: The API server's URL.
        ca: The CA that signed the server's certificate, PEM.
        user: The name to show for the credentials.
        credentials: The `user` part: see `certificate_of` and `token_file`.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "schedclass",
                "cluster": {"server": server, "certificate-authority-data": _base64(ca)},
            }
        ],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [
            {"name": "schedclass", "context": {"cluster": "schedclass", "user": user}},
        ],
        "current-context": "schedclass",
    }
    write_atomically(path, json.dumps(document, indent=1), 0o600)
    return path


def certificate_of(pair: KeyPair) -> dict[str, str]:
    """Returns credentials that authenticate by a client certificate."""
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def token_file(path: Path) -> dict[str, str]:
    """Returns credentials that authenticate by the bearer token in a file, read again often."""
    return {"tokenFile": str(path.resolve())}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
