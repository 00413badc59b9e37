"""Certificates and keys of one control plane, made with `cryptography`, never shared by two."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controlplane.processes import write_atomically

_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(minutes=5)
_SERVER_HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str


class Authority:
    """A certificate authority that lives in a folder: `ca.crt` and `ca.key`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        self._key_file = folder / "ca.key"

    def prepare(self) -> None:
        """Makes the CA, the API server's certificate and the token keys unless they exist."""
        if (self.folder / "complete").exists():
            return
        self._make_ca()
        server = self.issue("kube-apiserver", hosts=_SERVER_HOSTS, addresses=_SERVER_ADDRESSES)
        write_atomically(self.folder / "server.crt", server.certificate)
        write_atomically(self.folder / "server.key", server.key, 0o600)
        # ServiceAccount tokens are signed with RSA (RS256), the form every client knows.
        signer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        write_atomically(self.folder / "tokens.key", _pem(signer), 0o600)
        public = signer.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_atomically(self.folder / "tokens.pub", public.decode())
        write_atomically(self.folder / "complete", "")

    def issue(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        hosts: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> KeyPair:
        """Issues a certificate for a Kubernetes user (CN) in groups (O), or for a server.

        Args:
            user: The common name, which the API server takes as the user's name.
            groups: The organisations, which it takes as the user's groups.
            hosts: DNS names of a server; with them or addresses it may serve TLS.
            addresses: IP addresses of a server.
        """
        ca = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        ca_key = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self._key_file} is not the key of a CA made here")
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, ca.subject, key.public_key(), ca_key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem_certificate(builder.sign(ca_key, hashes.SHA256())), _pem(key))

    def _make_ca(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local control plane")])
        certificate = (
            _builder(name, name, key.public_key(), key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            # Python 3.13 refuses a CA without keyCertSign.
            .add_extension(_key_usage(ca=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_atomically(self._key_file, _pem(key), 0o600)
        write_atomically(self.certificate_file, _pem_certificate(certificate))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
        )
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


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _pem_certificate(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
