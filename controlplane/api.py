"""Plain JSON requests to the API server, for the harness' own set-up, waiting and checks."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import ssl
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

USER_AGENT = "schedclass-harness"
_MERGE_PATCH = "application/merge-patch+json"
_TRIES_WHEN_BUSY = 10
_KEPT_SECONDS = 30.0  # the API server closes connections that were idle for 90 s


class ApiError(RuntimeError):
    """The API server refused a request.

    Attributes:
        status: The HTTP status code.
        reason: The reason of the Status object, such as "NotFound".
        body: The answer as it came, a Status object as a rule.
        warnings: The texts of the Warning headers.
    """

    def __init__(
        self, what: str, status: int, body: Mapping[str, Any], warnings: list[str]
    ) -> None:
        super().__init__(f"{what}: {status} {body.get('message', body)}")
        self.status = status
        self.reason = body.get("reason", "")
        self.body = body
        self.warnings = warnings


class Api:
    """A client of one API server with one identity, for any number of threads.

    Connections are kept for the next request, as a handshake costs more than most answers. No
    request is sent twice for that: a connection that the server has closed is not used again.
    """

    def __init__(self, port: int, context: ssl.SSLContext, *, token: str | None = None) -> None:
        self._port = port
        self._context = context
        self._headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[tuple[float, http.client.HTTPSConnection]] = []
        weakref.finalize(self, _close_all, self._idle)
        self.warnings: list[str] = []
        """Warning texts of the last request."""

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> dict[str, Any]:
        """Sends one request and returns the JSON object that answers it.

        A 429 that says when to come back is tried again, as kubectl does: the API server answers
        so while it sets up the storage of a new CustomResourceDefinition.

        Raises:
            ApiError: The answer's status is 400 or more.
            OSError: The server cannot be reached.
        """
        status, answer, warnings = self._send(method, path, body, headers or {}, timeout)
        try:
            decoded = json.loads(answer) if answer else {}
        except ValueError:
            decoded = {"message": answer.decode(errors="replace")}
        self.warnings = warnings
        if status >= http.client.BAD_REQUEST:
            raise ApiError(f"{method} {path}", status, decoded, warnings)
        return dict(decoded)

    def get(self, path: str) -> dict[str, Any]:
        """Returns the object or list at a path."""
        return self.request("GET", path)

    def find(self, path: str) -> dict[str, Any] | None:
        """Returns the object at a path, or None if there is none."""
        try:
            return self.request("GET", path)
        except ApiError as failure:
            if failure.status == http.client.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Creates an object in the collection at a path."""
        return self.request("POST", path, body)

    def merge_patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Applies a JSON merge patch."""
        return self.request("PATCH", path, body, headers={"Content-Type": _MERGE_PATCH})

    def delete(self, path: str) -> dict[str, Any]:
        """Deletes the object (or collection) at a path."""
        return self.request("DELETE", path)

    def text(self, path: str) -> str:
        """Returns what a GET of a path that does not speak JSON answers, such as /metrics.

        Raises:
            ApiError: The answer's status is 400 or more.
        """
        status, answer, warnings = self._send("GET", path, None, {"Accept": "*/*"}, 30)
        if status >= http.client.BAD_REQUEST:
            raise ApiError(f"GET {path}", status, {"message": answer.decode()}, warnings)
        return answer.decode()

    def answers_ok(self, path: str = "/readyz") -> bool:
        """Tells whether a GET is answered with 200; unreachable is a no."""
        try:
            return self._send("GET", path, None, {}, 5)[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def _send(
        self, method: str, path: str, body: object, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, bytes, list[str]]:
        for _ in range(_TRIES_WHEN_BUSY - 1):
            answer, wait = self._send_once(method, path, body, headers, timeout)
            if wait is None:
                return answer
            time.sleep(wait)
        return self._send_once(method, path, body, headers, timeout)[0]

    def _send_once(
        self, method: str, path: str, body: object, headers: Mapping[str, str], timeout: float
    ) -> tuple[tuple[int, bytes, list[str]], float | None]:
        """Returns the answer, and the seconds to wait before another try if it asks for one."""
        data = None if body is None else json.dumps(body).encode()
        content = {"Content-Type": "application/json"} if data else {}
        with self._connection(timeout) as connection:
            connection.request(method, path, data, {**self._headers, **content, **headers})
            response = connection.getresponse()
            warnings = response.headers.get_all("Warning") or []
            answer = response.status, response.read(), [_warning_text(w) for w in warnings]
            after = response.headers.get("Retry-After", "")
            busy = response.status == http.client.TOO_MANY_REQUESTS and after.isdecimal()
            return answer, float(after) if busy else None

    @contextlib.contextmanager
    def _connection(self, timeout: float) -> Iterator[http.client.HTTPSConnection]:
        """A connection for one request; kept for the next if that was answered."""
        connection = self._kept() or http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._context
        )
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # it is closed by itself where the server asked for that
            self._idle.append((time.monotonic() + _KEPT_SECONDS, connection))

    def _kept(self) -> http.client.HTTPSConnection | None:
        """A connection on which there is nothing to read: not even its end."""
        with contextlib.suppress(IndexError):  # none is left, perhaps as of another thread
            while True:
                until, connection = self._idle.pop()
                if time.monotonic() < until and not _is_readable(connection):
                    return connection
                connection.close()
        return None


def _is_readable(connection: http.client.HTTPSConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _close_all(kept: list[tuple[float, http.client.HTTPSConnection]]) -> None:
    for _, connection in kept:
        connection.close()


def _warning_text(header: str) -> str:
    """Returns the text of `299 - "text"` (RFC 7234 section 5.5)."""
    quoted = header.partition('"')[2].rpartition('"')[0]
    return quoted.replace('\\"', '"').replace("\\\\", "\\") or header


def plain_answers_ok(port: int, path: str) -> bool:
    """Tells whether an unencrypted GET of a port of 127.0.0.1 is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            return response.status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
