"""Certificates are judged before they are used, and each refusal names file and way out."""

import asyncio
import datetime
import os
import threading
from pathlib import Path

import pytest
from tests.support.certificates import DAY, Authority

from headway.clock import wall_ns
from headway.errors import ConfigError
from headway.rpc.tls import ProcessTls
from headway.tls.identity import IdentityFiles
from headway.tls.rotation import RotatingIdentity
from headway.tls.settings import GatewayTlsSettings

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


@pytest.mark.parametrize("which", ["key_file", "cert_file", "ca_file"])
def test_a_file_that_blocks_when_opened_leaves_the_last_good_one(
    tmp_path: Path, which: str
) -> None:
    """A FIFO without a writer held the first handshake, and all after it, for good."""
    authority = Authority(tmp_path)
    where = files(authority)
    rotating = RotatingIdentity(where, WallClock())
    before = rotating.current()
    path: Path = getattr(where, which)
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    assert rotating.current() is before
    assert rotating.num_refused == 1
    assert f"{path} cannot be read: not a regular file" in str(rotating.problem)
    path.unlink()
    path.write_bytes(content)
    files(authority)
    assert rotating.current() is not before
    assert rotating.problem is None


def test_files_that_are_not_read_in_time_hold_up_nobody(tmp_path: Path) -> None:
    """As on a mount that hangs: even to look at a file does not return."""
    authority = Authority(tmp_path)
    released = threading.Event()

    class Hanging(IdentityFiles):
        hangs = False

        @property
        def paths(self) -> tuple[Path, ...]:
            if Hanging.hangs:
                released.wait()
            return super().paths

    made = files(authority)
    where = Hanging("gateway.tls", made.cert_file, made.key_file, made.ca_file)
    rotating = RotatingIdentity(where, WallClock())
    before = rotating.current()
    Hanging.hangs = True
    assert [rotating.current() for _ in range(100)] == [before] * 100
    assert rotating.num_refused == 1
    assert "cannot be read within 1 s" in str(rotating.problem)
    Hanging.hangs = False
    released.set()
    files(authority)
    while rotating.current() is before:
        pass
    assert rotating.problem is None


class Ticks:
    """A clock of which each sleep is over at once; the third one asked for never is."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._left = 2

    def now_ns(self) -> int:
        return 0

    async def sleep(self, duration_ns: int) -> None:
        if self._left == 0:
            self.over.set()
            await asyncio.Event().wait()
        self._left -= 1


async def test_bad_files_are_told_though_nobody_connects(tmp_path: Path) -> None:
    made = Authority(tmp_path).issue("gateway")
    settings = GatewayTlsSettings(
        cert_file=made.cert_file, key_file=made.key_file, ca_file=made.ca_file
    )
    tls, clock = ProcessTls(settings, "gateway.tls", WallClock()), Ticks()
    assert tls.identity is not None
    made.cert_file.write_text("half of a")
    watching = asyncio.ensure_future(tls.watch(clock))
    await clock.over.wait()
    watching.cancel()
    assert tls.identity.num_refused == 1
