"""The certificate authority of the webhook and the certificates it signs: bytes in, bytes out.

Nothing here reads a clock, a file or the API: the callers pass the time, so that each decision
about renewal can be tried at any moment of a certificate's life.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from schedclass.domain.findings import Finding, Reason, Severity

BACKDATED: Final = timedelta(minutes=5)
"""Validity begins this much before the moment of signing: the API server's clock may be behind."""

LIFE_BEFORE_RENEWAL: Final = 2 / 3
"""Share of the lifetime after which a certificate is renewed, as cert-manager does by default."""

_MOST_TRUSTED: Final = 3
"""CAs in one bundle: the current one, the one before it, and one of a second quick rotation."""

_CERTIFICATE_BLOCK: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM.

    Attributes:
        certificate: the certificate; intermediates may follow it.
        key: the private key, PKCS #8, not encrypted.
    """

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Never shows the key."""
        return f"KeyPair(certificate=<{len(self.certificate)} bytes>)"


def new_authority(*, common_name: str, now: datetime, lifetime: timedelta) -> KeyPair:
    """Make a self-signed CA (ECDSA P-256) that may sign end-entity certificates only.

    Args:
        common_name: subject of the CA, at most 64 characters are kept (RFC 5280, ub-common-name).
        now: the time of signing, with a time zone.
        lifetime: validity counted from `now`.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name)
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_certificate(
    authority: KeyPair, *, hosts: Sequence[str], now: datetime, lifetime: timedelta
) -> KeyPair:
    """Sign a new serving certificate (ECDSA P-256) for `hosts`.

    Args:
        authority: the CA; the first certificate of its PEM that belongs to its key signs.
        hosts: DNS names and IP addresses for subjectAltName; at least one.
        now: the time of signing, with a time zone.
        lifetime: validity counted from `now`, cut to the CA's.

    Raises:
        ValueError: the CA or its key cannot be read, they do not belong together, or `hosts` is
            empty.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host")
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the CA is not an elliptic curve key")  # noqa: TRY004 - input
    issuer = current_authority(authority)
    if issuer is None:
        raise ValueError("the CA certificate does not belong to the key of the CA")
    key = ec.generate_private_key(ec.SECP256R1())
    not_after = min(now + lifetime, issuer.not_valid_after_utc)
    certificate = (
        _builder(_name(hosts[0]), issuer.subject, key.public_key(), now, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)]),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def service_hosts(
    service: str, namespace: str, cluster_domain: str, extra: Iterable[str] = ()
) -> tuple[str, ...]:
    """Every name under which a Service is reached, then `extra`, each once."""
    names = (
        f"{service}.{namespace}.svc",  # the one the API server uses, so it is the common name
        f"{service}.{namespace}.svc.{cluster_domain}",
        f"{service}.{namespace}",
        service,
        *extra,
    )
    return tuple(dict.fromkeys(names))


def certificates(pem: bytes) -> list[x509.Certificate]:
    """All readable certificates of a PEM text, in their order; unreadable blocks are left out."""
    found = []
    for block in _CERTIFICATE_BLOCK.findall(pem):
        try:
            certificate = x509.load_pem_x509_certificate(block)
            certificate.public_key()
        except (ValueError, UnsupportedAlgorithm):
            continue
        found.append(certificate)
    return found


def current_authority(authority: KeyPair) -> x509.Certificate | None:
    """The CA certificate that belongs to the CA's key; None when there is none."""
    key = _public_key(authority.key)
    if key is None:
        return None
    for certificate in certificates(authority.certificate):
        if _is_authority(certificate) and certificate.public_key() == key:
            return certificate
    return None


def bundle(*pems: bytes, now: datetime) -> bytes:
    """The CAs to trust: those of `pems` that have not expired, first ones first, each once.

    At most three are kept, so that a bundle cannot grow with every rotation.
    """
    kept: dict[bytes, bytes] = {}
    for pem in pems:
        for certificate in certificates(pem):
            if _is_authority(certificate) and certificate.not_valid_after_utc > now:
                kept.setdefault(certificate.fingerprint(hashes.SHA256()), to_pem(certificate))
    return b"".join(list(kept.values())[:_MOST_TRUSTED])


def expires_at(pem: bytes) -> datetime | None:
    """When the first certificate of `pem` expires; None when there is no readable one."""
    found = certificates(pem)
    return found[0].not_valid_after_utc if found else None


def why_unusable(pair: KeyPair, *, now: datetime) -> Finding | None:
    """Why a pair cannot serve at `now`: missing, malformed, torn or expired; None when it can.

    The begin of validity is not judged: when it lies ahead, this clock may be the wrong one.
    """
    if not pair.certificate.strip() or not pair.key.strip():
        part = "key" if pair.certificate.strip() else "certificate"
        return _error(Reason.CERTIFICATE_MISSING, f"the {part} is empty")
    found = certificates(pair.certificate)
    blocks = len(_CERTIFICATE_BLOCK.findall(pair.certificate))
    if not found or len(found) < blocks:
        return _error(Reason.CERTIFICATE_MALFORMED, "the certificate is not readable PEM")
    key = _public_key(pair.key)
    if key is None:
        return _error(Reason.CERTIFICATE_MALFORMED, "the private key is not readable PEM")
    if found[0].public_key() != key:
        return _error(
            Reason.CERTIFICATE_KEY_MISMATCH, "the certificate does not belong to the private key"
        )
    if found[0].not_valid_after_utc <= now:
        return _error(
            Reason.CERTIFICATE_EXPIRED,
            f"the certificate expired at {_stamp(found[0].not_valid_after_utc)}",
        )
    return None


def why_renew_authority(authority: KeyPair | None, *, now: datetime) -> Finding | None:
    """Why a new CA is needed at `now`; None when the present one is right."""
    if authority is None:
        return _error(Reason.CERTIFICATE_MISSING, "there is no CA yet")
    certificate = current_authority(authority)
    if certificate is None:
        unusable = why_unusable(authority, now=now)
        return unusable or _error(
            Reason.CERTIFICATE_KEY_MISMATCH, "no CA certificate belongs to the key of the CA"
        )
    if not isinstance(certificate.public_key(), ec.EllipticCurvePublicKey):
        return _error(Reason.CERTIFICATE_MALFORMED, "the key of the CA is not an EC key")
    return _why_renew_by_age(certificate, now=now)


def why_renew_certificate(
    pair: KeyPair | None, *, authority: x509.Certificate, hosts: Iterable[str], now: datetime
) -> Finding | None:
    """Why a new serving certificate is needed at `now`; None when the present one is right.

    Args:
        pair: the present pair; None when there is none.
        authority: the CA it has to be signed by.
        hosts: the names it has to carry; further ones do no harm.
        now: the time of the decision.
    """
    if pair is None:
        return _error(Reason.CERTIFICATE_MISSING, "there is no serving certificate yet")
    unusable = why_unusable(pair, now=now)
    if unusable is not None:
        return unusable
    certificate = certificates(pair.certificate)[0]
    if not is_signed_by(certificate, authority):
        return _error(
            Reason.CERTIFICATE_UNTRUSTED, "the certificate is not signed by the current CA"
        )
    missing = sorted(set(map(_canonical, hosts)) - _hosts_of(certificate))
    if missing:
        return _error(
            Reason.CERTIFICATE_HOST_MISSING, f"the certificate does not name {', '.join(missing)}"
        )
    return _why_renew_by_age(certificate, now=now)


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` itself (not a CA of the same name) signed `certificate`."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _why_renew_by_age(certificate: x509.Certificate, *, now: datetime) -> Finding | None:
    # Counted from the signing: of a life of minutes, what is backdated would be most.
    signed = min(certificate.not_valid_before_utc + BACKDATED, certificate.not_valid_after_utc)
    due = signed + (certificate.not_valid_after_utc - signed) * LIFE_BEFORE_RENEWAL
    if now < due:
        return None
    end = _stamp(certificate.not_valid_after_utc)
    if certificate.not_valid_after_utc <= now:
        return _error(Reason.CERTIFICATE_EXPIRED, f"the certificate expired at {end}")
    message = f"two thirds of its lifetime are over, it expires at {end}"
    return Finding(Reason.CERTIFICATE_EXPIRES_SOON, message)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(not_after)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _general_name(host: str) -> x509.GeneralName:
    address = _address(host)
    return x509.DNSName(host) if address is None else x509.IPAddress(address)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _canonical(host: str) -> str:
    address = _address(host)
    return host.lower() if address is None else str(address)


def _hosts_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return {*map(str.lower, names.get_values_for_type(x509.DNSName)), *addresses}


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _public_key(key_pem: bytes) -> CertificatePublicKeyTypes | None:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key.public_key()  # type: ignore[return-value]  # X25519 and DH keys equal no certificate's


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return KeyPair(to_pem(certificate), key_pem)


def to_pem(certificate: x509.Certificate) -> bytes:
    """One certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _error(reason: Reason, message: str) -> Finding:
    return Finding(reason, message, Severity.ERROR)
