"""The leader's loop that keeps CA, serving certificate and `caBundle` right.

Each pass starts from what is stored and goes on to what is missing, so it may be ended at any
point and repeated by another leader. The order within a pass is what makes a rotation invisible:
a new CA is stored, then trusted by every webhook configuration (beside the old one), and only then,
a pass later, signs the certificate that the replicas serve with.

Where the two Secrets live is also where rights are divided: the CA's key is for the controller
alone, the replicas read the serving Secret only.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Protocol

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.kube.client import resource_path
from schedclass.kube.errors import KubeError
from schedclass.settings import CertificateMode, Settings
from schedclass.tls import authority as ca

logger = logging.getLogger(__name__)

Json = dict[str, Any]

ADMISSION_API = "admissionregistration.k8s.io/v1"
RETRY_SECONDS = 3.0

_AUTHORITY_KEYS = ("ca.crt", "ca.key")
_SERVING_KEYS = ("tls.crt", "tls.key")


class Api(Protocol):
    """What is needed of `schedclass.kube.client.KubeClient`."""

    async def find(self, path: str, /) -> Json | None: ...  # noqa: D102

    async def create(self, path: str, body: Json, /) -> Json: ...  # noqa: D102

    async def merge_patch(self, path: str, body: Json, /) -> Json: ...  # noqa: D102

    async def json_patch(self, path: str, operations: Sequence[Json], /) -> Json: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """What has to be right, and where it is stored.

    Attributes:
        namespace: of the two Secrets.
        authority_secret: name of the Secret with `ca.crt` (every trusted CA, the current one first)
            and `ca.key`.
        serving_secret: name of the `kubernetes.io/tls` Secret with `tls.crt`, `tls.key`, `ca.crt`.
        configurations: API paths of the webhook configurations whose `caBundle` is kept.
        hosts: what the serving certificate has to name.
        authority_life: lifetime of a new CA.
        certificate_life: lifetime of a new serving certificate.
        mode: with cert-manager nothing is written, only looked at.
        labels: of Secrets that have to be created.
    """

    namespace: str
    authority_secret: str
    serving_secret: str
    configurations: tuple[str, ...]
    hosts: tuple[str, ...]
    authority_life: timedelta
    certificate_life: timedelta
    mode: CertificateMode = CertificateMode.SELF_SIGNED
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: Settings, *, mutating: Sequence[str], validating: Sequence[str]
    ) -> "CertificatePlan":
        """The plan of a release.

        Args:
            settings: of this process.
            mutating: names of its MutatingWebhookConfigurations.
            validating: names of its ValidatingWebhookConfigurations.
        """
        kinds = (
            ("mutatingwebhookconfigurations", mutating),
            ("validatingwebhookconfigurations", validating),
        )
        return cls(
            namespace=settings.namespace,
            authority_secret=settings.authority_secret,
            serving_secret=settings.serving_secret,
            configurations=tuple(
                resource_path(ADMISSION_API, plural, name=name)
                for plural, names in kinds
                for name in names
            ),
            hosts=ca.service_hosts(
                settings.service,
                settings.namespace,
                settings.cluster_domain,
                settings.certificate_hosts,
            ),
            authority_life=timedelta(days=settings.authority_days),
            certificate_life=timedelta(days=settings.certificate_days),
            mode=settings.certificate_mode,
            labels={
                "app.kubernetes.io/instance": settings.release,
                "app.kubernetes.io/managed-by": "schedclass",
                "app.kubernetes.io/component": "webhook",
            },
        )


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Publisher:
    """Run it in the leader only; two at once do no harm, as every write has a precondition."""

    def __init__(
        self,
        api: Api,
        plan: CertificatePlan,
        *,
        clock: Callable[[], datetime] = _utc_now,
        interval: float = 10.0,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is read or written before `run` or `publish_once`.

        Args:
            api: the client.
            plan: what has to be right.
            clock: the present time, with a time zone.
            interval: seconds between two passes.
            on_failure: called for each pass that the API server did not let finish.
        """
        self._api = api
        self._plan = plan
        self._clock = clock
        self._interval = interval
        self._on_failure = on_failure
        self._last_watched: Finding | None = None

    async def run(self) -> NoReturn:
        """Pass after pass until cancelled. A pass that fails is logged and soon repeated."""
        while True:
            pause = self._interval
            try:
                await self.publish_once()
            except KubeError as error:
                pause = min(pause, RETRY_SECONDS)
                self._on_failure()
                logger.warning("certificates could not be published: %s", error)
            await asyncio.sleep(pause)

    async def publish_once(self) -> bool:
        """One pass.

        Returns:
            Whether everything was right already, so that nothing was written or left for later.

        Raises:
            KubeError: the API server refused or could not be reached; nothing after the request
                that failed was done.
        """
        if self._plan.mode is CertificateMode.CERT_MANAGER:
            return self._only_watch(await self._secret(self._plan.serving_secret))
        now = self._clock()
        stored_authority = await self._secret(self._plan.authority_secret)
        stored_serving = await self._secret(self._plan.serving_secret)
        authority, renewed = await self._keep_authority(stored_authority, stored_serving, now)
        newly_trusted = await self._keep_configurations(authority.certificate)
        settled = await self._keep_serving(stored_serving, authority, now, newly_trusted)
        return settled and not renewed and not newly_trusted

    def _only_watch(self, secret: Json | None) -> bool:
        """Say once what is wrong with the certificate that cert-manager makes."""
        pair = _pair(secret, _SERVING_KEYS)
        problem = (
            Finding(
                Reason.CERTIFICATE_MISSING,
                f"cert-manager has not written Secret {self._plan.serving_secret} yet",
                Severity.WARNING,
            )
            if pair is None
            else ca.why_unusable(pair, now=self._clock())
        )
        if problem != self._last_watched and problem is not None:
            logger.warning(
                "certificate of cert-manager: %s",
                problem.message,
                extra={"reason": problem.reason.value},
            )
        self._last_watched = problem
        return problem is None

    async def _keep_authority(
        self, stored: Json | None, stored_serving: Json | None, now: datetime
    ) -> tuple[ca.KeyPair, bool]:
        """The CA to sign with, its `certificate` being every CA to trust, and whether it is new."""
        present = _pair(stored, _AUTHORITY_KEYS)
        why = ca.why_renew_authority(present, now=now)
        if present is None or why is not None:
            name = f"{self._plan.serving_secret}.{self._plan.namespace}"
            current = ca.new_authority(
                common_name=name, now=now, lifetime=self._plan.authority_life
            )
            _log_renewal("new CA", why)
        else:
            current = ca.KeyPair(_current_first(present), present.key)
        # The CA of the certificate in use stays trusted even if the CA's Secret was deleted.
        trusted = ca.bundle(
            current.certificate,
            present.certificate if present else b"",
            _data(stored_serving).get("ca.crt", b""),
            now=now,
        )
        wanted = ca.KeyPair(trusted, current.key)
        if wanted == present:
            return wanted, False
        data = {"ca.crt": trusted, "ca.key": current.key}
        await self._write_secret(self._plan.authority_secret, stored, "Opaque", data)
        return wanted, True

    async def _keep_configurations(self, trusted: bytes) -> bool:
        """Let every webhook configuration trust the bundle; whether one did not yet."""
        encoded = base64.b64encode(trusted).decode()
        changed = False
        for path in self._plan.configurations:
            configuration = await self._api.find(path)
            if configuration is None:
                continue  # the chart has not created it yet, or a value switched it off
            operations = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded}
                for index, webhook in enumerate(configuration.get("webhooks") or ())
                if (webhook.get("clientConfig") or {}).get("caBundle") != encoded
            ]
            if operations:
                await self._api.json_patch(path, [_same_version(configuration), *operations])
                logger.info("caBundle published", extra={"configuration": path})
                changed = True
        return changed

    async def _keep_serving(
        self, stored: Json | None, authority: ca.KeyPair, now: datetime, newly_trusted: bool
    ) -> bool:
        """Renew the serving certificate if needed; whether it is right now or was before."""
        signer = ca.current_authority(authority)
        if signer is None:  # `_keep_authority` has just made sure of it
            raise AssertionError("the CA has no certificate of its own")
        present = _pair(stored, _SERVING_KEYS)
        why = ca.why_renew_certificate(present, authority=signer, hosts=self._plan.hosts, now=now)
        data = {"ca.crt": authority.certificate}
        if why is None:
            if _data(stored).get("ca.crt") == authority.certificate:
                return True
        elif newly_trusted and _still_serves(present, authority.certificate, now):
            # API servers learn of a new bundle by a watch: give them until the next pass.
            logger.info("the new CA is trusted from now on, the certificate follows")
            return False
        else:
            renewed = ca.new_certificate(
                authority, hosts=self._plan.hosts, now=now, lifetime=self._plan.certificate_life
            )
            data |= {"tls.crt": renewed.certificate, "tls.key": renewed.key}
            _log_renewal("new serving certificate", why)
        await self._write_secret(self._plan.serving_secret, stored, "kubernetes.io/tls", data)
        return False

    async def _secret(self, name: str) -> Json | None:
        return await self._api.find(self._secret_path(name))

    async def _write_secret(
        self, name: str, stored: Json | None, kind: str, data: Mapping[str, bytes]
    ) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if stored is None:
            body: Json = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "labels": dict(self._plan.labels)},
                "type": kind,
                "data": encoded,
            }
            await self._api.create(self._secret_path(), body)
        else:
            version = stored["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "data": encoded}
            await self._api.merge_patch(self._secret_path(name), body)

    def _secret_path(self, name: str | None = None) -> str:
        return resource_path("v1", "secrets", namespace=self._plan.namespace, name=name)


def _same_version(obj: Json) -> Json:
    """Writing the version that was read makes the API server refuse with 409 if it has changed."""
    version = obj["metadata"]["resourceVersion"]
    return {"op": "replace", "path": "/metadata/resourceVersion", "value": version}


def _current_first(authority: ca.KeyPair) -> bytes:
    current = ca.current_authority(authority)
    return b"" if current is None else ca.to_pem(current)


def _still_serves(pair: ca.KeyPair | None, trusted: bytes, now: datetime) -> bool:
    if pair is None or ca.why_unusable(pair, now=now) is not None:
        return False
    certificate = ca.certificates(pair.certificate)[0]
    return any(ca.is_signed_by(certificate, issuer) for issuer in ca.certificates(trusted))


def _data(secret: Json | None) -> dict[str, bytes]:
    """The decoded data of a Secret; a value that is not base64 counts as garbage, not as absent."""
    found = {}
    for key, value in ((secret or {}).get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            found[key] = b"not base64"
    return found


def _pair(secret: Json | None, keys: tuple[str, str]) -> ca.KeyPair | None:
    """The pair in a Secret; None when neither half is there (the chart may ship it empty)."""
    data = _data(secret)
    certificate, key = (data.get(name, b"") for name in keys)
    return ca.KeyPair(certificate, key) if certificate or key else None


def _log_renewal(what: str, why: Finding | None) -> None:
    if why is not None:
        logger.info("%s: %s", what, why.message, extra={"reason": why.reason.value})
