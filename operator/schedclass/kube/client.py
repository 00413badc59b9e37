"""The one way to the API server: raw JSON in and out."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from ssl import SSLContext
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp

from schedclass import __version__
from schedclass.domain import names
from schedclass.kube import errors
from schedclass.kube.credentials import Credentials, Source, default_source
from schedclass.kube.transport import (
    CONNECT_SECONDS,
    Json,
    Request,
    Transport,
    describe,
    event,
    lines,
)

REQUEST_SECONDS: Final = 30.0
PAGE_SECONDS: Final = 60.0
WATCH_SERVER_SECONDS: Final = 290
"""After which the API server is to end a watch by itself, which goes on in a new one."""

PAGE_SIZE: Final = 200
"""`limit` of a LIST. A page is decoded in one go, which every answer of the process waits for."""

WATCH_READ_SECONDS: Final = 75.0
"""Silence after which a watch counts as dead: bookmarks come about once a minute
(https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks)."""

_PARTIAL: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PARTIAL_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)


def resource_path(
    api_version: str,
    plural: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """The URL path of a collection, object or subresource, each part escaped.

    Args:
        api_version: `v1` or `group/version`.
        plural: the resource's plural name.
        namespace: of a namespaced resource; None for cluster-scoped ones or all namespaces.
        name: of one object; None for the collection.
        subresource: e.g. `status`.
    """
    parts = ["apis" if "/" in api_version else "api", *api_version.split("/")]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts += [part for part in (plural, name, subresource) if part is not None]
    return "/" + "/".join(quote(part, safe="") for part in parts)


class KubeClient:
    """Requests to one API server under one identity.

    Every method raises `errors.ApiError` (or its subclass) if the server refuses and
    `errors.Unreachable` if there is no usable answer in time. Nothing is retried here except once
    after a 401 with credentials that have changed meanwhile: whoever calls knows whether and when
    to try again. Writes carry our field manager.

    Use as an async context manager, or call `close()`.
    """

    def __init__(self, credentials: Credentials, *, role: str) -> None:
        self._role = role
        self._transport = Transport(credentials, user_agent=f"schedclass/{__version__} ({role})")

    def apart(self) -> Self:
        """Another client under the same identity, with connections of its own; close it as well."""
        return type(self)(self.credentials, role=self._role)

    @classmethod
    async def load(cls, *, role: str, source: Source | None = None) -> Self:
        """Connect with a source of credentials.

        Args:
            role: who we are in the user agent: `webhook`, `controller`, `cli`...
            source: where from, see `credentials`; None for `KUBECONFIG`, else in-cluster, else
                `~/.kube/config`.

        Raises:
            errors.ConfigurationError: if the credentials cannot be read.
        """
        return cls(await Credentials.load(source or default_source()), role=role)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; running watches end with `errors.Unreachable`."""
        await self._transport.close()

    @property
    def server(self) -> str:
        """Base URL of the API server, without a trailing slash."""
        return str(self.credentials.configuration.host)

    @property
    def ssl_context(self) -> SSLContext:
        """The context of our connections: the cluster's CA, our client certificate if any."""
        return self._transport.ssl_context

    @property
    def credentials(self) -> Credentials:
        """For another HTTP client under the same identity: `authorization()`, `renewed(sent)`."""
        return self._transport.credentials

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        metadata_only: bool = False,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 - it is the HTTP client's own
    ) -> Json:
        """One object, or whatever else a path answers with a JSON object.

        Args:
            path: see `resource_path`.
            params: query parameters.
            metadata_only: ask for a PartialObjectMetadata.
            timeout: seconds for the whole exchange.
        """
        accept = {"Accept": _PARTIAL} if metadata_only else {}
        return await self._transport.call(
            Request("GET", path, params or {}, accept, limits=_within(timeout))
        )

    async def find(self, path: str) -> Json | None:
        """One object, or None if the API server itself says that it does not exist.

        Raises:
            errors.NotFound: its API is not served, which says nothing about the object.
        """
        try:
            return await self.get(path)
        except errors.NotFound as error:
            if error.object_absent:
                return None
            raise

    async def list_pages(
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        metadata_only: bool = False,
        page_size: int = PAGE_SIZE,
        timeout: float = PAGE_SECONDS,  # noqa: ASYNC109
    ) -> AsyncGenerator[tuple[list[Json], str]]:
        """A consistent LIST, page by page.

        Args:
            path: of a collection.
            params: `labelSelector`, `fieldSelector`...
            metadata_only: ask for PartialObjectMetadata items.
            page_size: `limit`.
            timeout: seconds for each page.

        Yields:
            Items and the list's resourceVersion, the same on each page. The list is complete only
            when the iteration ends by itself.

        Raises:
            errors.Gone: if the `continue` token expired between two pages.
        """
        query: dict[str, Any] = {**(params or {}), "limit": page_size}
        accept = _PARTIAL_LIST if metadata_only else "application/json"
        while True:
            page = await self._transport.call(
                Request("GET", path, query, {"Accept": accept}, limits=_within(timeout))
            )
            metadata = page.get("metadata") or {}
            yield page.get("items") or [], str(metadata.get("resourceVersion") or "")
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def watch(  # noqa: PLR0913 - the parameters of the API's own verb
        self,
        path: str,
        *,
        resource_version: str,
        params: Mapping[str, Any] | None = None,
        metadata_only: bool = False,
        server_seconds: int = WATCH_SERVER_SECONDS,
        read_seconds: float = WATCH_READ_SECONDS,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[tuple[str, Json]]:
        """The changes of a collection after `resource_version`.

        Args:
            path: of a collection.
            resource_version: where to go on: of a list, an event or a bookmark.
            params: the selectors that the LIST had.
            metadata_only: ask for PartialObjectMetadata.
            server_seconds: after which the server ends the watch; a normal end.
            read_seconds: silence after which the connection counts as dead.
            on_open: called once the server has accepted the watch.

        Yields:
            `(type, object)`: ADDED, MODIFIED, DELETED, BOOKMARK. Close the generator
            (`contextlib.aclosing`) to end the watch.

        Raises:
            errors.Gone: 410, as the answer or as an ERROR event.
            errors.ApiError: any other refusal or ERROR event.
            errors.Unreachable: connection lost or silent, or an event that is not JSON.
        """
        request = Request(
            "GET",
            path,
            {
                **(params or {}),
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "timeoutSeconds": server_seconds,
            },
            {"Accept": _PARTIAL if metadata_only else "application/json"},
            limits=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=read_seconds),
        )
        response = await self._transport.open(request)
        try:
            if on_open is not None:
                on_open()
            async with aclosing(lines(response.content, path)) as stream:
                async for line in stream:
                    yield event(line, path)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise errors.Unreachable(path, f"watch lost: {describe(error)}") from error
        finally:
            response.close()

    async def create(self, path: str, body: Json) -> Json:
        """POST to a collection.

        Raises:
            errors.Conflict: with reason `AlreadyExists` if an object has that name.
        """
        return await self._write("POST", path, body)

    async def replace(self, path: str, body: Json) -> Json:
        """PUT; with `metadata.resourceVersion` in the body only over that version.

        Raises:
            errors.Conflict: if the object has another resourceVersion by now.
        """
        return await self._write("PUT", path, body)

    async def merge_patch(self, path: str, body: Json) -> Json:
        """JSON merge patch (RFC 7396): null removes a key, lists are replaced.

        With `metadata.resourceVersion` (or `uid`) in the body it is also a precondition.

        Raises:
            errors.Conflict: if that precondition fails.
        """
        return await self._write("PATCH", path, body, kind="merge-patch+json")

    async def json_patch(self, path: str, operations: Sequence[Json]) -> Json:
        """JSON Patch (RFC 6902); a failed `test` operation is an `errors.ApiError` of 422."""
        return await self._write("PATCH", path, list(operations), kind="json-patch+json")

    async def apply(self, path: str, body: Json, *, force: bool = False) -> Json:
        """Server-side apply (KEP-555): the body is all that our field manager owns afterwards.

        Args:
            path: of the object, which is created if absent.
            body: `apiVersion`, `kind`, `metadata.name` and only the fields we decide on.
            force: take fields that another manager owns with another value.

        Raises:
            errors.Conflict: if another manager owns a field and `force` is off.
        """
        return await self._write("PATCH", path, body, kind="apply-patch+yaml", force=force)

    async def delete(self, path: str) -> Json:
        """DELETE; returns the object as it was (still there if it has finalizers), or a Status."""
        return await self._write("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions"})

    async def _write(
        self,
        method: str,
        path: str,
        body: Json | list[Json],
        *,
        kind: str = "json",
        force: bool = False,
    ) -> Json:
        query = {} if method == "DELETE" else {"fieldManager": names.FIELD_MANAGER}
        if force:
            query["force"] = "true"
        headers = {"Content-Type": f"application/{kind}", "Accept": "application/json"}
        return await self._transport.call(Request(method, path, query, headers, body))


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))
