"""Notices that files of an SQLite store were removed or replaced under its open connections.

SQLite itself does not: it goes on in the files that it opened, whose changes nobody finds again.
It opens three by their names, the database and two that hold what is not in it yet, so that a
connection is good for as long as all three names mean what they meant when it was made.
"""

import errno
import os
from pathlib import Path
from typing import Final

Identity = tuple[int, int]
"""Device and inode."""

Sides = tuple[Identity | None, ...]
UNKNOWN: Final[Sides] = (None,)
"""What a connection has open that has not read anything yet."""

_SIDES: Final = ("-wal", "-shm")


class StaleFiles(OSError):
    """Connections are open whose files are not those of their names any more."""


class FileWatch:
    """Knows which file was opened. Asking costs one `stat` a file, some microseconds.

    Attributes:
      is_stale: True from when a connection was found to have other files open than the names
        mean, until all connections are closed.
    """

    def __init__(self, file: Path | None) -> None:
        """`file`: None for a store that is no file, with which nothing is ever wrong."""
        self.is_stale = False
        self._file = file
        self._opened: Identity | None = None

    def begin(self) -> bool:
        """Takes the file of now for the store's; True if another one was taken for it before."""
        before, self._opened = self._opened, self._identity()
        return before not in (None, self._opened)

    def problem(self) -> str | None:
        """What became of the file since `begin`, as the end of a sentence; None if it is there."""
        if self._opened is None:
            return None
        try:
            same = self._identity() == self._opened
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            return "was removed" if gone else f"cannot be looked at ({error.strerror})"
        return None if same else "was replaced by another one"

    def check(self) -> None:
        """Raises OSError unless the store's file is the one of that name."""
        problem = self.problem()
        if problem is not None:
            raise OSError(errno.ESTALE, f"the store's file {problem}")

    def mark(self) -> tuple[int, ...] | None:
        """Changes whenever the name means another file, be it for a moment: a move is a change."""
        if self._file is None:
            return None
        status = os.stat(self._file)
        return status.st_dev, status.st_ino, status.st_ctime_ns

    def sides(self) -> Sides:
        """The files beside the database's; None for one that is not there."""
        return () if self._file is None else tuple(map(self._side, _SIDES))

    def check_sides(self, *opened: Sides) -> None:
        """Raises StaleFiles if the names mean others than what connections have open."""
        if any(None not in each and each != self.sides() for each in opened):
            self.is_stale = True
        if self.is_stale:
            raise StaleFiles(errno.ESTALE, "a file beside the store's was removed or replaced")

    def _side(self, suffix: str) -> Identity | None:
        assert self._file is not None  # checked by its only caller
        try:
            status = os.stat(f"{self._file}{suffix}")
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _identity(self) -> Identity | None:
        if self._file is None:
            return None
        status = os.stat(self._file)
        return status.st_dev, status.st_ino
