"""Keeps a gateway's copy of the control state like the store's."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headway.clock import Clock
from headway.errors import StoreUnavailable
from headway.store.bell import Bell, listening
from headway.store.records import ControlDelta
from headway.store.store import RETRY_NS, Store

_log = logging.getLogger(__name__)


class Follower:
    """Reads what changes and hands it to `apply`, in order of revisions.

    Attributes:
      revision: of the copy; -1 before the first reading.
      up: True while the store answers.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        prepare: Callable[[], Awaitable[None]],
        apply: Callable[[ControlDelta], None],
        on_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Does nothing yet.

        Args:
          prepare: brings the store into use; called until it succeeds once.
          apply: takes a delta over, on the event loop, without waiting.
          on_up: called whenever the store has come (back), after the copy is up to date.
        """
        self._store = store
        self._clock = clock
        self._prepare = prepare
        self._apply = apply
        self._on_up = on_up
        self._prepared = False
        self._turn = asyncio.Lock()
        self._last_fault = ""
        self.revision = -1
        self.up = False

    async def start(self) -> None:
        """Prepares and reads everything once.

        Raises:
          StoreUnavailable: the store does not answer; `run` goes on trying.
        """
        await self._prepare()
        self._prepared = True
        await self.catch_up()

    async def catch_up(self) -> None:
        """Takes over what changed up to now.

        Raises:
          StoreUnavailable: the store does not answer.
        """
        async with self._turn:
            delta = await self._store.read_since(self.revision)
            if delta.revision != self.revision:
                self._apply(delta)
                self.revision = delta.revision

    async def run(self) -> None:
        """Follows for ever, through any number of losses of the store."""
        while True:
            # The loss of the store is the ordinary case here, and never ends the loop.
            try:
                async with listening(self._store, self._clock) as bell:
                    if not self._prepared:
                        await self.start()
                    await self._follow(bell)
            except StoreUnavailable as error:
                if self.up:
                    _log.warning("control store lost", extra={"why": error.message})
                self.up = False
            except Exception as error:
                # A fault in one reading (a table dropped by hand) must not end the following.
                self._tell_fault(error)
                self.up = False
            await self._clock.sleep(RETRY_NS)

    def _tell_fault(self, error: Exception) -> None:
        """Logs a fault once, not three times a second for as long as it lasts."""
        if (fault := repr(error)) != self._last_fault:
            self._last_fault = fault
            _log.error("control store not readable", exc_info=error)

    async def _follow(self, bell: Bell) -> None:
        while True:
            await self.catch_up()
            if not self.up:
                self.up, self._last_fault = True, ""
                _log.info("control store followed", extra={"revision": self.revision})
                await self._on_up()
            await bell.ring()
