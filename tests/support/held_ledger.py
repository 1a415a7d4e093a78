"""A ledger of rollouts in memory, whose answers a test holds back for as long as it likes."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.errors import StoreUnavailable
from headway.gateway.catalog import Catalog
from headway.gateway.rollouts.ledger import Begun, Edit
from headway.rollout import machine
from headway.rollout.counts import TickCounts
from headway.store.records import Author, RolloutRecord, VerdictRecord
from headway.v1 import control_pb2


class Held:
    """One answer that waits: the ledger was read or written, and the caller does not know yet."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class HeldLedger:
    """Like `headway.gateway.rollouts.ledger.Ledger`.

    Attributes:
      stored: rollouts by name, as all gateways have them.
      posted, posted_here: outcomes that other gateways have handed on, and this one.
      away: True while nothing answers.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.stored: dict[str, RolloutRecord] = {}
        self.trail: list[VerdictRecord] = []
        self.states: dict[str, Mapping[str, Any]] = {}
        self.posted: list[TickCounts] = []
        self.posted_here: list[TickCounts] = []
        self.away = False
        self.leading = True
        self._catalog = catalog
        self._revision = 0
        self._in_force = 0
        self._held: dict[str, list[Held]] = {}

    def hold(self, method: str) -> Held:
        """Holds the answer to the next call of a method that is not held yet."""
        held = Held()
        self._held.setdefault(method, []).append(held)
        return held

    def leads(self) -> bool:
        return self.leading

    def revision(self) -> int:
        return self._in_force

    def write(self, record: RolloutRecord) -> None:
        """A change by another gateway: stored, and not known here."""
        self._revision += 1
        self.stored[record.rollout_id] = record

    async def catch_up(self) -> None:
        if self._in_force != self._revision:
            self._in_force = self._revision
            source = control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT
            splits = {
                each.model: (dict(machine.shares(each)), source) for each in self.stored.values()
            }
            self._catalog.take_splits(splits, full=False)

    async def active(self) -> Sequence[RolloutRecord]:
        found = [each for each in self.stored.values() if machine.is_active(each)]
        return await self._answer("active", found)

    async def rollout(self, rollout_id: str) -> RolloutRecord:
        return await self._answer("rollout", self.stored[rollout_id])

    async def start(self, model: str, begun: Begun, before: Any, author: Author) -> RolloutRecord:
        self._check()
        assert all(each.model != model for each in self.stored.values())
        record = begun(None)
        self.write(record)
        await self.catch_up()
        return await self._answer("start", record)

    async def change(
        self, rollout_id: str, action: str, author: Author, edit: Edit
    ) -> RolloutRecord:
        await self._answer("before change", None)
        self._check()
        found = self.stored[rollout_id]
        wanted = edit(found)
        if wanted != found:
            self.write(wanted)
        await self.catch_up()
        return await self._answer("change", wanted)

    async def state(self, rollout_id: str) -> Mapping[str, Any] | None:
        return await self._answer("state", self.states.get(rollout_id))

    async def keep(self, rollout_id: str, state: Mapping[str, Any]) -> None:
        self.states[rollout_id] = state
        await self._answer("keep", None)

    async def note(self, verdicts: Sequence[VerdictRecord]) -> None:
        self.trail += verdicts
        await self._answer("note", None)

    async def last_sequence(self, rollout_id: str) -> int:
        return await self._answer("last_sequence", 0)

    async def post(self, rollout_id: str, gateway_id: str, counts: TickCounts) -> None:
        await self._answer("post", None)
        self.posted_here.append(TickCounts.from_plain(counts.to_plain()))

    async def collect(self, rollout_id: str) -> Sequence[TickCounts]:
        self._check()
        found, self.posted = self.posted, []
        return await self._answer("collect", found)

    def change_alone(self, rollout_id: str, edit: Callable[[RolloutRecord], RolloutRecord]) -> None:
        """An operator's change at another gateway."""
        self.write(edit(self.stored[rollout_id]))

    async def _answer(self, method: str, found: Any) -> Any:
        self._check()
        found = dataclasses.replace(found) if isinstance(found, RolloutRecord) else found
        if waiting := self._held.get(method):
            held = waiting.pop(0)
            held.reached.set()
            await held.released.wait()
            self._check()
        return found

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("the store is away", retry_after_ns=1)
