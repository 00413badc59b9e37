import base64
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch
import pytest
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedclass.kube.errors import ApiError, Conflict, NotFound, Unreachable
from schedclass.settings import CertificateMode
from schedclass.tls.authority import (
    KeyPair,
    certificates,
    is_signed_by,
    new_authority,
    new_certificate,
    why_unusable,
)
from schedclass.tls.publisher import CertificatePlan, Publisher

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SECRETS = "/api/v1/namespaces/cozy/secrets"
CA, TLS = f"{SECRETS}/r-webhook-ca", f"{SECRETS}/r-webhook-tls"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/r"
VALIDATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/r"
PLAN = CertificatePlan(
    namespace="cozy",
    authority_secret="r-webhook-ca",
    serving_secret="r-webhook-tls",
    configurations=(WEBHOOKS, VALIDATION),
    hosts=("r-webhook.cozy.svc", "10.0.0.9"),
    authority_life=3650 * DAY,
    certificate_life=365 * DAY,
    labels={"app": "r"},
)


class Stored:
    """Objects by path with optimistic locking, and a fault before the n-th request."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.writes: list[str] = []
        self.requests = 0
        self.fail_at: int | None = None
        self.version = 0

    def put(self, path: str, obj: Any) -> Any:
        self.version += 1
        metadata = {**obj.get("metadata", {}), "resourceVersion": str(self.version)}
        self.objects[path] = {**obj, "metadata": metadata}
        return self.objects[path]

    def _request(self, path: str) -> None:
        self.requests += 1
        if self.fail_at is not None and self.requests >= self.fail_at:
            raise Unreachable(path, "connection lost")

    async def find(self, path: str, /) -> Any:
        self._request(path)
        return self.objects.get(path)

    def _known(self, path: str) -> Any:
        if path not in self.objects:
            name = path.rpartition("/")[2]
            raise NotFound(404, "NotFound", "not found", path=path, details={"name": name})
        return self.objects[path]

    async def create(self, path: str, body: Any, /) -> Any:
        self._request(path)
        path = f"{path}/{body['metadata']['name']}"
        if path in self.objects:
            raise Conflict(409, "AlreadyExists", "exists", path=path)
        self.writes.append(path)
        return self.put(path, body)

    async def merge_patch(self, path: str, body: Any, /) -> Any:
        self._request(path)
        present = self._known(path)
        self._same(path, body["metadata"]["resourceVersion"])
        assert set(body) == {"metadata", "data"}
        self.writes.append(path)
        return self.put(path, {**present, "data": {**(present.get("data") or {}), **body["data"]}})

    async def json_patch(self, path: str, operations: Sequence[Any], /) -> Any:
        self._request(path)
        after = jsonpatch.apply_patch(self._known(path), operations)
        self._same(path, after["metadata"]["resourceVersion"])
        self.writes.append(path)
        return self.put(path, after)

    def _same(self, path: str, version: str) -> None:
        if self.objects[path]["metadata"]["resourceVersion"] != version:
            raise Conflict(409, "Conflict", "modified", path=path)

    def configure(self, path: str, webhooks: int = 2) -> None:
        service = {"name": "r-webhook", "namespace": "cozy", "path": "/mutate-pods"}
        entries = [
            {"name": f"w{number}", "clientConfig": {"service": service}, "timeoutSeconds": 3}
            for number in range(webhooks)
        ]
        self.put(path, {"metadata": {"name": "r"}, "webhooks": entries})

    def data(self, path: str, key: str) -> bytes:
        return base64.b64decode(self.objects[path]["data"][key])

    def bundles(self, path: str) -> list[bytes]:
        webhooks = self.objects[path]["webhooks"]
        return [base64.b64decode(webhook["clientConfig"]["caBundle"]) for webhook in webhooks]

    def leaf(self) -> x509.Certificate:
        return certificates(self.data(TLS, "tls.crt"))[0]


class World:
    def __init__(self, plan: CertificatePlan = PLAN) -> None:
        self.api = Stored()
        self.api.configure(WEBHOOKS)
        self.api.configure(VALIDATION, webhooks=1)
        self.now = START
        self.publisher = Publisher(self.api, plan, clock=lambda: self.now)

    async def settle(self) -> None:
        for _ in range(4):
            if await self.publisher.publish_once():
                return
        raise AssertionError("never settled")

    def check_right(self) -> None:
        pair = KeyPair(self.api.data(TLS, "tls.crt"), self.api.data(TLS, "tls.key"))
        assert why_unusable(pair, now=self.now) is None
        self.check_served_is_trusted()
        assert self.api.data(TLS, "ca.crt") == self.api.data(CA, "ca.crt")
        assert "ca.key" not in self.api.objects[TLS]["data"]

    def check_served_is_trusted(self) -> None:
        """No moment at which an API server refuses what the replicas serve."""
        for path in (WEBHOOKS, VALIDATION):
            if path in self.api.objects:
                for bundle in self.api.bundles(path):
                    assert any(is_signed_by(self.api.leaf(), ca) for ca in certificates(bundle))


@pytest.fixture
def world() -> World:
    return World()


async def test_first_pass_makes_everything_and_the_second_writes_nothing(world: World) -> None:
    assert not await world.publisher.publish_once()
    world.check_right()
    assert world.api.objects[TLS]["type"] == "kubernetes.io/tls"
    assert world.api.objects[TLS]["metadata"]["labels"] == {"app": "r"}
    assert world.api.writes == [CA, WEBHOOKS, VALIDATION, TLS]
    assert await world.publisher.publish_once()
    assert len(world.api.writes) == 4


async def test_only_ca_bundles_of_a_configuration_change(world: World) -> None:
    before = world.api.objects[WEBHOOKS]
    await world.settle()
    after = world.api.objects[WEBHOOKS]
    for webhook in after["webhooks"]:
        del webhook["clientConfig"]["caBundle"]
    assert after["webhooks"] == before["webhooks"]


async def test_secrets_that_a_chart_ships_empty_are_filled(world: World) -> None:
    empty = {"tls.crt": "", "tls.key": ""}
    world.api.put(TLS, {"metadata": {"name": "x"}, "type": "kubernetes.io/tls", "data": empty})
    world.api.put(CA, {"metadata": {"name": "y"}, "type": "Opaque"})
    await world.settle()
    world.check_right()


async def test_leaf_is_renewed_at_two_thirds_of_its_life(world: World) -> None:
    await world.settle()
    first = world.api.leaf()
    world.now += 240 * DAY
    await world.settle()
    assert world.api.leaf() == first
    world.now += 10 * DAY
    await world.settle()
    assert world.api.leaf() != first
    assert world.api.writes[4:] == [TLS]
    world.check_right()


async def test_new_ca_is_trusted_a_pass_before_it_signs(world: World) -> None:
    await world.settle()
    old_ca = certificates(world.api.data(CA, "ca.crt"))[0]
    leaf = world.api.leaf()
    world.now += 2440 * DAY
    # The leaf is young when the CA is due, so that nothing else forces its renewal.
    signer = KeyPair(world.api.data(CA, "ca.crt"), world.api.data(CA, "ca.key"))
    young = new_certificate(signer, hosts=PLAN.hosts, now=world.now, lifetime=365 * DAY)
    await world.api.merge_patch(
        TLS,
        {
            "metadata": world.api.objects[TLS]["metadata"],
            "data": {
                "tls.crt": base64.b64encode(young.certificate).decode(),
                "tls.key": base64.b64encode(young.key).decode(),
            },
        },
    )
    leaf = world.api.leaf()
    assert not await world.publisher.publish_once()
    trusted = certificates(world.api.bundles(WEBHOOKS)[0])
    assert len(trusted) == 2
    assert trusted[1] == old_ca
    assert world.api.leaf() == leaf
    world.check_served_is_trusted()
    await world.settle()
    assert is_signed_by(world.api.leaf(), trusted[0])
    assert old_ca in certificates(world.api.bundles(VALIDATION)[0])
    world.check_right()


async def test_lost_ca_secret_is_replaced_without_a_moment_of_distrust(world: World) -> None:
    await world.settle()
    leaf = world.api.leaf()
    del world.api.objects[CA]
    assert not await world.publisher.publish_once()
    assert world.api.leaf() == leaf
    world.check_served_is_trusted()
    await world.settle()
    assert world.api.leaf() != leaf
    world.check_right()


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("value", ["", "***", base64.b64encode(b"torn").decode(), None])
async def test_damaged_serving_secret_is_mended_at_once(
    world: World, key: str, value: str | None
) -> None:
    await world.settle()
    world.api.objects[TLS]["data"][key] = value
    assert not await world.publisher.publish_once()
    world.check_right()


@pytest.mark.parametrize("key", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("value", ["", "***", None])
async def test_damaged_ca_secret_is_mended(world: World, key: str, value: str | None) -> None:
    await world.settle()
    world.api.objects[CA]["data"][key] = value
    await world.settle()
    world.check_right()


async def test_bundle_that_somebody_changed_is_put_right(world: World) -> None:
    await world.settle()
    right = world.api.bundles(WEBHOOKS)
    foreign = new_authority(common_name="x", now=START, lifetime=DAY).certificate
    webhook = world.api.objects[WEBHOOKS]["webhooks"][1]
    webhook["clientConfig"]["caBundle"] = base64.b64encode(foreign).decode()
    await world.settle()
    assert world.api.bundles(WEBHOOKS) == right


async def test_configuration_that_comes_later_is_filled(world: World) -> None:
    del world.api.objects[WEBHOOKS]
    await world.settle()
    world.api.configure(WEBHOOKS)
    await world.settle()
    world.check_right()


async def test_further_host_gets_a_new_certificate(world: World) -> None:
    await world.settle()
    wider = replace(PLAN, hosts=(*PLAN.hosts, "127.0.0.1"))
    publisher = Publisher(world.api, wider, clock=lambda: world.now)
    leaf = world.api.leaf()
    assert not await publisher.publish_once()
    assert world.api.leaf() != leaf
    world.check_right()


async def test_api_that_is_not_served_is_no_absent_secret(world: World) -> None:
    async def not_served(path: str, /) -> Any:
        raise NotFound(404, "", "404 page not found", path=path)

    world.api.find = not_served  # type: ignore[method-assign]
    with pytest.raises(ApiError):
        await world.publisher.publish_once()
    assert not world.api.writes


async def test_two_leaders_at_once_agree(world: World) -> None:
    """The second has read before the first writes: the API server refuses its writes."""
    other = Publisher(world.api, PLAN, clock=lambda: world.now)
    create = world.api.create

    async def overtaken(path: str, body: Any, /) -> Any:
        world.api.create = create  # type: ignore[method-assign]
        await other.publish_once()
        return await create(path, body)

    world.api.create = overtaken  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        await world.publisher.publish_once()
    before = len(world.api.writes)
    assert await world.publisher.publish_once()
    assert len(world.api.writes) == before
    world.check_right()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.integers(min_value=1, max_value=9),
            st.sampled_from(["nothing", "year", "lose CA", "lose certificate", "decade"]),
        ),
        max_size=5,
    )
)
async def test_whatever_interrupts_a_pass_the_served_certificate_stays_trusted(
    story: list[tuple[int, str]],
) -> None:
    world = World()
    await world.settle()
    for fail_after, happens in story:
        if happens in {"year", "decade"}:
            world.now += 250 * DAY if happens == "year" else 2440 * DAY
        elif happens != "nothing":
            world.api.objects.pop(CA if happens == "lose CA" else TLS, None)
        world.api.fail_at = world.api.requests + fail_after
        with contextlib.suppress(Unreachable):
            await world.publisher.publish_once()
        world.api.fail_at = None
        if TLS in world.api.objects and world.api.leaf().not_valid_after_utc > world.now:
            world.check_served_is_trusted()
    await world.settle()
    world.check_right()


async def test_cert_manager_is_only_watched(caplog: pytest.LogCaptureFixture) -> None:
    world = World(replace(PLAN, mode=CertificateMode.CERT_MANAGER))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not await world.publisher.publish_once()
    assert len(caplog.records) == 1
    assert "r-webhook-tls" in caplog.records[0].getMessage()
    ca = new_authority(common_name="x", now=START, lifetime=DAY)
    pair = new_certificate(ca, hosts=("a",), now=START, lifetime=DAY)
    encoded = {
        "tls.crt": base64.b64encode(pair.certificate).decode(),
        "tls.key": base64.b64encode(pair.key).decode(),
    }
    world.api.put(TLS, {"metadata": {}, "data": encoded})
    assert await world.publisher.publish_once()
    assert not world.api.writes
