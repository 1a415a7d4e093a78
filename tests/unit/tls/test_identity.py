"""Certificates are judged before they are used, and each refusal names file and way out."""

import datetime
from pathlib import Path

import pytest
from tests.support.certificates import DAY, Authority

from headway.clock import wall_ns
from headway.errors import ConfigError
from headway.tls.identity import IdentityFiles
from headway.tls.rotation import RotatingIdentity

NOW = datetime.datetime.fromtimestamp(wall_ns() / 1e9, tz=datetime.UTC)


def files(authority: Authority, stem: str = "gateway", **names: object) -> IdentityFiles:
    made = authority.issue(stem, "gateway.test", **names)  # type: ignore[arg-type]
    return IdentityFiles("gateway.tls", made.cert_file, made.key_file, made.ca_file)


def test_reads_what_belongs_together(tmp_path: Path) -> None:
    identity = files(Authority(tmp_path), valid_for=3 * DAY).read(NOW)
    assert identity.certificates.startswith(b"-----BEGIN CERTIFICATE-----")
    assert identity.authorities is not None
    assert identity.expires_at is not None
    assert identity.expires_at - NOW > 2 * DAY


def test_never_prints_the_key(tmp_path: Path) -> None:
    assert "PRIVATE" not in repr(files(Authority(tmp_path)).read(NOW))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("missing", r"gateway\.tls\.cert_file: .*gone\.pem cannot be read: No such file"),
        ("garbage", r"gateway\.tls\.cert_file: .*garbage\.pem holds no PEM certificate"),
        ("expired", r"gateway\.tls\.cert_file: .* expired at .*; renew it"),
        ("other key", r"gateway\.tls\.key_file: the key in .*other\.key is not usable with"),
        ("no key", r"gateway\.tls\.cert_file is set without gateway\.tls\.key_file"),
        ("garbage ca", r"gateway\.tls\.ca_file: .*garbage\.pem holds no PEM certificate"),
    ],
)
def test_refuses(tmp_path: Path, spoil: str, said: str) -> None:
    authority = Authority(tmp_path)
    good = authority.issue("good")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("not a certificate")
    expired = authority.issue("expired", valid_for=-DAY)
    chosen = {
        "missing": (tmp_path / "gone.pem", good.key_file, None),
        "garbage": (garbage, good.key_file, None),
        "expired": (expired.cert_file, expired.key_file, None),
        "other key": (good.cert_file, authority.issue("other").key_file, None),
        "no key": (good.cert_file, None, None),
        "garbage ca": (good.cert_file, good.key_file, garbage),
    }[spoil]
    with pytest.raises(ConfigError, match=said):
        IdentityFiles("gateway.tls", *chosen).read(NOW)


def test_options_are_named_as_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--tls-ca: .*nowhere cannot be read"):
        IdentityFiles("--tls", ca_file=tmp_path / "nowhere").read(NOW)


class WallClock:
    """Wall time under the test's control, in nanoseconds."""

    def __init__(self) -> None:
        self.now = wall_ns()

    def __call__(self) -> int:
        self.now += 1_000_000_000
        return self.now


def test_a_renewed_certificate_is_taken_over(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    rotating = RotatingIdentity(files(authority), WallClock())
    before = rotating.current().certificates
    files(authority)
    assert rotating.current().certificates != before
    assert rotating.generation == 2


def test_a_half_written_renewal_leaves_the_last_good_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    where = files(authority)
    rotating = RotatingIdentity(where, WallClock())
    before = rotating.current()
    assert where.key_file is not None
    where.key_file.write_bytes(b"-----BEGIN PRIVATE KEY-----\n")
    assert rotating.current() is before
    assert rotating.num_refused == 1
    files(authority)
    assert rotating.current() is not before
    assert rotating.num_refused == 1
