"""A child's log: a file of bounded size, and what in it deserves to be seen at once."""

import json
import re
from pathlib import Path
from typing import Final

from headway.telemetry.logging import masked

_LOUD: Final = frozenset({"warning", "error", "critical"})
# gRPC's own lines begin with the level's letter and the date; I is information.
_NATIVE_INFORMATION: Final = re.compile(rb"^I\d{4} ")
_LONGEST_LINE: Final = 16 * 1024
_KNOWN_FIELDS: Final = frozenset({"ts", "level", "logger", "message", "exception"})


class BoundedLog:
    """Appends to a file, which is put aside as ``.1`` once it has `max_bytes`."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Starts with an empty file; what an earlier run wrote is put aside."""
        self.path = path
        self._max_bytes = max_bytes
        self._aside = path.with_name(path.name + ".1")
        if path.exists():
            path.replace(self._aside)
        self._file = path.open("wb", buffering=0)
        self._size = 0

    def write(self, data: bytes) -> None:
        """Appends `data`."""
        if self._size and self._size + len(data) > self._max_bytes:
            self._file.close()
            self.path.replace(self._aside)
            self._file = self.path.open("wb", buffering=0)
            self._size = 0
        self._file.write(data)
        self._size += len(data)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class LineSplitter:
    """Cuts a byte stream into lines; a line beyond 16 KiB is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends."""
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines.append(rest)
            rest = b""
        self._rest = rest
        return lines


def loud(line: bytes) -> str | None:
    """What to show of a log line on the terminal; None for what need not be seen.

    Warnings and errors are shown in short; so is whatever is no log line at all (a crash).
    """
    text = line.decode(errors="replace").strip()
    if not text or _NATIVE_INFORMATION.match(line):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return masked(text)
    if not isinstance(record, dict) or record.get("level") not in _LOUD:
        return None
    fields = [f"{key}={value}" for key, value in record.items() if key not in _KNOWN_FIELDS]
    return " ".join([f"{record['level']}: {record.get('message', '')}", *fields])
