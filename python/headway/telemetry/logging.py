"""Structured logs: one JSON object a line for machines, or one aligned line for terminals.

```python
configure(level="info", style="json")
log = logging.getLogger("headway.gateway")
with bind(request_id="r-1"):
    log.warning("shed", extra={"retry_after_ms": 40})
```

prints

    {"ts": "2026-01-02T03:04:05.678Z", "level": "warning", "logger": "headway.gateway",
     "message": "shed", "request_id": "r-1", "retry_after_ms": 40}

on one line. What looks like an API key, and any field named like a secret, is masked.
"""

import contextlib
import contextvars
import datetime
import json
import logging
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TextIO

LogLevel = Literal["debug", "info", "warning", "error"]
"""How much is logged: this level and what is graver."""

LogStyle = Literal["json", "text"]
"""``json``: one object a line. ``text``: one line for people, in colour on a terminal."""

MASK: Final = "***"
"""Stands where a secret would."""

_API_KEY: Final = re.compile(r"\b(hw_[0-9A-Za-z]{8})_[0-9A-Za-z]{16,}")
_SECRET_FIELD: Final = re.compile(
    r"(^|_)(secret|password|passwd|token|authorization|api_?key|cookie)$", re.IGNORECASE
)
_STANDARD_FIELDS: Final = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None)).keys() | {"message", "asctime", "taskName"}
)
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}

_bound: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar(
    "headway_log_fields", default=types.MappingProxyType({})
)


@contextlib.contextmanager
def bind(**fields: object) -> Iterator[None]:
    """Adds `fields` to every line logged inside, in this task and those it starts."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def configure(
    *, level: LogLevel = "info", style: LogStyle = "json", stream: TextIO | None = None
) -> None:
    """Sends the whole process's logs to `stream` (standard error), replacing earlier handlers."""
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter(out.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: LogLevel) -> None:
    """Changes how much is logged from now on."""
    logging.getLogger().setLevel(level.upper())
    # Below warning this logger reports each connection attempt of a healthy start.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def masked(text: str) -> str:
    """`text` with the secret half of every API key in it masked."""
    return _API_KEY.sub(rf"\1_{MASK}", text)


def is_secret(field: str) -> bool:
    """True if a field of this name is never shown ("fleet_token", "password")."""
    return _SECRET_FIELD.search(field) is not None


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, message, bound fields, extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
        line: dict[str, object] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        for name, value in _fields(record).items():
            line.setdefault(name, value)
        if trace := _trace(self, record):
            line["exception"] = trace
        return json.dumps(line, default=lambda value: masked(str(value)), ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """One line for people: time, level, logger, message, fields; a traceback below it."""

    def __init__(self, colour: bool = False) -> None:
        """`colour`: True to colour the level."""
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback where there is one."""
        level = record.levelname.lower()
        shown = f"{level:<8}"
        if self._colour:
            shown = f"\x1b[{_COLOURS.get(level, '0')}m{shown}\x1b[0m"
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        time_of_day = _timestamp(record)[11:-1]
        line = f"{time_of_day} {shown} {record.name}: {masked(record.getMessage())}{fields}"
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


def _timestamp(record: logging.LogRecord) -> str:
    """RFC 3339, UTC, milliseconds."""
    instant = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
    return {name: _shown(name, value) for name, value in {**_bound.get(), **extra}.items()}


def _shown(field: str, value: object) -> object:
    if is_secret(field):
        return MASK
    return masked(value) if isinstance(value, str) else value


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return masked(formatter.formatException(record.exc_info)) if record.exc_info else ""
