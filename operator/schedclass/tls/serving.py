"""The certificate a replica serves with: replaced while connections live, never by a worse one.

The server listens with one `ssl.SSLContext` for its whole life. That context holds no certificate
itself; its server-name callback hands each handshake to the context of the newest good pair. So a
pair is swapped as a whole and at once, a pair of another key type leaves nothing of the old one
behind (loading into a live context would keep the RSA certificate beside the new ECDSA one), and
connections that are open stay open.
"""

import base64
import binascii
import contextlib
import hashlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.tls.authority import KeyPair, expires_at, why_unusable

logger = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ServingCertificate:
    """Keeps the newest good pair that was offered; a bad one changes nothing.

    Attributes:
        context: what the server listens with (TLS 1.2 and later). A handshake before the first
            good pair is refused.
        expires_at: when the certificate in use expires; None before the first good pair.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = _utc_now,
        on_error: Callable[[Finding], None] = lambda _: None,
    ) -> None:
        """Start without a certificate.

        Args:
            clock: the present time, with a time zone.
            on_error: told once about each bad pair.
        """
        self.context = _server_context()
        self.context.sni_callback = self._choose
        self.expires_at: datetime | None = None
        self._clock = clock
        self._on_error = on_error
        self._current: ssl.SSLContext | None = None
        self._in_use = b""
        self._refused = b""

    @property
    def ready(self) -> bool:
        """Whether there is a pair to serve with and it has not expired."""
        return self.problem() is None

    def problem(self) -> Finding | None:
        """Why this replica cannot serve TLS right now; None when it can."""
        if self.expires_at is None:
            return _error(Reason.CERTIFICATE_MISSING, "no usable serving certificate was seen yet")
        if self.expires_at <= self._clock():
            message = f"the serving certificate expired at {self.expires_at.isoformat()}"
            return _error(Reason.CERTIFICATE_EXPIRED, message)
        return None

    def offer(self, certificate: bytes, key: bytes) -> Finding | None:
        """Serve new handshakes with this pair, if it is good.

        Args:
            certificate: PEM, the serving certificate first, intermediates after it.
            key: PEM of its private key, not encrypted.

        Returns:
            None when the pair is in use from now on (or already was); else what is wrong with it,
            and the last good pair stays in use.
        """
        pair = KeyPair(certificate, key)
        digest = _digest(pair)
        if digest == self._in_use:
            return None
        problem = why_unusable(pair, now=self._clock())
        if problem is None:
            candidate = _server_context()
            try:
                _load(candidate, pair)
            except (ssl.SSLError, OSError) as error:
                problem = _error(Reason.CERTIFICATE_MALFORMED, f"OpenSSL refuses the pair: {error}")
            else:
                self._accept(candidate, pair, digest)
                return None
        if digest != self._refused:  # the same bad pair is offered at each re-list
            self._refused = digest
            self._refuse(problem)
        return problem

    def offer_secret(self, secret: Mapping[str, Any]) -> Finding | None:
        """Like `offer`, with a Secret of type `kubernetes.io/tls` as the API server sends it."""
        data = secret.get("data") or {}
        try:
            certificate = base64.b64decode(data.get("tls.crt") or "", validate=True)
            key = base64.b64decode(data.get("tls.key") or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            certificate, key = b"not base64", b"not base64"
        return self.offer(certificate, key)

    def _accept(self, candidate: ssl.SSLContext, pair: KeyPair, digest: bytes) -> None:
        self._current, self._in_use, self._refused = candidate, digest, b""
        self.expires_at = expires_at(pair.certificate)
        logger.info(
            "serving with a new certificate",
            extra={"expires_at": self.expires_at.isoformat() if self.expires_at else None},
        )

    def _refuse(self, problem: Finding) -> None:
        keeps = "the last good one stays in use" if self._current else "there is no other yet"
        logger.error(
            "serving certificate refused: %s; %s",
            problem.message,
            keeps,
            extra={"reason": problem.reason.value},
        )
        self._on_error(problem)

    def _choose(
        self, connection: ssl.SSLObject, _server_name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """OpenSSL calls this for every ClientHello, with or without a server name."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """OpenSSL's Python binding reads a chain from files only."""
    with _as_file(pair.certificate + b"\n" + pair.key) as path:
        # Without a password function OpenSSL would ask on the terminal for an encrypted key.
        context.load_cert_chain(path, password=lambda: "")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path only this process can read, gone afterwards; in memory where the system offers it."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("serving-certificate", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:  # created with mode 0600
            file.write(content)
            file.flush()
            yield file.name


def _digest(pair: KeyPair) -> bytes:
    return hashlib.sha256(pair.certificate + b"\0" + pair.key).digest()


def _error(reason: Reason, message: str) -> Finding:
    return Finding(reason, message, Severity.ERROR)
