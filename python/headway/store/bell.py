"""Tells followers that something may have changed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

from headway.clock import Clock
from headway.errors import StoreUnavailable
from headway.store.change import CHANNEL
from headway.store.engine import Address
from headway.store.store import RETRY_NS, Store

POLL_NS = 200_000_000
"""SQLite has no notifications: its revision is read this often, at half a millisecond of CPU."""

HEARTBEAT_NS = 1_000_000_000
"""PostgreSQL is asked this often whether it is still there; a lost message is made up for then."""

_LONGEST_S = 60
"""Of one heartbeat, where the clock of the waits stands still."""


class Bell(Protocol):
    """Rings when the store may have changed."""

    async def ring(self) -> None:
        """Returns then. Raises StoreUnavailable if it can ring no more."""
        ...


@contextlib.asynccontextmanager
async def listening(store: Store, clock: Clock) -> AsyncIterator[Bell]:
    """A bell of the store's kind.

    Raises:
      StoreUnavailable: the store does not answer.
    """
    if not store.address.is_postgresql:
        yield _Poll(clock)
        return
    connection = await connect(store.address)
    try:
        bell = _Notification(connection, clock)
        await connection.execute(f"LISTEN {CHANNEL}")
        await connection.add_listener(CHANNEL, bell.heard)
        connection.add_termination_listener(bell.lost)
        yield bell
    except connection_errors() as error:
        raise away(error) from error
    finally:
        connection.terminate()


class _Poll:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def ring(self) -> None:
        await self._clock.sleep(POLL_NS)


class _Notification:
    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._rung = asyncio.Event()

    def heard(self, *_message: object) -> None:
        self._rung.set()

    def lost(self, *_connection: object) -> None:
        self._rung.set()

    async def ring(self) -> None:
        if not await rung_within(self._rung, self._clock, HEARTBEAT_NS):
            await self._ask()
        if self._connection.is_closed():
            raise away(ConnectionError("the connection was lost"))
        self._rung.clear()

    async def _ask(self) -> None:
        """Raises TimeoutError if the server does not answer, by the clock of all other waits."""
        answered = asyncio.Event()

        def note(asked: asyncio.Future[Any]) -> None:
            answered.set()
            if not asked.cancelled():
                asked.exception()  # told below, or too late for anybody

        asking = asyncio.ensure_future(self._connection.execute("SELECT 1", timeout=_LONGEST_S))
        asking.add_done_callback(note)
        try:
            if not await rung_within(answered, self._clock, HEARTBEAT_NS):
                raise TimeoutError
            asking.result()
        finally:
            asking.cancel()


async def rung_within(event: asyncio.Event, clock: Clock, duration_ns: int) -> bool:
    """Waits for an event for at most so long; True if it was set."""
    waits = (
        asyncio.ensure_future(event.wait()),
        asyncio.ensure_future(clock.sleep(duration_ns)),
    )
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()


async def connect(address: Address) -> Any:
    """A connection of its own, beside the pool, whose loss is noticed within seconds.

    Raises:
      StoreUnavailable: the server does not answer.
    """
    import asyncpg

    try:
        return await asyncpg.connect(
            address.libpq,
            timeout=2,
            command_timeout=2,
            statement_cache_size=0,
            server_settings={
                "application_name": "headway",
                # The server lets go of a client that vanished without a word after 2 + 3 * 1 s.
                "tcp_keepalives_idle": "2",
                "tcp_keepalives_interval": "1",
                "tcp_keepalives_count": "3",
                "tcp_user_timeout": "5000",
            },
        )
    except connection_errors() as error:
        raise away(error) from error


def connection_errors() -> tuple[type[BaseException], ...]:
    """What a connection of asyncpg may raise."""
    import asyncpg

    kinds: tuple[type[BaseException], ...] = (asyncpg.PostgresError, asyncpg.InterfaceError)
    return (*kinds, OSError, TimeoutError)


def away(error: BaseException) -> StoreUnavailable:
    """The error for a server that does not answer."""
    return StoreUnavailable(
        f"the control store does not answer ({type(error).__name__})", retry_after_ns=RETRY_NS
    )
