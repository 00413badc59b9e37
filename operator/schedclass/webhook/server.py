"""The admission server that Kopf hosts: one HTTPS listener, reviews in, answers out.

Kopf's own server and engine fail in the wrong directions for placement policy: a path no handler
has is answered "allowed", an error in a handler "denied", whatever the failure policy says. Here
an unknown path is 404, a fault of ours is 500, so that the API server applies the failurePolicy of
the webhook configuration, and only a handler's `kopf.AdmissionError` with a code below 500 denies.

Two details of Kopf 1.45 are leaned on: `headers` reaches the handler by reference (see reviews.py),
and a server that is an async context manager is left when the operator stops.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import kopf
import orjson
from aiohttp import web

from schedclass.domain.admission import Outcome
from schedclass.domain.findings import Finding, Reason
from schedclass.listening import listen
from schedclass.settings import Settings
from schedclass.webhook import reviews
from schedclass.webhook.reviews import HandlerRule, MalformedReviewError, Review, UndecidedError

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 3600.0
"""Beyond the 90 s after which Go's client closes idle connections, so it is never us who race."""

BODY_SECONDS: Final = 10.0
"""A review is read within this, or its sender is not an API server."""

IN_FLIGHT_SECONDS: Final = 10.0
BIG_BODY: Final = 1 << 20
_LOG_PAUSE: Final = 10.0


class Observe(Protocol):
    """Told about each answer; must not block or raise."""

    def __call__(self, operation: str, decision: str, reason: str, seconds: float) -> None:
        """`operation` and `reason` come from fixed sets, so they can be metric labels."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and within which limits reviews are served.

    Attributes:
        host: address to listen on; None for all.
        port: port to listen on; 0 for any free one.
        max_body_bytes: larger reviews are answered with 413.
        drain_seconds: how long to serve on after Kopf's stop, while the endpoint is removed from
            the Service.
    """

    host: str | None = None
    port: int = 9443
    max_body_bytes: int = 8 << 20
    drain_seconds: float = 5.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the settings of this process say."""
        return cls(
            settings.webhook_host,
            settings.webhook_port,
            settings.max_body_bytes,
            settings.drain_seconds,
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    decision: Outcome
    reason: Reason
    operation: str = "UNKNOWN"


class AdmissionServer:
    """Serves reviews for Kopf: `settings.admission.server = AdmissionServer(...)`.

    Attributes:
        draining: whether it was told to stop and still serves, so that readiness can end first.
        listening: whether the port is open.
        port: the port it listens on; the one asked for until then.
    """

    def __init__(
        self,
        rules: Iterable[HandlerRule],
        *,
        tls: ssl.SSLContext,
        ready: Callable[[], Awaitable[object]],
        listening: Listening = Listening(),
        observe: Observe = lambda *_: None,
    ) -> None:
        """Nothing is opened before Kopf calls the server.

        Args:
            rules: every handler that exists; other ids are answered with 404.
            tls: what to listen with, see `schedclass.tls.serving`.
            ready: returns once reviews can be answered rightly, e.g. `Event.wait`: caches complete
                and a certificate there. The port stays closed until then.
            listening: where and within which limits.
            observe: told about each answer.
        """
        self.draining = False
        self.listening = False
        self.port = listening.port
        self._rules: Mapping[str, HandlerRule] = {rule.id: rule for rule in rules}
        self._tls = tls
        self._ready = ready
        self._host = listening.host
        self._max_body_bytes = listening.max_body_bytes
        self._drain_seconds = listening.drain_seconds
        self._observe = observe
        self._runner: web.AppRunner | None = None
        self._big_bodies = asyncio.Semaphore(1)
        self._last_logged: dict[Reason, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Serve on for the drain time, answering `Connection: close`, then close."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self.draining = True
        try:
            await asyncio.sleep(self._drain_seconds)
        finally:
            self.listening = False
            await runner.cleanup()

    async def __call__(self, fn: kopf.WebhookFn) -> AsyncIterator[Any]:
        """Listen once ready and serve until cancelled.

        Yields:
            The client configuration, once; it is of no use, as the chart owns the configurations.

        Raises:
            OSError: the port cannot be opened.
        """
        await self._ready()

        async def handle(request: web.Request) -> web.Response:
            return await self._handle(fn, request)

        # More than is allowed, so that the limit is judged (and answered) in one place.
        app = web.Application(client_max_size=self._max_body_bytes + 1)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            shutdown_timeout=IN_FLIGHT_SECONDS,
            auto_decompress=False,  # a small body must not become a large one
        )
        self._runner = runner
        try:
            self.port = await listen(runner, self._host, self.port, tls=self._tls)
        except OSError:
            self._runner = None
            logger.exception("cannot listen for admission reviews", extra={"port": self.port})
            raise
        self.listening = True
        logger.info("admission server listens", extra={"port": self.port})
        yield {"url": f"https://{self._host or 'localhost'}:{self.port}"}
        await asyncio.Event().wait()

    async def _handle(self, fn: kopf.WebhookFn, request: web.Request) -> web.Response:
        began = time.perf_counter()
        answer = await self._answer(fn, request)
        response = web.Response(
            status=answer.status,
            body=answer.body,
            content_type="application/json" if answer.status is HTTPStatus.OK else "text/plain",
        )
        if self.draining or answer.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            response.force_close()
        self._observe(
            answer.operation,
            answer.decision.value,
            answer.reason.value,
            time.perf_counter() - began,
        )
        return response

    async def _answer(self, fn: kopf.WebhookFn, request: web.Request) -> _Answer:
        handler = request.path.rpartition("/")[2]
        rule = self._rules.get(handler)
        if rule is None:
            known = ", ".join(sorted(self._rules))
            return self._refuse(
                HTTPStatus.NOT_FOUND,
                Reason.UNKNOWN_HANDLER,
                f'there is no handler "{handler[:64]}": end the path of the webhook '
                f"configuration with one of {known}",
            )
        if request.method != "POST":
            return self._refuse(
                HTTPStatus.METHOD_NOT_ALLOWED,
                Reason.METHOD_NOT_ALLOWED,
                f"method {request.method} is not allowed: send the review with POST",
            )
        try:
            if request.content.is_eof():  # a usual review: no timer for what is here already
                body = await self._read(request)
            else:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await self._read(request)
        except (TimeoutError, ConnectionError) as error:
            # An API server that died or gave up does not read this answer, but it is counted.
            why = (
                f"the review was not complete after {BODY_SECONDS:g} seconds"
                if isinstance(error, TimeoutError)
                else "the connection was lost before the review was complete"
            )
            return self._refuse(HTTPStatus.REQUEST_TIMEOUT, Reason.REQUEST_TIMEOUT, why)
        if body is None:
            return self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                Reason.REQUEST_TOO_LARGE,
                f"the review is larger than {self._max_body_bytes} bytes",
            )
        if len(body) < BIG_BODY:
            return await self._review(fn, rule, body)
        async with self._big_bodies:  # parsed, a review takes several times its size in memory
            return await self._review(fn, rule, body)

    async def _read(self, request: web.Request) -> bytes | None:
        """The body; None if it is larger than allowed."""
        if (request.content_length or 0) > self._max_body_bytes:
            return None
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return None
        return body if len(body) <= self._max_body_bytes else None

    async def _review(self, fn: kopf.WebhookFn, rule: HandlerRule, body: bytes) -> _Answer:
        try:
            review = reviews.parse_review(body)
        except MalformedReviewError as error:
            return self._refuse(
                HTTPStatus.BAD_REQUEST, Reason.MALFORMED_REVIEW, f"not an admission review: {error}"
            )
        try:
            return await self._decide(fn, rule, review)
        except Exception:  # the process serves everybody: this one request fails, loudly
            logger.exception("admission review failed", extra=_fields(rule, review))
            return self._internal(rule, review)

    async def _decide(self, fn: kopf.WebhookFn, rule: HandlerRule, review: Review) -> _Answer:
        if not rule.is_about(review):
            return self._refuse(
                HTTPStatus.BAD_REQUEST,
                Reason.WRONG_RESOURCE,
                f"handler {rule.id} reviews {rule}, and request.resource names another resource: "
                "correct the rules of the webhook configuration",
                review.operation,
            )
        if review.operation not in rule.operations or review.subresource != rule.subresource:
            review.reason = Reason.NOT_MUTABLE
            return _ok(review, reviews.allowed(review), Outcome.UNCHANGED)
        if (review.old_object if review.operation == "DELETE" else review.object) is None:
            missing = "oldObject" if review.operation == "DELETE" else "object"
            return self._refuse(
                HTTPStatus.BAD_REQUEST,
                Reason.MALFORMED_REVIEW,
                f"not an admission review: request.{missing} has to be a JSON object",
                review.operation,
            )
        result = await fn(
            cast("Any", reviews.for_kopf(review)),
            webhook=rule.id,
            headers=cast("Any", {reviews.HEADER: review}),
        )
        return self._translate(rule, review, result["response"])

    def _translate(self, rule: HandlerRule, review: Review, response: Mapping[str, Any]) -> _Answer:
        """Turn Kopf's answer into ours: who is at fault decides between 200 and 500."""
        if isinstance(review.failure, UndecidedError):
            finding = review.failure.finding
            self._log(logging.WARNING, finding.reason, finding.message)
            return self._refuse(
                HTTPStatus.INTERNAL_SERVER_ERROR, finding.reason, finding.message, review.operation
            )
        if review.failure is not None:
            logger.error(
                "admission handler failed", exc_info=review.failure, extra=_fields(rule, review)
            )
            return self._internal(rule, review)
        if response.get("patch"):
            logger.error(
                "admission handler used Kopf's patch, which sees metadata only: use the review's",
                extra=_fields(rule, review),
            )
            return self._internal(rule, review)
        review.warnings.extend(response.get("warnings") or ())
        if response["allowed"]:
            outcome = Outcome.PATCHED if review.operations else Outcome.UNCHANGED
            return _ok(review, reviews.allowed(review), outcome)
        status = response.get("status") or {}
        code, message = int(status.get("code") or 500), str(status.get("message") or "")
        if not 400 <= code < 500:
            fields = {**_fields(rule, review), "error": message}
            logger.error("admission handler denied without a code of 4xx", extra=fields)
            return self._internal(rule, review)
        if review.reason is Reason.ADMITTED:
            review.reason = Reason.DENIED
        fields = {**_fields(rule, review), "decision": "denied", "code": code}
        logger.info("denied: %s", message, extra=fields)
        return _ok(review, reviews.denied(review, message, code), Outcome.DENIED)

    def _internal(self, rule: HandlerRule, review: Review) -> _Answer:
        return self._refuse(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            Reason.INTERNAL_ERROR,
            f"handler {rule.id} failed: see the log of the operator for request {review.uid[:64]}",
            review.operation,
        )

    def _refuse(
        self, status: HTTPStatus, reason: Reason, sentence: str, operation: str = "UNKNOWN"
    ) -> _Answer:
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._log(logging.WARNING, reason, sentence)
        text = Finding(reason, sentence).named.encode(errors="replace")
        return _Answer(status, text, Outcome.UNKNOWN, reason, operation)

    def _log(self, level: int, reason: Reason, sentence: str) -> None:
        """Log a request that anyone in the cluster can send, at most every ten seconds a reason."""
        now = time.monotonic()
        if now - self._last_logged.get(reason, -_LOG_PAUSE) >= _LOG_PAUSE:
            self._last_logged[reason] = now
            logger.log(level, "review refused: %s", sentence, extra={"reason": reason.value})


def _ok(review: Review, answer: Mapping[str, Any], outcome: Outcome) -> _Answer:
    body = orjson.dumps(answer)
    return _Answer(HTTPStatus.OK, body, outcome, review.reason, review.operation)


def _fields(rule: HandlerRule, review: Review) -> dict[str, Any]:
    """What a log line says about a review; never the object."""
    return {
        "handler": rule.id,
        "request_uid": review.uid[:64],
        "operation": review.operation,
        "k8s": {"namespace": review.namespace, "name": review.name},
        "reason": review.reason.value,
    }


def admission_settings(settings: kopf.OperatorSettings, server: AdmissionServer) -> None:
    """Let Kopf host `server` and watch nothing."""
    settings.scanning.disabled = True
    settings.admission.server = cast("Any", server)
