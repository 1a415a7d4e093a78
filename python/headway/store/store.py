"""The store itself: reads, and changes that are audited as they are made."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from sqlalchemy import RowMapping, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.errors import StartupError, StoreUnavailable
from headway.store import codec, schema
from headway.store.change import Change
from headway.store.engine import (
    SIDES,
    WRITE,
    Address,
    Memory,
    driver_errors,
    make_engine,
    make_private,
)
from headway.store.file_watch import UNKNOWN, FileWatch
from headway.store.migrate import upgrade
from headway.store.records import (
    AuditEntry,
    Author,
    ControlDelta,
    Registration,
    RolloutRecord,
    VerdictRecord,
)
from headway.store.rollouts import RolloutTables

_log = logging.getLogger(__name__)

RETRY_NS = 300_000_000
"""Wait between attempts to reach a store that is away; the retry hint of refused changes."""

_MAX_REGISTRATIONS = 10_000
_MAX_STEPS = 1000
"""Changes a follower may be behind before it reads everything anew."""


class Store(RolloutTables):
    """Control state in a database.

    Every method may raise `StoreUnavailable`. Nothing connects before it is needed.
    """

    def __init__(self, address: Address, *, timeout_s: float = 5.0) -> None:
        """`timeout_s`: longest time for one operation."""
        self.address = address
        self._timeout_s = timeout_s
        self._memory = Memory() if address.is_in_memory else None
        self._watch = FileWatch(address.file)
        self._engine = make_engine(
            address, timeout_s=timeout_s, memory=self._memory, watch=self._watch
        )
        self._num_open = 0
        self._reopening = asyncio.Lock()
        kinds = (DBAPIError, PoolTimeoutError, OSError, TimeoutError)
        self._away: tuple[type[BaseException], ...] = (*kinds, *driver_errors(address))

    async def prepare(self) -> None:
        """Migrates to this version's schema.

        Raises:
          StoreUnavailable: the server does not answer.
          StartupError: the schema is of a newer version, or may not be made.
        """
        file = self.address.file
        if file is not None:
            make_private(file)
            try:
                is_another = self._watch.begin()
            except OSError as error:
                raise StoreUnavailable(
                    f"the control store's file {file} was removed as it was opened",
                    retry_after_ns=RETRY_NS,
                ) from error
            if is_another:
                await self._engine.dispose()  # its connections hold the file that was there before
        try:
            async with self._transaction(write=True) as connection:
                await connection.run_sync(upgrade)
        except ProgrammingError as error:
            raise StartupError(
                f"the store {self.address.shown} refuses the schema ({_brief(error)}); let its "
                "user create tables there"
            ) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._engine.dispose()
        if self._memory is not None:
            self._memory.close()

    async def revision(self) -> int:
        """Number of the last change."""
        async with self._transaction() as connection:
            return await _revision(connection)

    async def read_since(self, revision: int) -> ControlDelta:
        """What changed after `revision`, or everything if that is less work (-1: everything)."""
        async with self._transaction() as connection:
            current = await _revision(connection)
            if revision == current:
                return ControlDelta(current, full=False)
            touched = await _touched(connection, revision)
            if touched is None or revision < 0:
                return await codec.read_all(connection, current)
            return await codec.read_some(connection, current, touched)

    @contextlib.asynccontextmanager
    async def change(self, author: Author, at_ns: int) -> AsyncIterator[Change]:
        """One transaction of changes, each with its audit entry. Changes are made one at a time.

        Raises:
          StoreUnavailable: nothing was changed, or it is not known whether it was.
        """
        async with self._transaction(write=True) as connection:
            change = await Change.begin(connection, author, at_ns)
            yield change
            await change.finish()

    async def audit_entries(
        self, *, before: int | None = None, limit: int = 100, target: str = ""
    ) -> list[AuditEntry]:
        """Newest first; `before`: only of lower revisions. `target`: only of this one."""
        query = select(schema.audit).order_by(schema.audit.c.revision.desc()).limit(limit)
        if before is not None:
            query = query.where(schema.audit.c.revision < before)
        if target:
            query = query.where(schema.audit.c.target == target)
        return [codec.audit_entry(row) for row in await self._rows(query)]

    async def rollouts(
        self, *, model: str = "", active_only: bool = False, limit: int = 100
    ) -> list[RolloutRecord]:
        """Newest first."""
        table = schema.rollouts
        query = select(table).order_by(table.c.started_at_ns.desc()).limit(limit)
        if model:
            query = query.where(table.c.model == model)
        if active_only:
            query = query.where(table.c.ended_at_ns.is_(None))
        return [codec.rollout(row) for row in await self._rows(query)]

    async def verdicts(
        self, rollout_id: str, *, after: int = 0, limit: int = 100
    ) -> list[VerdictRecord]:
        """Oldest first, of higher sequence numbers than `after`."""
        table = schema.verdicts
        query = select(table).where(table.c.rollout_id == rollout_id, table.c.sequence > after)
        rows = await self._rows(query.order_by(table.c.sequence).limit(limit))
        return [codec.verdict(row) for row in rows]

    async def add_verdicts(self, records: Sequence[VerdictRecord]) -> None:
        """Adds to the history; one that is there already is left as it is."""
        rows = [codec.verdict_row(record) for record in records]
        await self._insert_new(schema.verdicts, rows)

    async def registrations(self) -> list[Registration]:
        """Workers as they last registered, by name."""
        table = schema.replica_registrations
        rows = await self._rows(select(table).order_by(table.c.worker_id))
        return [codec.registration(row) for row in rows]

    async def put_registrations(self, records: Sequence[Registration]) -> None:
        """Takes note of registrations; a drain stays. Keeps the newest 10,000 and the drained."""
        table = schema.replica_registrations
        async with self._transaction(write=True) as connection:
            for record in records:
                row = codec.registration_row(record)
                insert = self._insert(table).values(**row, drained=False)
                await connection.execute(
                    insert.on_conflict_do_update(index_elements=["worker_id"], set_=row)
                )
            newest = select(table.c.worker_id).order_by(table.c.registered_at_ns.desc())
            await connection.execute(
                table.delete().where(
                    table.c.worker_id.not_in(newest.limit(_MAX_REGISTRATIONS)),
                    table.c.drained.is_(False),
                )
            )

    async def beat(self, gateway_id: str) -> dict[str, int]:
        """A gateway's sign of life; returns the counts of all gateways."""
        table = schema.gateways
        async with self._transaction(write=True) as connection:
            insert = self._insert(table).values(gateway_id=gateway_id, beats=1)
            await connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["gateway_id"], set_={"beats": table.c.beats + 1}
                )
            )
            rows = (await connection.execute(select(table))).all()
        return {row.gateway_id: row.beats for row in rows}

    async def forget_gateways(self, gateway_ids: Sequence[str]) -> None:
        """Deletes the counts of gateways that are gone."""
        table = schema.gateways
        async with self._transaction(write=True) as connection:
            await connection.execute(table.delete().where(table.c.gateway_id.in_(gateway_ids)))

    async def add_history(self, entries: Sequence[tuple[str, AuditEntry]]) -> None:
        """Audit entries of changes made while the store was away, by their names."""
        async with self._transaction(write=True) as connection:
            for entry_id, entry in entries:
                change = await Change.begin(connection, entry.author, entry.at_ns)
                await change.note_once(entry_id, entry)
                await change.finish()

    @contextlib.asynccontextmanager
    async def _transaction(self, *, write: bool = False) -> AsyncIterator[AsyncConnection]:
        self._check_file()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._let_go_of_stale_files()
                async with self._opened() as plain:
                    connection = await plain.execution_options(**self._options(write))
                    async with connection.begin():
                        yield connection
                        # Else it would be confirmed, and lost at the next start.
                        self._check_file()
                        self._watch.check_sides(connection.info.get(SIDES, UNKNOWN))
        except (IntegrityError, ProgrammingError, DataError):
            raise  # the store answers, and what it was asked is wrong
        except self._away as error:
            self._check_file()  # which tells more
            _log.debug("store operation failed", exc_info=error)
            raise StoreUnavailable(
                f"the control store does not answer ({_brief(error)}); inference goes on, the "
                "change was not confirmed: retry, or look at the store's server",
                retry_after_ns=RETRY_NS,
            ) from error

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[AsyncConnection]:
        self._num_open += 1
        try:
            async with self._engine.connect() as connection:
                yield connection
        finally:
            self._num_open -= 1

    async def _let_go_of_stale_files(self) -> None:
        """Closes all connections if one is stale, so that the next one begins with what is there.

        Raises:
          OSError: some are in use; soon they are not.
        """
        async with self._reopening:
            if self._watch.is_stale:
                if self._num_open:
                    self._watch.check_sides()
                await self._engine.dispose()
                self._watch.is_stale = False
                _log.warning("control store opened anew: files beside it were removed or replaced")

    def _check_file(self) -> None:
        problem = self._watch.problem()
        if problem is not None:
            raise StoreUnavailable(
                f"the control store's file {self.address.file} {problem}; inference goes on, "
                "nothing was changed: put it back, or restart the gateway on another one",
                retry_after_ns=RETRY_NS,
            )

    def _options(self, write: bool) -> dict[str, Any]:
        if not self.address.is_postgresql:
            return {WRITE: write}
        return {"isolation_level": "READ COMMITTED" if write else "REPEATABLE READ"}

    async def _rows(self, query: Any) -> Sequence[RowMapping]:
        async with self._transaction() as connection:
            return (await connection.execute(query)).mappings().all()

    def _insert(self, table: Any) -> Any:
        return (postgresql if self.address.is_postgresql else sqlite).insert(table)

    async def _insert_new(self, table: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            async with self._transaction(write=True) as connection:
                await connection.execute(self._insert(table).on_conflict_do_nothing(), rows)


async def _revision(connection: AsyncConnection) -> int:
    return int((await connection.execute(select(schema.control.c.revision))).scalar_one())


async def _touched(connection: AsyncConnection, revision: int) -> set[tuple[str, str]] | None:
    """Kinds and names that changed since; None if that is too much or not known any more."""
    table = schema.audit
    oldest = (await connection.execute(select(func.min(table.c.revision)))).scalar()
    if oldest is None or oldest > revision + 1:
        return None
    query = select(table.c.kind, table.c.target).where(table.c.revision > revision)
    rows = (await connection.execute(query.limit(_MAX_STEPS + 1))).all()
    return None if len(rows) > _MAX_STEPS else {(row.kind, row.target) for row in rows}


def _brief(error: BaseException) -> str:
    """First line of an error, without what a URL or statement might tell."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return f"{type(cause).__name__}: {str(cause).splitlines()[0][:120] if str(cause) else ''}"
