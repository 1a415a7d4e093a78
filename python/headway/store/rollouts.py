"""What is stored beside a rollout's record: its controller's state, and outcomes on their way."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.store import codec, schema
from headway.store.records import RolloutRecord

MAX_OUTCOMES: Final = 600
"""Outcomes kept of one rollout while nobody collects them: a gateway posts one a second."""


class RolloutTables:
    """The part of a `Store` that rollouts need. Every method may raise `StoreUnavailable`."""

    @abstractmethod
    def _transaction(self, *, write: bool = False) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction."""

    async def rollout(self, rollout_id: str) -> RolloutRecord | None:
        """One rollout."""
        query = select(schema.rollouts).where(schema.rollouts.c.rollout_id == rollout_id)
        async with self._transaction() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else codec.rollout(dict(row))

    async def rollouts_before(
        self, before_ns: int | None, *, model: str = "", limit: int = 100
    ) -> list[RolloutRecord]:
        """Newest first, started before `before_ns` (None: all)."""
        table = schema.rollouts
        query = select(table).order_by(table.c.started_at_ns.desc()).limit(limit)
        if before_ns is not None:
            query = query.where(table.c.started_at_ns < before_ns)
        if model:
            query = query.where(table.c.model == model)
        async with self._transaction() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [codec.rollout(dict(row)) for row in rows]

    async def last_sequence(self, rollout_id: str) -> int:
        """Number of the last verdict; 0 if there is none."""
        table = schema.verdicts
        query = select(func.max(table.c.sequence)).where(table.c.rollout_id == rollout_id)
        async with self._transaction() as connection:
            return int((await connection.execute(query)).scalar() or 0)

    async def rollout_state(self, rollout_id: str) -> Mapping[str, Any] | None:
        """The controller's state as last kept."""
        table = schema.rollout_states
        query = select(table.c.state).where(table.c.rollout_id == rollout_id)
        async with self._transaction() as connection:
            found: Mapping[str, Any] | None = (await connection.execute(query)).scalar()
        return found

    async def keep_rollout_state(self, rollout_id: str, state: Mapping[str, Any]) -> None:
        """Keeps the controller's state, in place of the last one."""
        table = schema.rollout_states
        async with self._transaction(write=True) as connection:
            await connection.execute(table.delete().where(table.c.rollout_id == rollout_id))
            await connection.execute(table.insert().values(rollout_id=rollout_id, state=state))

    async def post_outcomes(
        self, rollout_id: str, gateway_id: str, at_ns: int, counts: Mapping[str, Any]
    ) -> None:
        """Leaves outcomes for the gateway that decides; beyond 600 they are dropped."""
        table = schema.rollout_outcomes
        row = {"gateway_id": gateway_id, "posted_at_ns": at_ns, "counts": counts}
        waiting = select(func.count()).where(table.c.rollout_id == rollout_id)
        async with self._transaction(write=True) as connection:
            if int((await connection.execute(waiting)).scalar_one()) < MAX_OUTCOMES:
                await connection.execute(table.insert().values(rollout_id=rollout_id, **row))

    async def collect_outcomes(self, rollout_id: str) -> Sequence[Mapping[str, Any]]:
        """Takes what was left, oldest first."""
        table = schema.rollout_outcomes
        theirs = table.c.rollout_id == rollout_id
        waiting = select(func.count()).where(theirs)
        async with self._transaction() as connection:
            if not (await connection.execute(waiting)).scalar_one():
                return ()
        delete = table.delete().where(theirs).returning(table.c.posted_at_ns, table.c.counts)
        async with self._transaction(write=True) as connection:
            rows = (await connection.execute(delete)).all()
        return [row.counts for row in sorted(rows, key=lambda row: row.posted_at_ns)]
