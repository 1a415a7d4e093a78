"""An identity that follows its files: renewed certificates are shown without a restart."""

import datetime
import logging
import threading
from collections.abc import Callable

from headway.errors import CertificateExpired, ConfigError
from headway.tls.identity import Identity, IdentityFiles

_log = logging.getLogger(__name__)

_NS_PER_S = 1_000_000_000
_CHECK_EVERY_NS = _NS_PER_S // 5
_PATIENCE_S = 1.0

_Stamp = tuple[tuple[int, int, int], ...]


class _Unread(ConfigError):
    """Files that may be good, could they be read in time."""


class RotatingIdentity:
    """The identity in some files, read again when they change; safe to use from any thread.

    Files are looked at when somebody connects, at most five times a second, by a thread of their
    own: a mount that hangs holds nobody up for longer than a second. What cannot be used
    (half-written, expired, not a pair, not to be read in time) leaves the last good identity in
    force, and is logged once.

    Attributes:
      num_refused: changes of the files that could not be used.
      generation: number of the identity in force, from 1.
      problem: why the files as they are cannot be used; None if they are in force.
    """

    def __init__(self, files: IdentityFiles, wall_ns: Callable[[], int]) -> None:
        """Reads the files. `wall_ns`: nanoseconds since 1970, against which dates are judged.

        Raises:
          ConfigError: they cannot be used.
        """
        self._files = files
        self._names = ", ".join(map(str, files.paths))
        self._wall_ns = wall_ns
        self._lock = threading.Lock()
        self._checked_ns = wall_ns()
        self._stamp = self._look()
        self._identity = files.read(self._now())
        self._looking: threading.Thread | None = None
        self.num_refused = 0
        self.generation = 1
        self.problem: ConfigError | None = None

    def current(self) -> Identity:
        """The identity in force."""
        looking = self._look_if_due()
        if looking is not None:
            looking.join(_PATIENCE_S)
            if looking.is_alive():
                self._refuse(
                    _Unread(
                        f"{self._names} cannot be read within "
                        f"{_PATIENCE_S:g} s; see whether their file system answers"
                    )
                )
        return self._identity

    def _look_if_due(self) -> threading.Thread | None:
        with self._lock:
            now_ns = self._wall_ns()
            # Not "since": the wall clock may have been set back.
            if abs(now_ns - self._checked_ns) < _CHECK_EVERY_NS:
                return None
            if self._looking is not None and self._looking.is_alive():
                return None
            self._checked_ns = now_ns
            self._looking = threading.Thread(target=self._follow, name="tls-files", daemon=True)
            self._looking.start()
            return self._looking

    def check(self) -> None:
        """Follows the files.

        Raises:
          CertificateExpired: the certificate in force is no longer valid, and its files hold none
            that is.
        """
        expires_at = self.current().expires_at
        if expires_at is None or expires_at > self._now():
            return
        why = self.problem or f"the certificate in {self._files.cert_file} was not renewed"
        raise CertificateExpired(
            f"{self._files.name('cert')}: the certificate in force expired at {expires_at}, and "
            f"its files hold no better one ({why}); renew them, and the next call takes them up"
        )

    def seconds_left(self) -> float:
        """Validity left of the certificate in force, in seconds; inf without one."""
        expires_at = self.current().expires_at
        if expires_at is None:
            return float("inf")
        return expires_at.timestamp() - self._wall_ns() / _NS_PER_S

    def _follow(self) -> None:
        stamp = self._look()
        if stamp == self._stamp:
            if isinstance(self.problem, _Unread):
                self.problem = None
            return
        self._stamp = stamp
        try:
            fresh = self._files.read(self._now())
        except ConfigError as error:
            self._refuse(error)
            return
        self._identity = fresh
        self.problem = None
        self.generation += 1
        _log.info("certificate changed", extra={"expires_at": str(fresh.expires_at)})

    def _refuse(self, error: ConfigError) -> None:
        self.num_refused += 1
        if self.problem is None or not isinstance(error, _Unread):
            self.problem = error
        _log.error("changed certificate refused; the last one stays: %s", error)

    def _look(self) -> _Stamp:
        stamp = []
        for path in self._files.paths:
            try:
                found = path.stat()
            except OSError:
                stamp.append((0, 0, 0))
                continue
            stamp.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamp)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._wall_ns() / _NS_PER_S, tz=datetime.UTC)
