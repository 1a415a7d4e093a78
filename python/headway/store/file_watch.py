"""Notices that the file of an SQLite store was removed or replaced under its open connections.

SQLite itself does not: it goes on in the file that it opened, whose changes nobody finds again.
"""

import os
from pathlib import Path


class FileWatch:
    """Knows which file was opened. Asking costs one `stat`, some microseconds."""

    def __init__(self, file: Path | None) -> None:
        """`file`: None for a store that is no file, with which nothing is ever wrong."""
        self._file = file
        self._opened: tuple[int, int] | None = None

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

    def _identity(self) -> tuple[int, int] | None:
        if self._file is None:
            return None
        status = os.stat(self._file)
        return status.st_dev, status.st_ino
