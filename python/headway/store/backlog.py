"""History that waits for the store: verdicts, and audit entries of changes to one process."""

import dataclasses
import logging
import uuid
from collections import deque

from headway.errors import StoreUnavailable
from headway.store.records import AuditEntry, VerdictRecord
from headway.store.store import Store

_log = logging.getLogger(__name__)

DEFAULT_LIMIT = 10_000
_AT_ONCE = 200


class Backlog:
    """Keeps at most `limit` entries of each kind; beyond it the oldest are dropped and counted.

    Adding never waits and never fails. What is flushed twice is stored once.

    Attributes:
      num_dropped: entries lost to the bound.
    """

    def __init__(self, store: Store | None, limit: int = DEFAULT_LIMIT) -> None:
        """`store`: None keeps the newest entries and never flushes."""
        self._store = store
        self._limit = limit
        self._verdicts: deque[VerdictRecord] = deque()
        self._audit: deque[tuple[str, AuditEntry]] = deque()
        self.num_dropped = 0

    def __len__(self) -> int:
        return len(self._verdicts) + len(self._audit)

    def add_verdict(self, record: VerdictRecord) -> None:
        """Takes a verdict."""
        self._make_room(self._verdicts)
        self._verdicts.append(record)

    def add_audit(self, entry: AuditEntry) -> None:
        """Takes an audit entry; its revision is given when it is stored."""
        self._make_room(self._audit)
        self._audit.append((uuid.uuid4().hex, dataclasses.replace(entry, revision=0)))

    async def flush(self) -> bool:
        """Writes what waits, oldest first; True if nothing is left."""
        if self._store is None:
            return not len(self)
        try:
            while self._verdicts:
                verdicts = [self._verdicts[i] for i in range(min(_AT_ONCE, len(self._verdicts)))]
                await self._store.add_verdicts(verdicts)
                _take_out(self._verdicts, verdicts)
            while self._audit:
                entries = [self._audit[i] for i in range(min(_AT_ONCE, len(self._audit)))]
                await self._store.add_history(entries)
                _take_out(self._audit, entries)
        except StoreUnavailable as error:
            _log.debug("history waits for the store", extra={"why": error.message})
            return False
        return True

    def _make_room(self, entries: deque[VerdictRecord] | deque[tuple[str, AuditEntry]]) -> None:
        if len(entries) >= self._limit:
            entries.popleft()
            self.num_dropped += 1


def _take_out(waiting: deque[object] | deque[VerdictRecord] | deque[tuple[str, AuditEntry]],
              written: list[VerdictRecord] | list[tuple[str, AuditEntry]]) -> None:  # fmt: skip
    """Removes written entries; some may have been dropped meanwhile."""
    done = {id(entry) for entry in written}
    while waiting and id(waiting[0]) in done:
        waiting.popleft()
