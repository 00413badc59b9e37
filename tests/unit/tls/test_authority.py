import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from schedclass.domain.findings import Reason
from schedclass.tls.authority import (
    KeyPair,
    bundle,
    certificates,
    current_authority,
    expires_at,
    is_signed_by,
    new_authority,
    new_certificate,
    service_hosts,
    why_renew_authority,
    why_renew_certificate,
    why_unusable,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
HOSTS = ("hook.cozy.svc", "hook", "10.0.0.7", "fd00::7")

CA = new_authority(common_name="hook.cozy", now=NOW, lifetime=3650 * DAY)
OTHER_CA = new_authority(common_name="hook.cozy", now=NOW, lifetime=3650 * DAY)
LEAF = new_certificate(CA, hosts=HOSTS, now=NOW, lifetime=365 * DAY)
OTHER_LEAF = new_certificate(CA, hosts=HOSTS, now=NOW, lifetime=365 * DAY)


def the(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def why(pair: KeyPair | None, *, now: datetime = NOW, hosts: tuple[str, ...] = HOSTS) -> str:
    finding = why_renew_certificate(pair, authority=the(CA), hosts=hosts, now=now)
    return finding.reason.value if finding else ""


def rsa_pair() -> KeyPair:
    """What an issuer of cert-manager may make."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
    )


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_is_verified_by_the_ca(host: str) -> None:
    """By cryptography's verifier, which holds certificates to RFC 5280 and the CA/B rules."""
    subject: x509.verification.Subject
    try:
        subject = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    builder = PolicyBuilder().store(Store([the(CA)])).time(NOW)
    assert builder.build_server_verifier(subject).verify(the(LEAF), []) == [the(LEAF), the(CA)]
    with pytest.raises(VerificationError):
        PolicyBuilder().store(Store([the(OTHER_CA)])).time(NOW).build_server_verifier(
            subject
        ).verify(the(LEAF), [])


def test_serving_certificate_can_serve_and_nothing_else() -> None:
    extensions = the(LEAF).extensions
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_certificate_is_valid_before_a_slow_clock_gets_there() -> None:
    assert the(LEAF).not_valid_before_utc <= NOW - timedelta(minutes=5)


def test_certificate_never_outlives_its_ca() -> None:
    leaf = new_certificate(CA, hosts=HOSTS, now=NOW + 3600 * DAY, lifetime=365 * DAY)
    assert expires_at(leaf.certificate) == expires_at(CA.certificate)


def test_key_is_not_shown() -> None:
    assert "PRIVATE" not in repr(LEAF)


def test_certificate_without_hosts_or_with_a_foreign_key_is_not_signed() -> None:
    with pytest.raises(ValueError, match="at least one host"):
        new_certificate(CA, hosts=(), now=NOW, lifetime=DAY)
    with pytest.raises(ValueError, match="does not belong"):
        new_certificate(KeyPair(CA.certificate, OTHER_CA.key), hosts=HOSTS, now=NOW, lifetime=DAY)


def test_service_is_named_in_every_form_once() -> None:
    assert service_hosts("hook", "cozy", "cluster.local", ("10.0.0.1", "hook")) == (
        "hook.cozy.svc",
        "hook.cozy.svc.cluster.local",
        "hook.cozy",
        "hook",
        "10.0.0.1",
    )


def test_right_certificate_stays() -> None:
    assert why(LEAF) == ""
    assert why(LEAF, hosts=("HOOK", "fd00:0:0::7")) == ""
    assert why_renew_authority(CA, now=NOW) is None


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (None, Reason.CERTIFICATE_MISSING),
        (KeyPair(b"", b""), Reason.CERTIFICATE_MISSING),
        (KeyPair(LEAF.certificate, b"\n"), Reason.CERTIFICATE_MISSING),
        (KeyPair(b"garbage", LEAF.key), Reason.CERTIFICATE_MALFORMED),
        (KeyPair(LEAF.certificate[:-60], LEAF.key), Reason.CERTIFICATE_MALFORMED),
        (KeyPair(LEAF.certificate, LEAF.key[:-60]), Reason.CERTIFICATE_MALFORMED),
        (KeyPair(LEAF.key, LEAF.certificate), Reason.CERTIFICATE_MALFORMED),
        (KeyPair(LEAF.certificate, OTHER_LEAF.key), Reason.CERTIFICATE_KEY_MISMATCH),
        (
            new_certificate(OTHER_CA, hosts=HOSTS, now=NOW, lifetime=DAY),
            Reason.CERTIFICATE_UNTRUSTED,
        ),
        (
            new_certificate(CA, hosts=HOSTS[:2], now=NOW, lifetime=DAY),
            Reason.CERTIFICATE_HOST_MISSING,
        ),
    ],
)
def test_wrong_certificate_is_renewed_for_a_reason(pair: KeyPair | None, reason: Reason) -> None:
    assert why(pair) == reason.value


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=2), st.sampled_from([timedelta(seconds=10), 365 * DAY]))
def test_certificate_is_renewed_at_two_thirds_of_its_life(share: float, life: timedelta) -> None:
    leaf = new_certificate(CA, hosts=HOSTS, now=NOW, lifetime=life)
    reason = why(leaf, now=NOW + life * share)
    if share < 0.6666:
        assert reason == ""
    elif 0.6667 < share < 1:
        assert reason == "CertificateExpiresSoon"
    elif share > 1:
        assert reason == "CertificateExpired"


def test_ca_is_renewed_for_a_reason() -> None:
    def reason(pair: KeyPair | None, now: datetime = NOW) -> Reason | None:
        finding = why_renew_authority(pair, now=now)
        return finding.reason if finding else None

    assert reason(None) is Reason.CERTIFICATE_MISSING
    assert reason(KeyPair(CA.certificate, OTHER_CA.key)) is Reason.CERTIFICATE_KEY_MISMATCH
    assert reason(KeyPair(CA.certificate, b"x")) is Reason.CERTIFICATE_MALFORMED
    assert reason(CA, NOW + 2500 * DAY) is Reason.CERTIFICATE_EXPIRES_SOON
    assert reason(CA, NOW + 4000 * DAY) is Reason.CERTIFICATE_EXPIRED
    assert reason(LEAF) is not None
    assert reason(rsa_pair()) is Reason.CERTIFICATE_MALFORMED


def test_ca_is_found_among_those_that_are_trusted_besides() -> None:
    both = KeyPair(OTHER_CA.certificate + CA.certificate, CA.key)
    assert current_authority(both) == the(CA)
    leaf = new_certificate(both, hosts=HOSTS, now=NOW, lifetime=DAY)
    assert is_signed_by(the(leaf), the(CA))
    assert not is_signed_by(the(leaf), the(OTHER_CA))


def test_bundle_keeps_living_cas_once_and_in_order() -> None:
    short = new_authority(common_name="old", now=NOW, lifetime=DAY)
    mixed = short.certificate + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    trusted = bundle(
        CA.certificate, mixed, CA.certificate + OTHER_CA.certificate, LEAF.certificate, now=NOW
    )
    assert certificates(trusted) == [the(CA), the(short), the(OTHER_CA)]
    assert certificates(bundle(trusted, now=NOW + 2 * DAY)) == [the(CA), the(OTHER_CA)]


def test_bundle_does_not_grow_without_end() -> None:
    trusted = b""
    for _ in range(6):
        newest = new_authority(common_name="ca", now=NOW, lifetime=DAY)
        trusted = bundle(newest.certificate, trusted, now=NOW)
        assert certificates(trusted)[0] == the(newest)
    assert len(certificates(trusted)) == 3


def test_rsa_pair_of_another_issuer_is_usable() -> None:
    assert why_unusable(rsa_pair(), now=NOW) is None


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_get_a_reason(certificate: bytes, key: bytes) -> None:
    assert why_unusable(KeyPair(certificate, key), now=NOW) is not None
    assert why(KeyPair(LEAF.certificate[:100] + certificate, key)) != ""
    assert expires_at(certificate) is None
    assert bundle(certificate, key, now=NOW) == b""
