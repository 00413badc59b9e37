"""Where the API server is and who we are to it, kept fresh.

`kubernetes.aio` reads kubeconfig files, in-cluster files, exec plugins and OIDC. It re-reads only
the in-cluster token by itself, so here the whole source is loaded again once a minute and after a
401: that covers a rotated `tokenFile`, a rewritten kubeconfig and a renewed plugin token alike.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from schedclass.kube.errors import ConfigurationError

logger = logging.getLogger(__name__)

Source = Callable[[Configuration], Awaitable[None]]
"""Fills a `kubernetes.aio` Configuration from files; raises what those files make it raise."""

REFRESH_SECONDS: Final = 60.0
"""As client-go's file token source: bound tokens are renewed at 80 % of their life, an hour by
default, so that a minute is early enough."""


def kubeconfig(path: str, *, context: str | None = None) -> Source:
    """Credentials from kubeconfig files.

    Args:
        path: one file, or several joined by `os.pathsep`, merged as kubectl merges them.
        context: the context to use; None for `current-context`.
    """
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]

    async def load(configuration: Configuration) -> None:
        if not any(file.exists() for file in files):
            raise ConfigurationError(
                f"kubeconfig {path} does not exist; set KUBECONFIG to a file that does"
            )
        await load_kube_config(
            config_file=path,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )

    return load


def in_cluster(
    *,
    token_file: str = SERVICE_TOKEN_FILENAME,
    ca_file: str = SERVICE_CERT_FILENAME,
    environ: Mapping[str, str] = os.environ,
) -> Source:
    """Credentials of the pod's ServiceAccount, as the kubelet mounts them."""

    async def load(configuration: Configuration) -> None:
        InClusterConfigLoader(
            token_file, ca_file, try_refresh_token=False, environ=environ
        ).load_and_set(configuration)

    return load


def default_source(environ: Mapping[str, str] = os.environ) -> Source:
    """`KUBECONFIG` if it is set, else the pod's ServiceAccount, else `~/.kube/config`."""
    if path := environ.get("KUBECONFIG"):
        return kubeconfig(path)
    if environ.get(SERVICE_HOST_ENV_NAME):
        return in_cluster(environ=environ)
    return kubeconfig("~/.kube/config")


class Credentials:
    """The current `Authorization` header and the configuration it belongs to.

    Attributes:
        configuration: the `kubernetes.aio` Configuration that the client is built on.
    """

    def __init__(
        self,
        source: Source,
        configuration: Configuration,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.configuration = configuration
        self._source = source
        self._clock = clock
        self._lock = asyncio.Lock()
        self._authorization = _authorization_of(configuration)
        self._read_at = clock()

    @classmethod
    async def load(
        cls, source: Source, *, clock: Callable[[], float] = time.monotonic
    ) -> "Credentials":
        """Read the source for the first time.

        Raises:
            ConfigurationError: if it cannot be read; the message says which file or field.
        """
        return cls(source, await _read(source), clock=clock)

    async def authorization(self) -> str | None:
        """The header's value, e.g. `Bearer ey...`; None with a client certificate or anonymously.

        Reads the source again if that was last done a minute ago.
        """
        if self._clock() - self._read_at >= REFRESH_SECONDS:
            await self._refresh(self._authorization)
        return self._authorization

    async def renewed(self, sent: str | None) -> str | None:
        """After a 401: another header's value to try than the one sent, or None if there is none.

        Args:
            sent: the value that the API server refused.
        """
        if self._authorization == sent:
            await self._refresh(sent)
        return self._authorization if self._authorization != sent else None

    async def _refresh(self, known: str | None) -> None:
        async with self._lock:
            if self._authorization != known:
                return  # another request has done it meanwhile
            self._read_at = self._clock()
            try:
                fresh = _authorization_of(await _read(self._source))
            except ConfigurationError as error:
                # A file caught in the middle of a rewrite must not lose a token that still works.
                logger.warning("credentials not read again, keeping the last ones: %s", error)
                return
            if fresh is not None:
                self._authorization = fresh


async def _read(source: Source) -> Configuration:
    configuration = Configuration()
    try:
        await source(configuration)
    except (ConfigException, OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        # The loaders raise whatever a malformed file makes them stumble over.
        raise ConfigurationError(f"cannot read the cluster's credentials: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"the kubeconfig is not YAML: {error}") from error
    return configuration


def _authorization_of(configuration: Configuration) -> str | None:
    # A token file usually ends with a newline, which no header may carry.
    value = str(configuration.api_key.get("BearerToken") or "").strip()
    return value or None
