"""The API server's audit log: who asked what, so that a test can count requests.

Format: `audit.k8s.io/v1` Event objects, one JSON object per line, level Metadata; one line per
request (stage ResponseComplete), for a watch when it starts (stage ResponseStarted).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from controlplane.waiting import eventually

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A request is told of once: when it is answered, or, for a watch, when it begins.
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version"]},
        # The fake kubelet renews a lease per node; no test asks about it.
        {"level": "None", "users": ["kwok"]},
        {
            "level": "None",
            "users": ["system:kube-controller-manager", "system:kube-scheduler"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata"},
    ],
}


class AuditLog:
    """Reads the audit log of one control plane."""

    def __init__(self, path: Path, fence: Callable[[str], object]) -> None:
        """Opens nothing yet.

        Args:
            path: The log file.
            fence: Sends any request with the given user agent, so that its line can be awaited.
        """
        self.path = path
        self._fence = fence

    def mark(self) -> int:
        """Returns a position: all requests answered before the call lie before it."""
        agent = f"audit-fence-{secrets.token_hex(8)}"
        position = self.path.stat().st_size if self.path.exists() else 0
        self._fence(agent)
        # The line is written right after the answer is sent, so it may lag by a moment.
        eventually(
            f"{self.path} tells of a request that was answered",
            lambda: any(_agent(event) == agent for event in self._read(position)),
            seconds=30,
            interval=0.01,
        )
        return self.path.stat().st_size

    def events(self, since: int = 0, **match: str) -> list[dict[str, Any]]:
        """Returns the requests after a position that match everything given.

        Args:
            since: A position from `mark`; 0 is the start of the log.
            **match: `user` (exact name, as `system:serviceaccount:NAMESPACE:NAME`), `user_agent`
                (a part of the header), `verb` (get, list, watch, create, update, patch, delete),
                `resource` (`pods`, or with the subresource `pods/binding`), `namespace`, `name`.

        Raises:
            KeyError: There is no such thing to match by.
        """
        agent = match.pop("user_agent", "")
        wanted = [(_FIELDS[key], value) for key, value in match.items()]
        self.mark()
        return [
            event
            for event in self._read(since)
            # A watch is told of at its start and again at its end; it is one request.
            if not (event["verb"] == "watch" and event["stage"] == "ResponseComplete")
            and not _agent(event).startswith("audit-fence-")
            and agent in _agent(event)
            and all(field(event) == value for field, value in wanted)
        ]

    def count(self, since: int = 0, **match: str) -> int:
        """Returns the number of requests after a position; `match` as in `events`."""
        return len(self.events(since, **match))

    def _read(self, position: int) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as file:
            file.seek(position)
            for line in file:
                if line.endswith(b"\n"):  # the last one may be in the middle of being written
                    yield json.loads(line)


def _agent(event: Mapping[str, Any]) -> str:
    return str(event.get("userAgent", ""))


def _resource(event: Mapping[str, Any]) -> str:
    reference = event.get("objectRef", {})
    parts = (reference.get("resource", ""), reference.get("subresource", ""))
    return "/".join(part for part in parts if part)


_FIELDS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "user": lambda event: event["user"].get("username"),
    "verb": lambda event: event["verb"],
    "resource": _resource,
    "namespace": lambda event: event.get("objectRef", {}).get("namespace"),
    "name": lambda event: event.get("objectRef", {}).get("name"),
}
