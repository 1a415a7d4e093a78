"""The record of arrivals: taken beside the request path, written by a thread."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from headway._core import hash_key
from headway.clock import Clock
from headway.errors import ConfigError
from headway.gateway.decisions import Record
from headway.gateway.policy_settings import ArrivalTraceSettings
from headway.rpc.interceptors import Caller
from headway.telemetry.trace import Arrival, TraceWriter, tenant_hash

_log = logging.getLogger(__name__)

FLUSH_EVERY_NS: Final = 1_000_000_000
MAX_WAITING: Final = 250_000
"""Records held for the thread: some seconds of the most a gateway takes. Beyond it, they are
counted and left out: a disk that hangs must not cost memory."""


class TraceRecorder:
    """Writes every request that named a known model, once it has ended, without its input.

    The request path appends to a list. Once a second what has ended goes to a thread, which makes
    lines of it and writes them: a slow disk delays the trace and nothing else.

    Attributes:
      num_dropped: requests missing in the trace, since the disk was full or too slow.
    """

    def __init__(self, clock: Clock, fresh_salt: int, settings: ArrivalTraceSettings) -> None:
        """Opens the file, if one is set.

        Args:
          fresh_salt: for the hashes of tenants' names, where none is set.

        Raises:
          ConfigError: the file cannot be written.
        """
        self._clock = clock
        self._fresh_salt = fresh_salt
        self._settings = ArrivalTraceSettings()
        self._salt = fresh_salt
        self._writer: TraceWriter | None = None
        self._waiting: list[Record] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arrival-trace")
        self._is_failing = False
        self._is_closed = False
        self.num_dropped = 0
        self.ignored: Caller | None = None
        """Whose requests are copies of others, and not recorded."""
        self.configure(settings)

    def configure(self, settings: ArrivalTraceSettings) -> None:
        """Takes over other settings; the old file is finished.

        Raises:
          ConfigError: the file cannot be written; the old settings stay.
        """
        if settings == self._settings:
            return
        writer = _open(settings)
        self._hand_over(self._take_ended(), close=True)
        self._settings, self._writer = settings, writer
        if writer is None:
            self._waiting = []
        salt = settings.tenant_salt
        self._salt = (
            self._fresh_salt if salt is None else hash_key(salt.get_secret_value().encode())
        )

    def add(self, record: Record) -> None:
        """Takes note of a request that has just come; it is written when it has ended."""
        if self._writer is None:
            return
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(record)
        else:
            self.num_dropped += 1

    async def run(self) -> None:
        """Writes once a second, until cancelled."""
        while True:
            await self._clock.sleep(FLUSH_EVERY_NS)
            await self.flush()

    async def flush(self) -> None:
        """Writes what has ended; returns when the file has it."""
        if self._writer is None:
            return
        await self._written(self._hand_over(self._take_ended(), close=False))

    async def close(self) -> None:
        """Writes the rest and closes the file; what has not ended by now is left out.

        Again, it does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        await self._written(self._hand_over(self._take_ended(), close=True))
        self._writer, self._waiting = None, []
        self._thread.shutdown()

    def _take_ended(self) -> list[Record]:
        ended = [record for record in self._waiting if record.outcome]
        self._waiting = [record for record in self._waiting if not record.outcome]
        return ended

    @staticmethod
    async def _written(job: Future[None]) -> None:
        """Waits for the thread; what it has been given is written even if nobody waits."""
        await asyncio.shield(asyncio.wrap_future(job))

    def _hand_over(self, records: Sequence[Record], *, close: bool) -> Future[None]:
        return self._thread.submit(self._write, self._writer, self._salt, records, close)

    def _write(
        self, writer: TraceWriter | None, salt: int, records: Sequence[Record], close: bool
    ) -> None:
        if writer is None:
            return
        try:
            for record in records:
                if record.outcome and record.units and record.caller is not self.ignored:
                    writer.write(_arrival(record, salt))
            writer.close() if close else writer.flush()
        except OSError as error:
            self.num_dropped += len(records)
            if not self._is_failing:
                _log.warning("arrivals are not recorded", extra={"why": error.strerror})
            self._is_failing = True
        else:
            self._is_failing = False


def _open(settings: ArrivalTraceSettings) -> TraceWriter | None:
    if settings.path is None:
        return None
    writer = TraceWriter(
        settings.path, max_bytes=settings.max_file_bytes, max_files=settings.max_files
    )
    try:
        writer.open()
    except OSError as error:
        raise ConfigError(
            f"gateway.arrival_trace.path = {settings.path}: cannot be written: {error.strerror}; "
            "name a file in a folder that the gateway may write to, or leave it out"
        ) from error
    return writer


def _arrival(record: Record, salt: int) -> Arrival:
    assert record.model is not None  # it has units
    return Arrival(
        at_ns=record.arrived_ns,
        model=record.model.name,
        units=record.units,
        rows=record.rows,
        deadline_ns=record.deadline_ns - record.arrived_ns,
        lane=record.lane,
        priority=record.priority,
        weight=record.weight,
        tenant=tenant_hash(record.caller.tenant, salt),
        outcome=record.outcome,
        ended_ns=record.ended_ns - record.arrived_ns,
    )
