"""A real ZooKeeper that asks who is there: by TLS certificates, or by SASL."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper, free_port


SASL_USER, SASL_PASSWORD = "driver", "sasl-secret"
KEY_PASSWORD = "key-secret"


@dataclass(frozen=True)
class Certificates:
    """PEM files of a small authority and of those that it signed."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "authority.pem"

    @property
    def server(self) -> Path:
        return self.directory / "server.pem"

    @property
    def client(self) -> Path:
        return self.directory / "client.crt.pem"

    @property
    def client_key(self) -> Path:
        return self.directory / "client.key.pem"

    @property
    def other_authority(self) -> Path:
        return self.directory / "other.pem"


def make_certificates(directory: Path) -> Certificates:
    """Make an authority, a server for 127.0.0.1 only, a client with a protected key, and an authority of others."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificates(directory)
    key, authority = _issue("authority", None, None)
    made.authority.write_bytes(_pem(authority))
    made.other_authority.write_bytes(_pem(_issue("others", None, None)[1]))
    server_key, server = _issue("127.0.0.1", key, authority)
    made.server.write_bytes(_key(server_key, None) + _pem(server))
    client_key, client = _issue("client", key, authority)
    made.client.write_bytes(_pem(client))
    made.client_key.write_bytes(_key(client_key, KEY_PASSWORD))
    return made


class SecuredZooKeeper(EmbeddedZooKeeper):
    """Asks its clients for certificates on a second port, and knows one SASL user on the first."""

    certificates: Certificates
    secure_port: int

    @property
    def secure_hosts(self) -> str:
        """Connection string of the TLS port."""
        return f"127.0.0.1:{self.secure_port}"

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": self.secure_port,
            "secureClientPortAddress": "127.0.0.1",
            "ssl.keyStore.location": self.certificates.server,
            "ssl.trustStore.location": self.certificates.authority,
            "ssl.clientAuth": "need",
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        }


@contextmanager
def secured_zookeeper(directory: Path) -> Iterator[SecuredZooKeeper]:
    """Run such a server."""
    jaas = directory / "jaas.conf"
    directory.mkdir(parents=True, exist_ok=True)
    jaas.write_text(
        "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
        f'user_{SASL_USER}="{SASL_PASSWORD}"; }};\n'
    )
    server = SecuredZooKeeper(directory / "data", tick_ms=200)
    server.certificates = make_certificates(directory / "certificates")
    server.secure_port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
        server.start()
    try:
        yield server
    finally:
        server.stop()


def _issue(
    name: str, signer_key: ec.EllipticCurvePrivateKey | None, signer: x509.Certificate | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if name == "127.0.0.1":
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(signer_key or key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        protection = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
