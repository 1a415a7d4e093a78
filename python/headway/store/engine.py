"""Opens databases: URLs, drivers, and how each of the two kinds is set up."""

import errno
import itertools
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from headway.errors import ConfigError
from headway.store.file_watch import UNKNOWN, FileWatch, Sides

WRITE: Final = "headway_write"
"""Execution option of transactions that write."""

_EXTRA = {"sqlite": "store", "postgresql": "postgres"}
_DRIVER = {"sqlite": "aiosqlite", "postgresql": "asyncpg"}
_OPENINGS: Final = 5
"""Attempts to open a file that changes meanwhile, as it does when SQLite tidies it up."""

SIDES: Final = "headway_sides"
"""In the `info` of a connection: the files beside the database's that it has opened."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is.

    Attributes:
      url: with its driver and password; never shown.
      shown: for people, the password masked.
    """

    url: URL
    shown: str

    @property
    def is_postgresql(self) -> bool:
        """True for PostgreSQL, False for SQLite."""
        return self.url.get_backend_name() == "postgresql"

    @property
    def file(self) -> Path | None:
        """SQLite's file; None for PostgreSQL and for a database in memory."""
        name = self.url.database
        return None if self.is_postgresql or name in (None, "", ":memory:") else Path(str(name))

    @property
    def is_in_memory(self) -> bool:
        """True for SQLite without a file."""
        return not self.is_postgresql and self.file is None

    @property
    def libpq(self) -> str:
        """As asyncpg takes it."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)


def parse(url: str) -> Address:
    """Reads ``sqlite:///path``, ``sqlite://`` (in memory) or ``postgresql://...``.

    Raises:
      ConfigError: another kind of database, or no URL at all.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "gateway.store.url is not a URL; use sqlite:///path/to/control.db or "
            "postgresql://user:password@host:5432/database"
        ) from error
    backend = parsed.get_backend_name()
    if backend not in _DRIVER:
        raise ConfigError(
            f"gateway.store.url names {backend!r}, which is not supported; use "
            "sqlite:///path/to/control.db or postgresql://user:password@host:5432/database"
        )
    if backend == "sqlite" and (parsed.database or "").startswith("file:"):
        raise ConfigError(
            "gateway.store.url names a file by a URI of SQLite; give its path, as in "
            "sqlite:///path/to/control.db"
        )
    return Address(
        parsed.set(drivername=f"{backend}+{_DRIVER[backend]}"),
        parsed.set(drivername=backend).render_as_string(hide_password=True),
    )


def make_private(file: Path) -> None:
    """Makes an SQLite file that only its owner may read, with folders as needed.

    It holds hashes of keys, tenants and the audit log. SQLite gives its side files the same rights.

    Raises:
      ConfigError: the folder cannot be made, or the file cannot be.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists():
            # Not opened: closing it would drop the locks that SQLite has on it in this process.
            _check_writable(file)
        else:
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        if file.stat().st_uid == os.getuid():
            file.chmod(0o600)  # one that an earlier version made for all to read
    except OSError as error:
        raise ConfigError(
            f"gateway.store.url: {file} cannot be opened for writing: {error.strerror or error}; "
            "name a file in a folder that this user may write"
        ) from error


def _check_writable(file: Path) -> None:
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(file, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


class Memory:
    """A database in memory: it is there for as long as this is, whatever its users do.

    Without the connection that is held here it would go with the one connection of its engine, and
    SQLAlchemy drops that when whoever waits for it is cancelled.
    """

    _numbers = itertools.count()

    def __init__(self) -> None:
        name = f"file:headway-{next(self._numbers)}"
        query = {"mode": "memory", "cache": "shared", "uri": "true"}
        self.url = URL.create("sqlite+aiosqlite", database=name, query=query)
        self._held = sqlite3.connect(f"{name}?mode=memory&cache=shared", uri=True)

    def close(self) -> None:
        """Lets it go."""
        self._held.close()


def make_engine(
    address: Address,
    *,
    timeout_s: float,
    memory: Memory | None = None,
    watch: FileWatch | None = None,
) -> AsyncEngine:
    """An engine, not connected yet. It makes no file: see `make_private`.

    Args:
      timeout_s: longest wait for a connection, and for a lock.
      memory: the database that an address without a file stands for.
      watch: of the address's file. A connection to another one is never handed out.

    Raises:
      ConfigError: the driver's package is not installed.
    """
    backend = address.url.get_backend_name()
    options = _postgresql(timeout_s) if address.is_postgresql else _sqlite(address, timeout_s)
    try:
        engine = create_async_engine(memory.url if memory else _opening(address), **options)
    except ImportError as error:
        raise ConfigError(
            f"gateway.store.url needs the package {_DRIVER[backend]}; run "
            f'pip install "headway[{_EXTRA[backend]}]"'
        ) from error
    if not address.is_postgresql:
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        if watch is not None and address.file is not None:
            _watch_file(engine, watch)
    return engine


def _opening(address: Address) -> URL:
    """The URL with which SQLite opens a file that is there, and makes none that is not."""
    if address.file is None:
        return address.url
    url = address.url.set(database=f"file:{quote(os.fsencode(address.file.absolute()))}")
    return url.update_query_dict({"mode": "rw", "uri": "true"})


def _watch_file(engine: AsyncEngine, watch: FileWatch) -> None:
    """Hands out connections only to the files that the store's names mean."""
    opened: dict[int, Sides] = {}

    def connect(dialect: Any, _record: Any, args: Any, options: Any) -> Any:
        # Nothing is read before it is known what was opened: reading opens the other two files.
        for _ in range(_OPENINGS):
            mark = watch.mark()
            watch.check()
            # One that is made beside such connections would share their state, and read others.
            watch.check_sides(*opened.values())
            connection = dialect.connect(*args, **options)
            try:
                same = watch.mark() == mark
            except OSError:
                same = False
            if same:
                return connection
            connection.close()
        raise OSError(errno.ESTALE, "the store's file changed while it was opened")

    def checkout(_connection: Any, record: Any, _proxy: Any) -> None:
        watch.check()
        if None in opened.setdefault(id(record), UNKNOWN):
            # Made by the first change of an empty database.
            opened[id(record)] = record.info[SIDES] = watch.sides()
        watch.check_sides(opened[id(record)])

    def close(_connection: Any, record: Any) -> None:
        opened.pop(id(record), None)

    event.listen(engine.sync_engine, "do_connect", connect)
    event.listen(engine.sync_engine, "checkout", checkout)
    event.listen(engine.sync_engine, "close", close)


def driver_errors(address: Address) -> tuple[type[BaseException], ...]:
    """What a driver raises past SQLAlchemy when the server is not there."""
    if not address.is_postgresql:
        return ()
    import asyncpg

    return (asyncpg.PostgresError, asyncpg.InterfaceError)


def _postgresql(timeout_s: float) -> dict[str, Any]:
    milliseconds = str(int(timeout_s * 1000))
    return {
        # Finds connections that a restart of the server broke, before they are used.
        "pool_pre_ping": True,
        "pool_size": 2,
        "max_overflow": 3,
        "pool_timeout": timeout_s,
        "connect_args": {
            "timeout": timeout_s,
            # Statements kept on a connection break with a migration, and behind pgbouncer.
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "server_settings": {
                "application_name": "headway",
                "statement_timeout": milliseconds,
                "lock_timeout": milliseconds,
                "idle_in_transaction_session_timeout": milliseconds,
            },
        },
    }


def _sqlite(address: Address, timeout_s: float) -> dict[str, Any]:
    from sqlalchemy.pool import AsyncAdaptedQueuePool

    return {
        "poolclass": AsyncAdaptedQueuePool,
        # Connections that share a memory do not wait for each other's locks.
        "pool_size": 1 if address.is_in_memory else 2,
        "max_overflow": 0 if address.is_in_memory else 3,
        "pool_timeout": timeout_s,
        "connect_args": {"timeout": timeout_s},
    }


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    try:
        # Transactions begin where `_begin_sqlite` says so, not where the driver guesses.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()
    except BaseException:
        connection.close()  # the pool knows nothing of it yet, and its thread would stay
        raise


def _begin_sqlite(connection: Any) -> None:
    writes = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
