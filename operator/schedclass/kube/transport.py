"""Requests on the wire: credentials, limits, errors, and the lines of a watch.

Built on the `ApiClient` of `kubernetes.aio`, which brings TLS, proxies and the connection pool. Its
generated models are left out: they cost five times the CPU of the JSON and drop unknown fields.
"""

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Final
from urllib.request import getproxies

import aiohttp
import orjson
from kubernetes.aio.client import ApiClient

from schedclass.kube import errors
from schedclass.kube.credentials import Credentials

Json = dict[str, Any]

CONNECT_SECONDS: Final = 10.0
POOL_SIZE: Final = 100
"""Connections at once: a dozen watches, which hold theirs, and the patches and look-ups beside."""

MAX_EVENT_BYTES: Final = 32 << 20
"""Longest line of a watch; etcd holds objects of 1.5 MiB, JSON may be a few times that."""

_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~:-]+)+")
"""Kubernetes allows '/' and '%' in no name, nor '.' and '..' (`path.IsValidPathSegmentName`), as a
path with them can be another object's."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; sent anew as it is when the credentials had to be read again.

    Attributes:
        method: the HTTP method.
        path: the URL path; one that could be read as another's is not sent.
        params: the query.
        headers: beside authorization and user agent.
        body: anything JSON, None for no body.
        limits: aiohttp's timeouts.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json | list[Json] | None = None
    limits: aiohttp.ClientTimeout = field(
        default_factory=lambda: aiohttp.ClientTimeout(total=30, sock_connect=CONNECT_SECONDS)
    )


class Transport:
    """Sends requests to one API server under one identity."""

    def __init__(self, credentials: Credentials, *, user_agent: str) -> None:
        configuration = credentials.configuration
        configuration.connection_pool_maxsize = POOL_SIZE
        # Go verifies certificates without RFC 5280's strict profile; many clusters' CAs lack the
        # key identifiers that OpenSSL wants under Python 3.13 and later.
        configuration.disable_strict_ssl_verification = True
        # With `trust_env` each request searches the environment, and the disk for a .netrc, which
        # means no API server; that costs a fifth of a request.
        configuration.client_session_kwargs = {
            "trust_env": bool(getproxies()),
            "cookie_jar": aiohttp.DummyCookieJar(),
        }
        self.credentials = credentials
        self._api = ApiClient(configuration)
        self._api.user_agent = user_agent

    @property
    def ssl_context(self) -> SSLContext:
        """The context of our connections: the cluster's CA, our client certificate if any."""
        context: SSLContext = self._api.rest_client.ssl_context
        return context

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def call(self, request: Request) -> Json:
        """Send and decode the answer.

        Raises:
            errors.ApiError: if the server refuses.
            errors.Unreachable: if there is no answer in time, or none that is a JSON object.
        """
        response = await self.open(request)
        try:
            answer = orjson.loads(await response.read())
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise errors.Unreachable(request.path, describe(error)) from error
        except orjson.JSONDecodeError as error:
            raise errors.Unreachable(request.path, f"the answer is not JSON: {error}") from error
        finally:
            response.release()
        if not isinstance(answer, dict):
            raise errors.Unreachable(request.path, "the answer is not a JSON object")
        return answer

    async def open(self, request: Request) -> aiohttp.ClientResponse:
        """Send and check the status; the caller reads the body and releases the response."""
        if _PATH.fullmatch(request.path) is None:
            raise errors.Unreachable(request.path, "not asked: no object has such a name")
        try:
            sent = await self.credentials.authorization()
            response = await self._send(request, sent)
            if response.status == 401 and (other := await self.credentials.renewed(sent)):
                response.release()
                response = await self._send(request, other)
            if response.status >= 400:
                try:
                    text = await response.read()
                finally:
                    response.release()
                raise errors.from_response(response.status, response.headers, text, request.path)
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unreachable(request.path, describe(error)) from error
        return response

    async def _send(self, request: Request, authorization: str | None) -> aiohttp.ClientResponse:
        method, url, headers, body, _ = await self._api.param_serialize(
            request.method,
            request.path,
            query_params=dict(request.params),
            header_params=dict(request.headers),
            body=request.body,
            collection_formats={},
        )
        if authorization is not None:
            headers["authorization"] = authorization
        answer = await self._api.call_api(
            method, url, header_params=headers, body=body, _request_timeout=request.limits
        )
        response: aiohttp.ClientResponse = answer.response
        return response


def describe(error: BaseException) -> str:
    """A transport fault in words; timeouts have none of their own."""
    return "timed out" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"


async def lines(content: aiohttp.StreamReader, path: str) -> AsyncGenerator[bytes]:
    """Lines of any length up to `MAX_EVENT_BYTES`; aiohttp's own reader refuses long ones.

    Raises:
        errors.Unreachable: on a longer line, or an end in the middle of one.
    """
    buffer = bytearray()
    async for chunk in content.iter_any():
        searched = len(buffer)
        buffer += chunk
        start = 0
        while (end := buffer.find(b"\n", max(start, searched))) >= 0:
            if line := bytes(buffer[start:end]).strip():
                yield line
            start = end + 1
        del buffer[:start]
        if len(buffer) > MAX_EVENT_BYTES:
            raise errors.Unreachable(path, f"watch event longer than {MAX_EVENT_BYTES} bytes")
    if buffer.strip():
        raise errors.Unreachable(path, "watch ended in the middle of an event")


def event(line: bytes, path: str) -> tuple[str, Json]:
    """Decode one line of a watch.

    Raises:
        errors.ApiError: for an ERROR event.
        errors.Unreachable: if it is no watch event at all.
    """
    try:
        decoded = orjson.loads(line)
        kind, obj = decoded["type"], decoded["object"]
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise errors.Unreachable(path, f"not a watch event: {error!r}") from error
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise errors.Unreachable(path, "not a watch event: type or object is mistyped")
    if kind == "ERROR":
        raise errors.from_status(obj, path)
    return kind, obj
