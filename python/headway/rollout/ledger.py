"""Where rollouts are kept. `MemoryLedger` is for a gateway without a store; see `store.rollouts`."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from headway.errors import FailedPrecondition, NotFound
from headway.rollout.counts import TickCounts
from headway.rollout.machine import is_active
from headway.store.records import Author, RolloutRecord, VerdictRecord

Edit = Callable[[RolloutRecord], RolloutRecord]

MAX_ENDED: Final = 1000
MAX_VERDICTS: Final = 10_000
"""Verdicts kept of one rollout, the newest; a day's analyses are 2,880."""


class Ledger(Protocol):
    """Rollouts, their verdicts and their state, shared by the gateways of a fleet.

    Every method but `leads` may raise StoreUnavailable.
    """

    def leads(self) -> bool:
        """True if this gateway is the one that decides."""
        ...

    async def active(self) -> Sequence[RolloutRecord]:
        """Rollouts that have not ended, by model."""
        ...

    async def rollout(self, rollout_id: str) -> RolloutRecord:
        """One rollout. Raises NotFound."""
        ...

    async def rollouts(
        self, model: str, *, before_ns: int | None, limit: int
    ) -> Sequence[RolloutRecord]:
        """Newest first, started before `before_ns`. `model`: "" for all."""
        ...

    async def start(self, record: RolloutRecord, author: Author) -> None:
        """Adds a rollout and puts its split in force, in one step.

        Raises:
          FailedPrecondition: the model has an active one.
        """
        ...

    async def change(
        self, rollout_id: str, action: str, author: Author, edit: Edit
    ) -> RolloutRecord:
        """Replaces a record by what `edit` makes of it, and its split with it, in one step.

        Returns: the record as it is then. Raises NotFound, and what `edit` raises.
        """
        ...

    async def state(self, rollout_id: str) -> Mapping[str, Any] | None:
        """The controller's state as last kept; None if there is none."""
        ...

    async def keep(
        self, rollout_id: str, state: Mapping[str, Any], verdicts: Sequence[VerdictRecord]
    ) -> None:
        """Keeps the controller's state, and adds verdicts."""
        ...

    async def verdicts(
        self, rollout_id: str, *, after: int, limit: int
    ) -> Sequence[VerdictRecord]:
        """Oldest first, of sequence numbers above `after`."""
        ...

    async def last_sequence(self, rollout_id: str) -> int:
        """Number of the last verdict; 0 if there is none."""
        ...

    async def post(self, rollout_id: str, gateway_id: str, counts: TickCounts) -> None:
        """Hands outcomes to whoever decides."""
        ...

    async def collect(self, rollout_id: str) -> Sequence[TickCounts]:
        """Takes what was posted."""
        ...


class MemoryLedger:
    """One gateway's own; a restart forgets it. Keeps 1,000 ended rollouts."""

    def __init__(self, apply_split: Callable[[RolloutRecord], None]) -> None:
        """`apply_split`: puts a rollout's split in force."""
        self._apply_split = apply_split
        self._records: dict[str, RolloutRecord] = {}
        self._states: dict[str, Mapping[str, Any]] = {}
        self._verdicts: dict[str, deque[VerdictRecord]] = {}

    def leads(self) -> bool:
        """Always: nobody else shares it."""
        return True

    async def active(self) -> Sequence[RolloutRecord]:
        """Rollouts that have not ended, by model."""
        return sorted(filter(is_active, self._records.values()), key=lambda each: each.model)

    async def rollout(self, rollout_id: str) -> RolloutRecord:
        """One rollout. Raises NotFound."""
        record = self._records.get(rollout_id)
        if record is None:
            raise not_found(rollout_id)
        return record

    async def rollouts(
        self, model: str, *, before_ns: int | None, limit: int
    ) -> Sequence[RolloutRecord]:
        """Newest first."""
        found = [
            record
            for record in reversed(self._records.values())
            if model in ("", record.model)
            and (before_ns is None or record.started_at_ns < before_ns)
        ]
        return found[:limit]

    async def start(self, record: RolloutRecord, author: Author) -> None:
        """Adds a rollout. Raises FailedPrecondition if the model has an active one."""
        for other in await self.active():
            if other.model == record.model:
                raise already_active(other)
        self._records[record.rollout_id] = record
        self._verdicts[record.rollout_id] = deque(maxlen=MAX_VERDICTS)
        self._forget_old()
        self._apply_split(record)

    async def change(
        self, rollout_id: str, action: str, author: Author, edit: Edit
    ) -> RolloutRecord:
        """Replaces a record. Raises NotFound, and what `edit` raises."""
        before = await self.rollout(rollout_id)
        after = edit(before)
        if after != before:
            self._records[rollout_id] = after
            self._apply_split(after)
        return after

    async def state(self, rollout_id: str) -> Mapping[str, Any] | None:
        """The controller's state as last kept."""
        return self._states.get(rollout_id)

    async def keep(
        self, rollout_id: str, state: Mapping[str, Any], verdicts: Sequence[VerdictRecord]
    ) -> None:
        """Keeps state and verdicts."""
        self._states[rollout_id] = state
        self._verdicts[rollout_id].extend(verdicts)

    async def verdicts(
        self, rollout_id: str, *, after: int, limit: int
    ) -> Sequence[VerdictRecord]:
        """Oldest first."""
        await self.rollout(rollout_id)
        found = [each for each in self._verdicts[rollout_id] if each.sequence > after]
        return found[:limit]

    async def last_sequence(self, rollout_id: str) -> int:
        """Number of the last verdict."""
        verdicts = self._verdicts.get(rollout_id)
        return verdicts[-1].sequence if verdicts else 0

    async def post(self, rollout_id: str, gateway_id: str, counts: TickCounts) -> None:
        """Nobody else is there to post to."""

    async def collect(self, rollout_id: str) -> Sequence[TickCounts]:
        """Nothing: nobody else posts."""
        return ()

    def _forget_old(self) -> None:
        ended = [name for name, record in self._records.items() if not is_active(record)]
        for name in ended[: max(0, len(ended) - MAX_ENDED)]:
            for table in (self._records, self._states, self._verdicts):
                table.pop(name, None)


def not_found(rollout_id: str) -> NotFound:
    """The error for an unknown rollout."""
    return NotFound(
        f"no rollout {rollout_id[:64]!r}; `headway rollout list` shows those there are",
        field="rollout_id",
        metadata={"name": rollout_id[:64], "kind": "rollout"},
    )


def already_active(other: RolloutRecord) -> FailedPrecondition:
    """The error for a second rollout of a model."""
    return FailedPrecondition(
        f"rollout {other.rollout_id} of {other.model} ({other.baseline_version} to "
        f"{other.canary_version}) is {other.phase}; wait for its end, or abort it first",
        field="model",
        metadata={"type": "ROLLOUT_ACTIVE", "rollout_id": other.rollout_id},
    )
