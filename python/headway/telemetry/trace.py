"""Arrival traces without payloads: what came, when, and what became of it.

A trace is a JSON-lines file; the first line names the format. The writer rotates at a size bound
and keeps a bounded number of files, so that it can stay on. `headway lab replay` reads it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from headway._core import hash_key
from headway.errors import HeadwayError

FORMAT: Final = "headway-trace-1"
FIELDS: Final = (
    "at_ns",
    "model",
    "units",
    "rows",
    "deadline_ns",
    "lane",
    "priority",
    "weight",
    "tenant",
    "outcome",
    "ended_ns",
)
TENANT_BITS: Final = 32


class Arrival(NamedTuple):
    """One request. Times are monotonic ns; `deadline_ns` and `ended_ns` are from arrival."""

    at_ns: int
    model: str
    units: int
    rows: int
    deadline_ns: int
    lane: int
    priority: int
    weight: float
    tenant: int
    """Salted hash of the tenant's name, 32 bits; see `tenant_hash`."""
    outcome: str
    """"ok" or the error reason."""
    ended_ns: int


def tenant_hash(tenant: str, salt: int) -> int:
    """What stands for a tenant in a trace: not its name, and another number under another salt."""
    return hash_key(tenant.encode(), salt) & ((1 << TENANT_BITS) - 1)


class TraceWriter:
    """Appends arrivals to a file; one writer a file.

    When `path` would grow beyond `max_bytes` it becomes `path.1`, that `path.2`, and so on; more
    than `max_files` are deleted. At most `max_bytes * max_files` are on disk. `write` buffers up
    to `buffer_lines` lines and then makes one system call; `close` writes the rest.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        max_files: int = 4,
        buffer_lines: int = 256,
    ) -> None:
        """Bounds: max_bytes >= 4096, max_files >= 1, buffer_lines >= 1; ValueError beyond."""
        for name, value, least in (
            ("max_bytes", max_bytes, 4096),
            ("max_files", max_files, 1),
            ("buffer_lines", buffer_lines, 1),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, but must be at least {least}")
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._buffer_lines = buffer_lines
        self._lines: list[str] = []
        self._file: IO[str] | None = None
        self._size = 0

    def open(self) -> None:
        """Begins a file now rather than with the first line. OSError from the disk."""
        if self._file is None:
            self._rotate()

    def write(self, arrival: Arrival) -> None:
        """Adds a request; O(1) but for one write in `buffer_lines`. OSError from the disk."""
        self._lines.append(json.dumps(arrival, separators=(",", ":"), ensure_ascii=True) + "\n")
        if len(self._lines) >= self._buffer_lines:
            self.flush()

    def flush(self) -> None:
        """Writes what is buffered."""
        lines, self._lines = self._lines, []
        for line in lines:
            if self._file is None or self._size + len(line) > self._max_bytes:
                self._rotate()
            if self._file is not None:
                self._size += self._file.write(line)
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Writes what is buffered and closes the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for number in range(self._max_files - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self._file = self._path.open("w", encoding="ascii")
        header = {"format": FORMAT, "fields": FIELDS}
        self._size = self._file.write(json.dumps(header, separators=(",", ":")) + "\n")

    def _numbered(self, number: int) -> Path:
        return self._path if number == 0 else Path(f"{self._path}.{number}")


def read_trace(path: Path) -> Iterator[Arrival]:
    """Reads a trace with its rotated files, oldest first.

    Raises:
      HeadwayError: not a trace, or a line that is damaged; it names file and line. A last line
        that was cut off is left out.
    """
    parts = [path]
    while (older := Path(f"{path}.{len(parts)}")).exists():
        parts.append(older)
    for part in reversed(parts):
        yield from _read_file(part)


def _read_file(path: Path) -> Iterator[Arrival]:
    try:
        with path.open(encoding="ascii") as file:
            _check_header(path, file.readline())
            for number, line in enumerate(file, start=2):
                if not line.endswith("\n"):
                    return
                yield _parse(path, number, line)
    except OSError as error:
        raise HeadwayError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{path}: not a Headway trace; it is not text") from error


def _check_header(path: Path, line: str) -> None:
    try:
        header: Any = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise HeadwayError(f"{path}: not a Headway trace; its first line must name {FORMAT}")


def _parse(path: Path, number: int, line: str) -> Arrival:
    try:
        return Arrival(*json.loads(line))
    except (TypeError, ValueError) as error:
        fields = ", ".join(FIELDS)
        raise HeadwayError(f"{path}:{number}: expected a list of {fields}") from error
