"""Certificates and keys from PEM files, judged before they are used."""

import contextlib
import datetime
import errno
import os
import ssl
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509

from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Identity:
    """What one side of a connection shows and trusts, as PEM.

    Attributes:
      certificates: own certificate and intermediates; b"" to show none.
      key: its private key; never printed.
      authorities: trusted ones; None for those that come with grpcio.
      expires_at: end of the own certificate's validity; None without one.
    """

    certificates: bytes = b""
    key: bytes = field(default=b"", repr=False)
    authorities: bytes | None = None
    expires_at: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class IdentityFiles:
    """Where an identity is kept.

    Attributes:
      setting: what named the files, for messages: "gateway.tls", or "--tls" for options.
    """

    setting: str
    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files there are."""
        found = (self.cert_file, self.key_file, self.ca_file)
        return tuple(path for path in found if path is not None)

    def name(self, which: str) -> str:
        """How the setting of one file ("cert") is written."""
        if self.setting.startswith("--"):
            return f"{self.setting}-{which}"
        return f"{self.setting}.{which}_file"

    def read(self, now: datetime.datetime) -> Identity:
        """Reads and judges the files.

        Raises:
          ConfigError: a file is missing, unreadable, not PEM, expired or not valid yet at `now`,
            or certificate and key do not belong together.
        """
        authorities = None
        if self.ca_file is not None:
            authorities = _content(self.ca_file, self.name("ca"))
            _certificates(authorities, self.ca_file, self.name("ca"))
        if (self.cert_file is None) != (self.key_file is None):
            given, lacking = ("cert", "key") if self.cert_file is not None else ("key", "cert")
            raise ConfigError(
                f"{self.name(given)} is set without {self.name(lacking)}; a certificate is shown "
                "with its key, so set both or neither"
            )
        if self.cert_file is None or self.key_file is None:
            return Identity(authorities=authorities)
        chain = _content(self.cert_file, self.name("cert"))
        own = _certificates(chain, self.cert_file, self.name("cert"))[0]
        self._check_dates(own, now)
        key = _content(self.key_file, self.name("key"))
        self._check_pair(chain, key)
        return Identity(chain, key, authorities, own.not_valid_after_utc)

    def _check_dates(self, own: x509.Certificate, now: datetime.datetime) -> None:
        where = f"{self.name('cert')}: the certificate in {self.cert_file}"
        if own.not_valid_after_utc <= now:
            raise ConfigError(f"{where} expired at {own.not_valid_after_utc}; renew it")
        if own.not_valid_before_utc > now:
            raise ConfigError(
                f"{where} is valid only from {own.not_valid_before_utc}; it is {now} by this "
                "machine's clock"
            )

    def _check_pair(self, chain: bytes, key: bytes) -> None:
        def refuse() -> str:
            raise ConfigError(
                f"{self.name('key')}: the key in {self.key_file} is encrypted; give one that is "
                "not (openssl pkey -in KEY -out PLAIN)"
            )

        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            load_pair(context, chain, key, refuse)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self.name('key')}: the key in {self.key_file} is not usable with the "
                f"certificate in {self.cert_file} ({getattr(error, 'reason', None) or error}); "
                "give the PEM key that the certificate was made for"
            ) from error


def load_pair(
    context: ssl.SSLContext, chain: bytes, key: bytes, password: Callable[[], str] | None = None
) -> None:
    """Has a context show a certificate, from PEM in memory.

    OpenSSL reads files only; the ones judged may have changed since, or block when opened.

    Raises:
      ssl.SSLError: they do not belong together.
    """
    with _named(chain) as cert_file, _named(key) as key_file:
        context.load_cert_chain(cert_file, key_file, password=password)


@contextlib.contextmanager
def _named(content: bytes) -> Iterator[str]:
    if sys.platform != "linux":
        with tempfile.NamedTemporaryFile() as file:  # readable by its owner only
            file.write(content)
            file.flush()
            yield file.name
        return
    with open(os.memfd_create("pem"), "wb") as memory:
        memory.write(content)
        memory.flush()
        yield f"/proc/self/fd/{memory.fileno()}"


def read_regular(path: Path) -> bytes:
    """A file's content, without ever waiting for a writer as `open` does on a FIFO.

    Raises:
      OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read()


def _content(path: Path, setting: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ConfigError(
            f"{setting}: {path} cannot be read: {error.strerror or error}; give the path of a PEM "
            "file that this user may read"
        ) from error


def _certificates(content: bytes, path: Path, setting: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise ConfigError(
            f"{setting}: {path} holds no PEM certificate; it should begin with "
            "-----BEGIN CERTIFICATE-----"
        ) from error
