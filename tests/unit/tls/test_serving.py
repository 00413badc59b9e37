import base64
import logging
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.domain.findings import Finding, Reason
from schedclass.tls.authority import KeyPair, new_authority, new_certificate
from schedclass.tls.serving import ServingCertificate
from tests.unit.tls.test_authority import rsa_pair

DAY = timedelta(days=1)
START = datetime.now(UTC)
CA = new_authority(common_name="test", now=START, lifetime=30 * DAY)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def leaf(lifetime: timedelta = 10 * DAY) -> KeyPair:
    return new_certificate(CA, hosts=("localhost",), now=START, lifetime=lifetime)


def handshake(server: ssl.SSLContext, **limits: ssl.TLSVersion) -> tuple[int, str | None]:
    """Serial number and protocol that a client gets, over memory instead of a socket."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    for name, version in limits.items():
        setattr(client, name, version)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    a = client.wrap_bio(to_client, to_server)  # no server name, as for an IP address
    b = server.wrap_bio(to_server, to_client, server_side=True)
    done = 0
    for _ in range(6):
        for end in (a, b):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            done += 1
        if done > 1:
            break
    der = a.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number, a.version()


def serial(pair: KeyPair) -> int:
    return x509.load_pem_x509_certificate(pair.certificate).serial_number


def test_handshake_before_the_first_certificate_is_refused() -> None:
    held = ServingCertificate()
    assert not held.ready
    assert held.expires_at is None
    with pytest.raises(ssl.SSLError):
        handshake(held.context)


def test_newest_good_pair_is_served() -> None:
    held = ServingCertificate()
    for pair in (leaf(), leaf()):
        assert held.offer(pair.certificate, pair.key) is None
        assert handshake(held.context)[0] == serial(pair)
    assert held.ready


def test_old_protocols_are_refused() -> None:
    held = ServingCertificate()
    pair = leaf()
    held.offer(pair.certificate, pair.key)
    assert handshake(held.context, maximum_version=ssl.TLSVersion.TLSv1_2)[1] == "TLSv1.2"
    assert handshake(held.context)[1] == "TLSv1.3"
    assert held.context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_change_of_key_type_leaves_nothing_of_the_old_pair(version: ssl.TLSVersion) -> None:
    """A context that both pairs were loaded into would go on serving the RSA one to many."""
    held = ServingCertificate(clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    of_rsa, of_ec = rsa_pair(), leaf()
    for pair in (of_rsa, of_ec, of_rsa):
        assert held.offer(pair.certificate, pair.key) is None
        assert handshake(held.context, maximum_version=version)[0] == serial(pair)


SERVED = leaf()
BAD = [
    (KeyPair(leaf().certificate, leaf().key), Reason.CERTIFICATE_KEY_MISMATCH),
    (KeyPair(b"", b""), Reason.CERTIFICATE_MISSING),
    (KeyPair(leaf().certificate, b""), Reason.CERTIFICATE_MISSING),
    (KeyPair(b"x", b"y"), Reason.CERTIFICATE_MALFORMED),
    (KeyPair(leaf().certificate[:200], leaf().key), Reason.CERTIFICATE_MALFORMED),
    (leaf(timedelta(minutes=-1)), Reason.CERTIFICATE_EXPIRED),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason.value for _, reason in BAD])
def test_bad_pair_keeps_the_last_good_one_and_is_told_once(
    bad: KeyPair, reason: Reason, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Finding] = []
    held = ServingCertificate(on_error=told.append)
    good = leaf()
    held.offer(good.certificate, good.key)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            finding = held.offer(bad.certificate, bad.key)
            assert finding is not None
            assert finding.reason is reason
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the last good one stays in use" in caplog.records[0].getMessage()
    assert [problem.reason for problem in told] == [reason]
    assert held.ready
    assert handshake(held.context)[0] == serial(good)


def test_replica_is_unready_once_the_certificate_has_expired() -> None:
    clock = Clock()
    held = ServingCertificate(clock=clock)
    pair = leaf()
    held.offer(pair.certificate, pair.key)
    clock.now += 9 * DAY
    assert held.ready
    clock.now += 2 * DAY
    problem = held.problem()
    assert problem is not None
    assert problem.reason is Reason.CERTIFICATE_EXPIRED
    fresh = new_certificate(CA, hosts=("localhost",), now=clock.now, lifetime=DAY)
    held.offer(fresh.certificate, fresh.key)
    assert held.ready


def secret(**data: Any) -> dict[str, Any]:
    return {"kind": "Secret", "type": "kubernetes.io/tls", "data": data}


def test_secret_is_read_as_the_api_server_sends_it() -> None:
    held = ServingCertificate()
    pair = leaf()
    encoded = {
        "tls.crt": base64.b64encode(pair.certificate).decode(),
        "tls.key": base64.b64encode(pair.key).decode(),
    }
    assert held.offer_secret(secret(**encoded)) is None
    assert handshake(held.context)[0] == serial(pair)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"data": None},
        secret(),
        secret(**{"tls.crt": "***", "tls.key": "***"}),
        secret(**{"tls.crt": 7, "tls.key": []}),
        secret(**{"tls.crt": None, "tls.key": ""}),
    ],
)
def test_broken_secret_gets_a_reason(broken: dict[str, Any]) -> None:
    finding = ServingCertificate().offer_secret(broken)
    assert finding is not None
    assert finding.reason in {Reason.CERTIFICATE_MISSING, Reason.CERTIFICATE_MALFORMED}


def test_encrypted_key_is_refused_without_asking_for_a_password() -> None:
    pair = leaf()
    key = serialization.load_pem_private_key(pair.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    finding = ServingCertificate().offer(pair.certificate, key)
    assert finding is not None
    assert finding.reason is Reason.CERTIFICATE_MALFORMED


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 600))
def test_damaged_key_never_breaks_a_handshake(noise: bytes, at: int) -> None:
    held, good = ServingCertificate(), SERVED
    held.offer(good.certificate, good.key)
    damaged = good.key[:at] + noise + good.key[at + len(noise) + 1 :]
    held.offer(good.certificate, damaged)  # noise beside the PEM block does no harm
    assert handshake(held.context)[0] == serial(good)
