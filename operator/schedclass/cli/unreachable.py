"""Why there was no answer from the API server, in one sentence for a person.

The codes of certificates are those of OpenSSL's X509_verify_cert_error_string(3).
"""

import errno
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import aiohttp

from schedclass.kube.errors import Unreachable

_NOT_YET: Final = 9
_EXPIRED: Final = 10
_OTHER_HOST: Final = (62, 64)

_WORDS: Final = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "it closed the connection",
    errno.EPIPE: "it closed the connection",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "timed out",
}


def why_unreachable(server: str, error: Unreachable) -> str:
    """The sentence, with the server's address.

    Args:
        server: its address.
        error: what the client raised; its cause is what the transport met.
    """
    causes = list(_causes(error))
    # aiohttp's own errors call themselves SSL errors too, without what those have to say.
    of_tls = [cause for cause in causes if not isinstance(cause, aiohttp.ClientError)]
    for cause in of_tls:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate(server, cause)
    for cause in of_tls:
        if isinstance(cause, ssl.SSLError):
            return f"the API server {server} cannot be spoken to over TLS: {ssl_reason(cause)}"
    for cause in causes:
        why = _word(cause)
        if why:
            return f"the API server {server} cannot be reached: {why}"
    return f"the API server {server} gives no usable answer: {error.cause}"


def ssl_reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason in plain words: `no certificate or crl found`."""
    return (error.reason or "no further reason").replace("_", " ").lower()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """All that led to it: aiohttp keeps the fault of the socket beside, not as a cause."""
    waiting: list[BaseException | None] = [error.__cause__]
    seen: list[BaseException] = []
    while waiting:
        one = waiting.pop(0)
        if one is None or one in seen:
            continue
        seen.append(one)
        yield one
        waiting += [getattr(one, "certificate_error", None), getattr(one, "os_error", None)]
        waiting += [one.__cause__, one.__context__]


def _certificate(server: str, error: ssl.SSLCertVerificationError) -> str:
    its = f"the certificate of the API server {server}"
    if error.verify_code == _EXPIRED:
        return f"{its} has expired"
    if error.verify_code == _NOT_YET:
        return f"{its} is not valid yet; compare the clocks"
    if error.verify_code in _OTHER_HOST:
        return f"{its} is for another host: {error.verify_message}"
    return f"{its} is not trusted: {error.verify_message}; see certificate-authority in kubeconfig"


def _word(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return "its name is not resolved"
    if isinstance(cause, TimeoutError):
        return "timed out"
    if isinstance(cause, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    if isinstance(cause, OSError):
        return _WORDS.get(cause.errno or 0, "")
    return ""
