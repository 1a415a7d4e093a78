"""The control store's part in a gateway's life: open, follow, elect, write history, close."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from headway.clock import Clock, wall_ns
from headway.errors import StoreUnavailable
from headway.gateway.census import Census
from headway.gateway.control_plane import ControlPlane
from headway.gateway.replica import Worker
from headway.gateway.settings import StoreSettings
from headway.store.backlog import Backlog
from headway.store.election import Election
from headway.store.follow import Follower
from headway.store.records import Registration
from headway.store.store import Store
from headway.v1 import control_pb2

_log = logging.getLogger(__name__)

_WRITE_INTERVAL_NS = 1_000_000_000
"""History and registrations are written in the background this often."""


def default_url() -> str:
    """SQLite in the user's XDG state directory."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return f"sqlite:///{Path(home) / 'headway' / 'control.db'}"


def url_of(settings: StoreSettings) -> str:
    """The store's URL, with its password."""
    return default_url() if settings.url is None else settings.url.get_secret_value()


class ControlStore:
    """Runs what a gateway does with its store in the background.

    Nothing here is waited for by a request; a store that is away costs log lines.
    """

    def __init__(
        self,
        store: Store,
        plane: ControlPlane,
        follower: Follower,
        election: Election,
        backlog: Backlog,
        clock: Clock,
        *,
        gateway_id: str,
        on_census: Callable[[int], None] = lambda num_gateways: None,
    ) -> None:
        """Does nothing yet.

        Args:
          on_census: told the number of live gateways whenever it was looked at.
        """
        self._census = Census(gateway_id)
        self._on_census = on_census
        self._store = store
        self._plane = plane
        self._follower = follower
        self._backlog = backlog
        self._clock = clock
        self._gateway_id = gateway_id
        self._registrations: dict[str, Registration] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.election = election

    async def start(self) -> None:
        """Reads everything once, if the store answers, and follows it from then on.

        Raises:
          StartupError: the store's schema is of a newer version.
        """
        try:
            await self._follower.start()
        except StoreUnavailable as error:
            _log.error(
                "control store not there at the start; going on with the configuration alone",
                extra={"store": self._store.address.shown, "why": error.message},
            )
        if self.complete():
            await self._count_gateways()
        self._tasks = [
            asyncio.ensure_future(run())
            for run in (self._follower.run, self.election.run, self._write_for_ever)
        ]

    async def stop(self) -> None:
        """Writes what waits, if the store is there, and closes it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._follower.up:
            await self.write_waiting()
            with contextlib.suppress(StoreUnavailable):
                await self._store.forget_gateways([self._gateway_id])
        await self._store.close()

    def complete(self) -> bool:
        """True once everything was read."""
        return self._follower.revision >= 0

    def describe(self) -> control_pb2.StoreState:
        """The state that operators see."""
        return control_pb2.StoreState(
            url=self._store.address.shown,
            up=self._follower.up,
            revision=self._follower.revision,
            leader=self.election.leads(),
            waiting_entries=len(self._backlog),
        )

    def on_joined(self, worker: Worker) -> None:
        """Takes note of a registration; it is written in the background, the last one a worker."""
        self._registrations[worker.worker_id] = Registration(
            worker.worker_id[:128],
            worker.address[:256],
            tuple((card.model, card.version) for card in worker.cards),
            worker.labels,
            worker.software_version[:64],
            self._gateway_id,
            wall_ns(),
        )

    async def write_waiting(self) -> None:
        """Writes history and registrations; what cannot be written waits on."""
        await self._backlog.flush()
        waiting, self._registrations = self._registrations, {}
        if not waiting:
            return
        try:
            await self._store.put_registrations(list(waiting.values()))
        except StoreUnavailable:
            self._registrations = {**waiting, **self._registrations}

    async def _count_gateways(self) -> None:
        """Shows that this gateway lives, and counts those that do."""
        with contextlib.suppress(StoreUnavailable):
            beats = await self._store.beat(self._gateway_id)
            now_ns = self._clock.now_ns()
            self._on_census(self._census.take(now_ns, beats))
            if gone := self._census.forgotten(now_ns):
                await self._store.forget_gateways(gone)

    async def _write_for_ever(self) -> None:
        while True:
            await self._clock.sleep(_WRITE_INTERVAL_NS)
            if self._follower.up:
                try:
                    await self.write_waiting()
                    await self._count_gateways()
                except Exception:
                    _log.exception("history not written")
