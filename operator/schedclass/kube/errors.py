# ruff: noqa: N818 - the names are those of Kubernetes' own reasons
"""What can go wrong between us and the API server.

Two kinds, because callers must tell them apart: the server answered with a refusal (`ApiError`), or
there was no usable answer at all (`Unreachable`). Neither says that an object is absent, except a
`NotFound` with `object_absent`.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson


class KubeError(Exception):
    """Base of everything that the adapters of this package raise."""


class ConfigurationError(KubeError):
    """No usable kubeconfig or in-cluster credentials; the message names the file or variable."""


class Unreachable(KubeError):
    """No usable answer: connection refused or lost, timeout, TLS fault, or a body that is not JSON.

    Attributes:
        path: the request's path.
        cause: what happened, in words.
    """

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


class ApiError(KubeError):
    """The API server refused.

    Attributes:
        status: the HTTP status, or the `code` of the Status object in a watch's ERROR event.
        reason: `Status.reason`, e.g. `NotFound`; empty if the answer was no Status object.
        message: `Status.message`, else the beginning of the answer's text.
        retry_after: seconds the server asks to wait, from `Retry-After` or
            `Status.details.retryAfterSeconds`; None if it did not say.
        path: the request's path.
        details: `Status.details`, empty if there were none.
    """

    def __init__(  # noqa: PLR0913 - the fields of a Status
        self,
        status: int,
        reason: str,
        message: str,
        *,
        path: str,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{path}: {status} {reason}: {message}" if reason else f"{path}: {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.path = path
        self.details: Mapping[str, Any] = details or {}

    def has_cause(self, reason: str) -> bool:
        """Whether `Status.details.causes` lists this reason, e.g. `NamespaceTerminating`."""
        causes = self.details.get("causes")
        return isinstance(causes, list) and any(
            isinstance(cause, dict) and cause.get("reason") == reason for cause in causes
        )


class Unauthorized(ApiError):
    """401, after the credentials were read again and, if they had changed, tried again."""


class Forbidden(ApiError):
    """403: a right is missing, or an admission plugin or policy refused."""


class NotFound(ApiError):
    """404.

    The object does not exist only if `object_absent`; otherwise the API itself is not served (its
    CRD or aggregated API server is missing), which says nothing about any object.
    """

    @property
    def object_absent(self) -> bool:
        """Whether the API server itself said that this one object does not exist."""
        return self.reason == "NotFound" and bool(self.details.get("name"))


class Conflict(ApiError):
    """409: a stale resourceVersion or failed precondition, an SSA conflict, or `AlreadyExists`."""


class Gone(ApiError):
    """410: the resourceVersion or `continue` token is too old; only a fresh LIST helps."""


class TooManyRequests(ApiError):
    """429 of API Priority and Fairness, or of a PodDisruptionBudget; see `retry_after`."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def from_response(status: int, headers: Mapping[str, str], body: bytes, path: str) -> ApiError:
    """The error that an HTTP answer of 400 or above stands for.

    Args:
        status: the HTTP status.
        headers: the answer's headers, case-insensitive.
        body: the answer's body; a Status object as JSON if the API server itself wrote it.
        path: the request's path.

    Returns:
        An `ApiError` or the subclass for this status; never raises, whatever the body holds.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or parsed.get("kind") != "Status":
        parsed = {"message": body[:200].decode(errors="replace").strip()}
    return from_status(
        parsed, path, status=status, retry_after=_seconds(headers.get("Retry-After"))
    )


def from_status(
    obj: Mapping[str, Any], path: str, *, status: int = 0, retry_after: float | None = None
) -> ApiError:
    """The error that a Status object stands for, as in the ERROR event of a watch.

    Args:
        obj: a `metav1.Status` as decoded JSON; missing or mistyped fields are tolerated.
        path: the request's path.
        status: the HTTP status if there was one; else `obj["code"]`, else 500.
        retry_after: seconds from the `Retry-After` header; else `details.retryAfterSeconds`.
    """
    code = obj.get("code")
    status = status or (code if isinstance(code, int) and code > 0 else 500)
    details = obj.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds")) or None
    return _BY_STATUS.get(status, ApiError)(
        status,
        str(obj.get("reason") or ""),
        str(obj.get("message") or ""),
        path=path,
        retry_after=retry_after,
        details=details,
    )


def _seconds(value: object) -> float | None:
    """A number of seconds; Kubernetes does not use the HTTP-date form of RFC 9110."""
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 86_400 else None
