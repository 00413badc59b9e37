"""Admission reviews: what the server reads from a request and what it answers.

Kopf's engine is shown the metadata of the object and nothing else. Handlers get the whole review as
a `Review`, which travels through Kopf by reference in its `headers` argument: Kopf hides most
request fields (namespace, name, uid), would copy and compare whole objects for each patch (half of
the CPU of a review), and would remember the uid of every object that is updated for ever.
"""

import base64
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, cast

import kopf
import orjson

from schedclass.domain.admission import Decision, Outcome
from schedclass.domain.findings import Finding, Reason
from schedclass.domain.text import shortened, visible

Json = dict[str, Any]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
HEADER: Final = "schedclass-review"

WARNING_BYTES: Final = 256
ALL_WARNINGS_BYTES: Final = 4096
"""The API server may cut single warnings at 256 and drops what exceeds 4096 in all (KEP-1693)."""

_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_HIDDEN_FROM_KOPF: Final = frozenset({"uid", "managedFields"})
_STATUS_REASONS: Final = {403: "Forbidden", 409: "Conflict", 422: "Invalid"}
_CAUSE: Final = "FieldValueInvalid"
"""`metav1.CauseTypeFieldValueInvalid`"""
_NOTHING: Final[Mapping[str, Any]] = {}


class MalformedReviewError(Exception):
    """The request is no admission review; the message is one sentence that names the field."""


class UndecidedError(Exception):
    """A handler cannot decide, so the failure policy shall: the server answers with HTTP 500.

    Attributes:
        finding: why; it is the text of the answer.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(frozen=True, slots=True)
class HandlerRule:
    """Which reviews a handler is for, declared once for Kopf's registry and for the server.

    Attributes:
        id: handler id, the last part of the URL path.
        group: API group of the resource, empty for the core group.
        version: its API version.
        plural: its plural name.
        operations: those that are handled; others are allowed without a patch.
        subresource: the only one that is handled; None for the object itself.
    """

    id: str
    group: str
    version: str
    plural: str
    operations: frozenset[str]
    subresource: str | None = None

    def __str__(self) -> str:
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{resource} ({self.version})"

    def is_about(self, review: "Review") -> bool:
        """Whether a review is about the resource of this handler."""
        resource = review.request["resource"]
        return bool(
            resource.get("resource") == self.plural
            and resource.get("group", "") == self.group
            and resource.get("version") == self.version
        )


@dataclass(slots=True, eq=False)
class Review:
    """One admission request and the answer as it is made.

    Attributes:
        request: `AdmissionReview.request` as sent.
        uid: of the request.
        operation: CREATE, UPDATE, DELETE or CONNECT.
        subresource: e.g. `status`; None for the object itself.
        namespace: `request.namespace`, which counts rather than the body's; None if cluster-scoped.
        name: `request.name`; empty while a generated name is not known.
        username: who asks.
        groups: the groups of that user.
        dry_run: whether nothing may be written, here or anywhere.
        object: the new object; null maps of its metadata, and a null spec, count as absent.
        old_object: the stored object, likewise.
        operations: JSON Patch of the answer, relative to `object`.
        warnings: what the client is told; the server cuts them to what the API server lets through.
        causes: what a denial that has several reasons rests on, each by itself.
        reason: metric label and log field of the answer.
        failure: what a handler raised, unless it was a denial.
    """

    request: Mapping[str, Any]
    uid: str
    operation: str
    subresource: str | None
    namespace: str | None
    name: str
    username: str
    groups: tuple[str, ...]
    dry_run: bool
    object: Json | None
    old_object: Json | None
    operations: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    causes: Sequence[Finding] = ()
    reason: Reason = Reason.ADMITTED
    failure: Exception | None = None

    @classmethod
    def of(cls, headers: Mapping[str, Any]) -> Self:
        """The review behind a Kopf handler's `headers` argument."""
        return cast("Self", headers[HEADER])

    def answer(self, decision: Decision) -> None:
        """Answer with what the domain has decided.

        Raises:
            kopf.AdmissionError: to deny; only this becomes a denial.
            UndecidedError: to leave it to the failure policy.
        """
        self.reason = decision.finding.reason
        self.warnings.extend(finding.named for finding in decision.warnings)
        if decision.outcome is Outcome.DENIED:
            self.causes = decision.causes
            raise kopf.AdmissionError(decision.finding.named, code=decision.code)
        if decision.outcome is Outcome.UNKNOWN:
            raise UndecidedError(decision.finding)
        self.operations.extend(decision.patch)


ReviewHandler = Callable[[Review], Awaitable[None]]
KopfHandler = Callable[..., Coroutine[Any, Any, None]]


def as_kopf_handler(handler: ReviewHandler) -> KopfHandler:
    """Let Kopf call a handler of reviews.

    What the handler raises is kept on the review, because Kopf would report any exception as a
    denial; the server tells the two apart.
    """

    @functools.wraps(handler)
    async def call(*, headers: Mapping[str, Any], **_: Any) -> None:
        review = Review.of(headers)
        try:
            await handler(review)
        except kopf.AdmissionError:
            raise
        except Exception as error:
            review.failure = error
            raise

    return call


def register(
    registry: kopf.OperatorRegistry,
    rule: HandlerRule,
    handler: ReviewHandler,
    *,
    mutates: bool,
) -> None:
    """Register a handler with Kopf for exactly what its rule says."""
    decorate = kopf.on.mutate if mutates else kopf.on.validate
    decorate(
        rule.group,
        rule.version,
        rule.plural,
        id=rule.id,
        operations=cast("Any", sorted(rule.operations)),
        subresource=rule.subresource,
        registry=registry,
    )(cast("Any", as_kopf_handler(handler)))


def parse_review(body: bytes) -> Review:
    """Read an AdmissionReview.

    Raises:
        MalformedReviewError: the body is not JSON or a field has the wrong type.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReviewError(f"the body is not JSON: {error}") from None
    review = _mapping(review, "the body")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise MalformedReviewError(
            f"apiVersion and kind have to be {API_VERSION} and {KIND}: "
            "set admissionReviewVersions to v1"
        )
    request = _mapping(review.get("request"), "request")
    resource = _mapping(request.get("resource"), "request.resource")
    for name in ("group", "version", "resource"):
        _text(resource.get(name), f"request.resource.{name}", optional=name == "group")
    operation = _text(request.get("operation"), "request.operation")
    if operation not in _OPERATIONS:
        raise MalformedReviewError("request.operation has to be CREATE, UPDATE, DELETE or CONNECT")
    user = _mapping(request.get("userInfo"), "request.userInfo")
    groups = user.get("groups") or []
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise MalformedReviewError("request.userInfo.groups has to be a list of strings")
    dry_run = request.get("dryRun") or False
    if not isinstance(dry_run, bool):
        raise MalformedReviewError("request.dryRun has to be true or false")
    return Review(
        request=request,
        uid=_text(request.get("uid"), "request.uid"),
        operation=operation,
        subresource=_text(request.get("subResource"), "request.subResource", optional=True) or None,
        namespace=_text(request.get("namespace"), "request.namespace", optional=True) or None,
        name=_text(request.get("name"), "request.name", optional=True),
        username=_text(user.get("username"), "request.userInfo.username", optional=True),
        groups=tuple(groups),
        dry_run=dry_run,
        object=_object(request.get("object"), "request.object"),
        old_object=_object(request.get("oldObject"), "request.oldObject"),
    )


def for_kopf(review: Review) -> Json:
    """The review as Kopf gets to see it: identity, labels and annotations of the objects."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {
            "uid": review.uid,
            "resource": {"group": "", **review.request["resource"]},
            "subResource": review.subresource,
            "operation": review.operation,
            "userInfo": review.request["userInfo"],
            "dryRun": review.dry_run,
            "object": _metadata_only(review.object),
            "oldObject": _metadata_only(review.old_object),
        },
    }


def allowed(review: Review) -> Json:
    """The answer that lets the request pass, with the patch and warnings of the review."""
    response: Json = {"uid": review.uid, "allowed": True}
    if review.operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = _encode(_complete(review))
    return _respond(review, response)


def denied(review: Review, message: str, code: int) -> Json:
    """The answer that refuses the request."""
    status: Json = {"message": message, "code": code}
    if code in _STATUS_REASONS:
        status["reason"] = _STATUS_REASONS[code]
    if review.causes:
        status["details"] = _details(review)
    return _respond(review, {"uid": review.uid, "allowed": False, "status": status})


def _details(review: Review) -> Json:
    """The object and each cause, as in the API server's own answer to an invalid object.

    kubectl shows them instead of the message, so each has the word of its reason too.
    """
    kind = review.request.get("kind")
    of_kind = kind if isinstance(kind, dict) else _NOTHING
    return {
        "name": review.name,
        "group": str(of_kind.get("group") or ""),
        "kind": str(of_kind.get("kind") or ""),
        "causes": [
            {
                "reason": _CAUSE,
                "message": replace(finding, path="").named,
                "field": finding.path,
            }
            for finding in review.causes
        ],
    }


def tidy_warnings(warnings: Iterable[str]) -> list[str]:
    """Warnings as they fit into a response header: on one line, each once, not too long.

    Returns:
        At most 256 bytes each and 4096 in all; the last one says how many were left out.
    """
    unique = list(dict.fromkeys(filter(None, map(_one_line, warnings))))
    room = ALL_WARNINGS_BYTES - 64
    kept: list[str] = []
    for index, warning in enumerate(unique):
        room -= len(warning.encode())
        if room < 0:
            kept.append(f"{len(unique) - index} further warnings are not shown")
            break
        kept.append(warning)
    return kept


def _respond(review: Review, response: Json) -> Json:
    if review.warnings:
        response["warnings"] = tidy_warnings(review.warnings)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _one_line(warning: str) -> str:
    return shortened(" ".join(visible(warning).split()), WARNING_BYTES)


def _complete(review: Review) -> list[Mapping[str, Any]]:
    """The patch, preceded by the metadata that a body without any lacks (RFC 6902, section 4.1)."""
    sent = review.request.get("object") or _NOTHING
    if sent.get("metadata") is None and any(
        str(operation["path"]).startswith("/metadata/") for operation in review.operations
    ):
        return [{"op": "add", "path": "/metadata", "value": {}}, *review.operations]
    return review.operations


def _encode(operations: list[Mapping[str, Any]]) -> str:
    return base64.b64encode(orjson.dumps(operations)).decode()


def _metadata_only(obj: Json | None) -> Json | None:
    if obj is None:
        return None
    metadata = obj["metadata"]
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "metadata": {key: value for key, value in metadata.items() if key not in _HIDDEN_FROM_KOPF},
    }


def _object(value: object, path: str) -> Json | None:
    """An object of the review, null where it may be absent counting as absent."""
    if value is None:
        return None
    obj = _mapping(value, path)
    sent = obj.get("metadata")
    metadata: Json = {} if sent is None else _mapping(sent, f"{path}.metadata")
    for name in ("annotations", "labels"):
        if metadata.get(name) is not None:
            _mapping(metadata[name], f"{path}.metadata.{name}")
    spec_is_null = "spec" in obj and obj["spec"] is None
    if sent is metadata and not spec_is_null and None not in metadata.values():
        return obj
    return {
        **{key: value for key, value in obj.items() if not (key == "spec" and spec_is_null)},
        "metadata": {key: value for key, value in metadata.items() if value is not None},
    }


def _mapping(value: object, path: str) -> Json:
    if not isinstance(value, dict):
        raise MalformedReviewError(f"{path} has to be a JSON object")
    return value


def _text(value: object, path: str, *, optional: bool = False) -> str:
    if value is None and optional:
        return ""
    if not isinstance(value, str) or not (value or optional):
        raise MalformedReviewError(f"{path} has to be a string")
    return value
