"""Rollouts in the control store, as a gateway uses them. Changes reach every gateway's split."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from headway.clock import wall_ns
from headway.errors import FailedPrecondition, NotFound
from headway.rollout import machine
from headway.rollout.counts import TickCounts
from headway.store.backlog import Backlog
from headway.store.records import Author, RolloutRecord, SplitRecord, VerdictRecord
from headway.store.store import Store

Edit = Callable[[RolloutRecord], RolloutRecord]
Begun = Callable[[SplitRecord | None], RolloutRecord]


class Ledger:
    """Rollouts, verdicts and states of all gateways of a store.

    `catch_up` puts the store's splits in force here. Every method but `leads` and `revision` may
    raise StoreUnavailable; then nothing was changed.
    """

    def __init__(
        self,
        store: Store,
        backlog: Backlog,
        *,
        catch_up: Callable[[], Awaitable[None]],
        leads: Callable[[], bool],
        revision: Callable[[], int],
    ) -> None:
        """Reads nothing yet.

        Args:
          catch_up: puts the store's splits in force here.
          leads: see the store's election.
          revision: number of the last change that this gateway has taken over.
        """
        self._store = store
        self._backlog = backlog
        self.catch_up = catch_up
        self.leads = leads
        self.revision = revision

    async def active(self) -> Sequence[RolloutRecord]:
        """Rollouts that have not ended."""
        return await self._store.rollouts(active_only=True, limit=10_000)

    async def rollout(self, rollout_id: str) -> RolloutRecord:
        """One rollout. Raises NotFound."""
        record = await self._store.rollout(rollout_id)
        if record is None:
            raise _not_found(rollout_id)
        return record

    async def rollouts(
        self, model: str, *, before_ns: int | None, limit: int
    ) -> Sequence[RolloutRecord]:
        """Newest first, started before `before_ns`. `model`: "" for all."""
        return await self._store.rollouts_before(before_ns, model=model, limit=limit)

    async def start(
        self, model: str, begun: Begun, before: tuple[tuple[str, float], ...], author: Author
    ) -> RolloutRecord:
        """Adds what `begun` makes of the stored split, and puts its split in force.

        All in one transaction, so that no split set by an operator is overwritten unseen.

        Args:
          model: its name.
          begun: the rollout; it is told the stored split.
          before: the split in force, for the audit log.

        Raises:
          FailedPrecondition: the model has an active one.
          Whatever `begun` raises.
        """
        async with self._store.change(author, wall_ns()) as change:
            other = await change.active_rollout(model)
            if other is not None:
                raise _is_active(other)
            record = begun(await change.split(model))
            await change.put_rollout(record, "start")
            split = SplitRecord(model, machine.shares(record), "rollout")
            await change.put_split(split, SplitRecord(model, before))
        await self.catch_up()
        return record

    async def change(
        self, rollout_id: str, action: str, author: Author, edit: Edit
    ) -> RolloutRecord:
        """Replaces a record by what `edit` makes of it, and its split with it, in one transaction.

        Returns: the record as it is then. Raises NotFound, and what `edit` raises.
        """
        async with self._store.change(author, wall_ns()) as change:
            found = await change.rollout(rollout_id)
            if found is None:
                raise _not_found(rollout_id)
            wanted = edit(found)
            if wanted != found:
                await change.put_rollout(wanted, action)
            if machine.shares(wanted) != machine.shares(found):
                split = SplitRecord(wanted.model, machine.shares(wanted), "rollout")
                await change.put_split(split)
        await self.catch_up()
        return wanted

    async def state(self, rollout_id: str) -> Mapping[str, Any] | None:
        """The controller's state as last kept."""
        return await self._store.rollout_state(rollout_id)

    async def keep(self, rollout_id: str, state: Mapping[str, Any]) -> None:
        """Keeps the controller's state."""
        await self._store.keep_rollout_state(rollout_id, state)

    async def note(self, verdicts: Sequence[VerdictRecord]) -> None:
        """Adds verdicts; while the store is away they wait, up to the backlog's bound."""
        for verdict in verdicts:
            self._backlog.add_verdict(verdict)
        if verdicts:
            await self._backlog.flush()

    async def verdicts(self, rollout_id: str, *, after: int, limit: int) -> Sequence[VerdictRecord]:
        """Oldest first, of sequence numbers above `after`. Raises NotFound."""
        await self.rollout(rollout_id)
        await self._backlog.flush()
        return await self._store.verdicts(rollout_id, after=after, limit=limit)

    async def last_sequence(self, rollout_id: str) -> int:
        """Number of the last verdict; 0 if there is none."""
        return await self._store.last_sequence(rollout_id)

    async def post(self, rollout_id: str, gateway_id: str, counts: TickCounts) -> None:
        """Hands outcomes to the gateway that decides."""
        await self._store.post_outcomes(rollout_id, gateway_id, wall_ns(), counts.to_plain())

    async def collect(self, rollout_id: str) -> Sequence[TickCounts]:
        """Takes what others have handed on."""
        posted = await self._store.collect_outcomes(rollout_id)
        return [TickCounts.from_plain(plain) for plain in posted]


def _is_active(other: RolloutRecord) -> FailedPrecondition:
    return FailedPrecondition(
        f"rollout {other.rollout_id} of {other.model} ({other.baseline_version} to "
        f"{other.canary_version}) is {other.phase}; wait for its end, or abort it first",
        field="model",
        metadata={"type": "ROLLOUT_ACTIVE", "rollout_id": other.rollout_id},
    )


def _not_found(rollout_id: str) -> NotFound:
    return NotFound(
        f"no rollout {rollout_id[:64]!r}; `headway rollout list` shows those there are",
        field="rollout_id",
        metadata={"name": rollout_id[:64], "kind": "rollout"},
    )
