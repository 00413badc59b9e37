"""Certificates on a real API server: stored with preconditions, rotated without distrust."""

import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from cryptography import x509

from controlplane import Installation, eventually
from controlplane.installation import NAMESPACE, RELEASE
from schedclass.kube.client import KubeClient, resource_path
from schedclass.kube.errors import Conflict
from schedclass.tls.authority import certificates, is_signed_by
from schedclass.tls.publisher import ADMISSION_API, CertificatePlan, Publisher
from tests.cluster.objects import Json
from tests.cluster.replicas import PODS, review

DAY = timedelta(days=1)
A_MINUTE = 60.0


@dataclass
class Release:
    """A release of the test's own: two Secrets and a webhook configuration nobody calls."""

    kube: KubeClient
    plan: CertificatePlan
    now: datetime

    def publisher(self) -> Publisher:
        return Publisher(self.kube, self.plan, clock=lambda: self.now)

    async def secret(self, name: str) -> Json:
        path = resource_path("v1", "secrets", namespace=self.plan.namespace, name=name)
        return await self.kube.get(path)

    async def configuration(self) -> Json:
        return await self.kube.get(self.plan.configurations[0])

    async def versions(self) -> list[str]:
        found = [
            await self.secret(self.plan.authority_secret),
            await self.secret(self.plan.serving_secret),
            await self.configuration(),
        ]
        return [obj["metadata"]["resourceVersion"] for obj in found]


@pytest_asyncio.fixture
async def release(kube: KubeClient, namespace: str) -> AsyncIterator[Release]:
    collection = resource_path(ADMISSION_API, "mutatingwebhookconfigurations")
    path = f"{collection}/{namespace}"
    service = {"name": "hook", "namespace": namespace, "path": "/mutate-pods"}
    webhook = {
        "clientConfig": {"service": service},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    names = [f"{name}.example.com" for name in ("one", "two")]
    webhooks = [{"name": name, **webhook} for name in names]
    await kube.create(collection, {"metadata": {"name": namespace}, "webhooks": webhooks})
    plan = CertificatePlan(
        namespace=namespace,
        authority_secret="hook-ca",
        serving_secret="hook-tls",
        configurations=(path, f"{collection}/{namespace}-absent"),
        hosts=("hook.svc",),
        authority_life=3650 * DAY,
        certificate_life=365 * DAY,
    )
    yield Release(kube, plan, datetime.now(UTC))
    await kube.delete(path)


async def test_second_pass_finds_everything_right(release: Release) -> None:
    assert not await release.publisher().publish_once()
    versions = await release.versions()
    assert await release.publisher().publish_once()
    assert await release.versions() == versions
    serving = await release.secret("hook-tls")
    assert serving["type"] == "kubernetes.io/tls"
    webhooks = (await release.configuration())["webhooks"]
    assert [webhook["clientConfig"]["caBundle"] for webhook in webhooks] == [
        serving["data"]["ca.crt"]
    ] * 2
    assert all(webhook["clientConfig"]["service"]["port"] == 443 for webhook in webhooks)


async def test_configuration_that_changed_since_it_was_read_is_not_patched(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = release.plan.configurations[0]
    read, get = await release.configuration(), release.kube.get
    await release.kube.merge_patch(path, {"metadata": {"labels": {"touched": "yes"}}})

    async def get_as_it_was(asked: str) -> Json:
        return read if asked == path else await get(asked)

    with monkeypatch.context() as patch:
        patch.setattr(release.kube, "get", get_as_it_was)
        with pytest.raises(Conflict):
            await release.publisher().publish_once()
    webhooks = (await release.configuration())["webhooks"]
    assert not any(webhook["clientConfig"].get("caBundle") for webhook in webhooks)


async def test_ca_is_rotated_with_both_trusted(release: Release) -> None:
    await release.publisher().publish_once()
    old = certificates(base64.b64decode((await release.secret("hook-tls"))["data"]["ca.crt"]))
    release.now += 2440 * DAY
    while not await release.publisher().publish_once():
        bundle = base64.b64decode(
            (await release.configuration())["webhooks"][0]["clientConfig"]["caBundle"]
        )
        leaf = await served_leaf(release)
        if leaf.not_valid_after_utc > release.now:
            assert any(is_signed_by(leaf, ca) for ca in certificates(bundle))
    trusted = certificates(base64.b64decode((await release.secret("hook-tls"))["data"]["ca.crt"]))
    assert trusted[1:] == old
    assert is_signed_by(await served_leaf(release), trusted[0])


async def served_leaf(release: Release) -> x509.Certificate:
    secret = await release.secret("hook-tls")
    return certificates(base64.b64decode(secret["data"]["tls.crt"]))[0]


def ask(operator: Installation, name: str) -> int:
    """A review over a new connection that trusts what the API server trusts right now.

    Returns:
        The serial number of the certificate that was served.
    """
    path = resource_path(ADMISSION_API, "mutatingwebhookconfigurations", name=RELEASE)
    configuration = operator.cluster.admin.get(path)
    trusted = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])
    context = ssl.create_default_context(cadata=trusted.decode())
    connection = http.client.HTTPSConnection(
        "127.0.0.1", operator.cluster.port(name), context=context, timeout=15
    )
    with contextlib.closing(connection):
        pod = {"metadata": {"name": "x"}, "spec": {}}
        body = json.dumps(review(PODS, pod, namespace="default")).encode()
        connection.request("POST", "/mutate-pods", body)
        assert connection.getresponse().status == 200
        der = connection.sock.getpeercert(binary_form=True)
        assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


@pytest.mark.parametrize("lost", ["webhook-ca", "webhook-tls"])
def test_replicas_serve_a_new_certificate_within_a_minute_and_none_is_distrusted(
    operator: Installation, lost: str
) -> None:
    before = {name: ask(operator, name) for name in operator.webhooks}
    secrets = resource_path("v1", "secrets", namespace=NAMESPACE)
    operator.cluster.admin.delete(f"{secrets}/{RELEASE}-{lost}")

    def all_new() -> bool:
        now = {name: ask(operator, name) for name in before}
        return all(now[name] != before[name] for name in before)

    eventually("every replica serves a new certificate", all_new, seconds=A_MINUTE)


def test_torn_pair_in_the_secret_changes_nothing(operator: Installation) -> None:
    """Certificate and key that do not belong together: both replicas go on with the last pair."""
    path = resource_path("v1", "secrets", namespace=NAMESPACE, name=f"{RELEASE}-webhook-tls")
    admin = operator.cluster.admin
    old_key = admin.get(path)["data"]["tls.key"]
    admin.delete(path)
    renewed = eventually("the leader makes a new pair", lambda: admin.find(path), seconds=A_MINUTE)
    assert renewed is not None
    assert renewed["data"]["tls.key"] != old_key
    admin.merge_patch(path, {"data": {"tls.key": old_key}})

    def is_mended() -> bool:
        for name in operator.webhooks:
            ask(operator, name)
        return bool(admin.get(path)["data"]["tls.key"] != old_key)

    eventually("the leader mends the pair", is_mended, seconds=A_MINUTE)


def test_a_torn_authority_is_replaced_in_its_secret_and_the_old_one_stays_trusted(
    operator: Installation,
) -> None:
    path = resource_path("v1", "secrets", namespace=NAMESPACE, name=f"{RELEASE}-webhook-ca")
    admin = operator.cluster.admin
    garbage = base64.b64encode(b"garbage").decode()
    admin.merge_patch(path, {"data": {"ca.crt": garbage}})

    def is_replaced() -> bool:
        for name in operator.webhooks:
            ask(operator, name)
        return bool(admin.get(path)["data"]["ca.crt"] != garbage)

    eventually("the leader has made a new authority", is_replaced, seconds=A_MINUTE)
