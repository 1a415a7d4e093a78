"""Elects the one gateway that runs rollouts.

PostgreSQL: a session's advisory lock. The server gives it back when the session's connection
ends: at once when the process dies, within 5 s when its machine vanishes (keepalives, see
`bell.connect`). The holder itself stops within `LEASE_NS` of its last confirmation, so that two
never lead at once. SQLite: a lock on a file beside the database, which the kernel gives back.
"""

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from headway.clock import Clock
from headway.errors import StoreUnavailable
from headway.store.bell import connect, connection_errors
from headway.store.engine import Address

_log = logging.getLogger(__name__)

LOCK_KEY: Final = 0x6865_6164_0002
CAMPAIGN_NS: Final = 1_000_000_000
"""Time between attempts, and between confirmations."""

LEASE_NS: Final = 4_000_000_000
"""A leader that could not confirm for so long leads no more: less than the 5 s after which the
server gives the lock of a vanished machine to another."""


class LeaderLock(Protocol):
    """A lock that one process holds at a time."""

    async def hold(self) -> bool:
        """Takes the lock, or confirms it; False if another has it or the store is away."""
        ...

    async def release(self) -> None:
        """Gives it back, if held."""
        ...


class Election:
    """Campaigns for ever; at most one process per store leads.

    Attributes:
      on_change: called with True on becoming leader, with False on ceasing to be.
    """

    def __init__(self, lock: LeaderLock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._confirmed_at_ns: int | None = None
        self.on_change: Callable[[bool], None] = lambda leads: None

    def leads(self) -> bool:
        """True if this process leads now. Ask again before every act that only a leader may do."""
        confirmed = self._confirmed_at_ns
        return confirmed is not None and self._clock.now_ns() < confirmed + LEASE_NS

    async def run(self) -> None:
        """Campaigns until it is cancelled; then gives the lock back."""
        try:
            while True:
                await self._campaign()
                await self._clock.sleep(CAMPAIGN_NS)
        finally:
            self._confirmed_at_ns = None
            await self._lock.release()

    async def _campaign(self) -> None:
        # The lease counts from before the question: the answer may have been under way for long.
        asked_at_ns = self._clock.now_ns()
        led = self._confirmed_at_ns is not None
        holds = await self._lock.hold()
        self._confirmed_at_ns = asked_at_ns if holds else None
        if holds != led:
            _log.info("leadership taken" if holds else "leadership lost")
            self.on_change(holds)


def leader_lock(address: Address) -> LeaderLock:
    """The lock of a store's kind."""
    return _AdvisoryLock(address) if address.is_postgresql else _FileLock(address)


class _AdvisoryLock:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Any = None
        self._held = False

    async def hold(self) -> bool:
        try:
            if self._connection is None:
                self._connection = await connect(self._address)
            if self._held:
                await self._connection.execute("SELECT 1")
            else:
                query = "SELECT pg_try_advisory_lock($1)"
                self._held = await self._connection.fetchval(query, LOCK_KEY)
        except StoreUnavailable as error:
            _log.debug("no vote", extra={"why": error.message})
            await self.release()
        except connection_errors() as error:
            _log.debug("vote lost", exc_info=error)
            await self.release()
        return self._held

    async def release(self) -> None:
        # Ending the session is what gives the lock back, whatever state it is in.
        connection, self._connection, self._held = self._connection, None, False
        if connection is not None:
            connection.terminate()


class _FileLock:
    def __init__(self, address: Address) -> None:
        file = address.file
        self._path = None if file is None else file.with_name(f"{file.name}.leader")
        self._descriptor = -1
        self._term = 0
        self._swapping = threading.Lock()

    async def hold(self) -> bool:
        if self._path is None:
            return True  # a database in memory is one process's own
        return await asyncio.to_thread(self._take, self._path, self._term)

    async def release(self) -> None:
        with self._swapping:
            # A thread goes on though nobody waits for it: what it gets later is of this term.
            self._term += 1
            descriptor, self._descriptor = self._descriptor, -1
        _close(descriptor)

    def _take(self, path: Path, term: int) -> bool:
        held = self._descriptor
        if held >= 0:
            if _is_of(path, held):
                return True
            # Removed or replaced: whoever opens it by its name gets a lock as good as this one.
            _close(self._swap(-1, term))
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        if not _is_of(path, descriptor):
            os.close(descriptor)
            return False
        unused = self._swap(descriptor, term)
        _close(unused)
        return unused != descriptor

    def _swap(self, descriptor: int, term: int) -> int:
        """Keeps a descriptor, unless its term is over. Returns the one that is not kept."""
        with self._swapping:
            if term != self._term:
                return descriptor
            unused, self._descriptor = self._descriptor, descriptor
            return unused


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _is_of(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
