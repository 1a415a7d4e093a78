"""Authorities and certificates made on the spot."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headway.clock import wall_ns

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """A certificate's PEM files."""

    cert_file: Path
    key_file: Path
    ca_file: Path

    def settings(self, **more: object) -> dict[str, object]:
        """As a table of settings."""
        return {
            "cert_file": str(self.cert_file),
            "key_file": str(self.key_file),
            "ca_file": str(self.ca_file),
            **more,
        }


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder: Path, name: str = "tests' authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = _builder(self._name, self._name, self._key.public_key(), DAY)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = own.sign(self._key, hashes.SHA256())
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        stem: str,
        *names: str,
        valid_for: datetime.timedelta = DAY,
        address: str = "127.0.0.1",
    ) -> Files:
        """Writes stem.pem and stem.key; replaces what is there, as a renewal does."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        if address:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(address)))
        builder = _builder(subject, self._name, key.public_key(), valid_for)
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        cert_file, key_file = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        _replace(key_file, _plain(key))
        _replace(cert_file, certificate.public_bytes(serialization.Encoding.PEM))
        return Files(cert_file, key_file, self.ca_file)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid_for: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(wall_ns() / 1e9, tz=datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * DAY)
        .not_valid_after(now + valid_for)
    )


def _plain(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_name(path.name + ".new")
    scratch.write_bytes(content)
    scratch.replace(path)
