"""Rollouts as operators start and end them, and the loop that drives those that are active.

Every gateway taps its own traffic. One of them (the ledger says which) decides: it merges what the
others post into its ticks, and stores what the controller says. A change reaches the split of all
gateways through the ledger; a dead canary is cut off in each gateway by itself, at once.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from headway.clock import Clock, wall_ns
from headway.errors import NotFound, StoreUnavailable
from headway.gateway.catalog import Catalog, Model
from headway.gateway.rollouts.checks import baseline_of, check_versions, checked_policy
from headway.gateway.rollouts.ledger import Edit, Ledger
from headway.gateway.rollouts.live import Live
from headway.gateway.rollouts.shadow import Submit
from headway.rng import fresh_root
from headway.rollout import machine
from headway.rollout.controller import Controller, first_share
from headway.rollout.counts import TickCounts
from headway.store.records import Author, RolloutRecord, SplitRecord, VerdictRecord

_log = logging.getLogger(__name__)

_NS_PER_MS: Final = 1_000_000
POST_NS: Final = 1000 * _NS_PER_MS
"""Time between handings of outcomes to the leader."""

_LONGEST_PAUSE_NS: Final = 200 * _NS_PER_MS
_RETRY_NS: Final = 1000 * _NS_PER_MS
_PATIENCE_S: Final = 5.0
"""Longest time that an operator waits until this gateway shows the change made."""


class Rollouts:
    """The rollouts of a gateway.

    What is known here of the ledger changes in one place at a time: in a reading of it, or in the
    turn of one rollout. Each waits for the store in between, and what it found before would else
    be put over what another one found later. Operators change the ledger itself whenever they
    like; a turn that was overtaken so finds it out as it stores what it decided.
    """

    def __init__(
        self,
        catalog: Catalog,
        ledger: Ledger,
        clock: Clock,
        submit: Submit,
        *,
        gateway_id: str,
    ) -> None:
        """`submit`: sends shadow copies."""
        self._catalog = catalog
        self._ledger = ledger
        self._clock = clock
        self._submit = submit
        self._controller_author = Author("rollout", gateway_id=gateway_id)
        self._gateway_id = gateway_id
        self._live: dict[str, Live] = {}
        self._seen_revision: int | None = None
        self._one_at_a_time = asyncio.Lock()

    # -- what operators do

    async def start(
        self,
        model_name: str,
        canary: str,
        preset: str,
        settings: Mapping[str, Any],
        author: Author,
    ) -> RolloutRecord:
        """Begins a rollout from the version that has all traffic.

        Raises:
          NotFound: no such model or version.
          InvalidRequest: the canary has the traffic already, or the policy is malformed.
          FailedPrecondition: one is active, or the traffic is divided.
          NoCapacity: the canary has no replica that takes work.
        """
        policy = checked_policy(preset, settings)
        model = self._model(model_name)
        step, share = first_share(policy)

        def begun(split: SplitRecord | None) -> RolloutRecord:
            # An operator may have set one that this gateway does not know yet.
            baseline = baseline_of(model, None if split is None else dict(split.shares))
            check_versions(model, baseline, canary)
            return RolloutRecord(
                rollout_id=new_rollout_id(model.name),
                model=model.name,
                baseline_version=baseline,
                canary_version=canary,
                phase=machine.RUNNING,
                step=step,
                canary_share=share,
                policy=policy.model_dump(mode="json"),
                started_at_ns=wall_ns(),
                reason="started by an operator",
            )

        record = await self._ledger.start(model.name, begun, model.shares, author)
        _log.info("rollout started", extra={"rollout": record.rollout_id, "model": model.name})
        await self._show_change()
        return record

    async def pause(self, rollout_id: str, author: Author) -> RolloutRecord:
        """Holds it where it is; its tests go on."""
        return await self._operate(rollout_id, "pause", author, machine.pause)

    async def resume(self, rollout_id: str, author: Author) -> RolloutRecord:
        """Goes on."""
        return await self._operate(rollout_id, "resume", author, machine.resume)

    async def promote(self, rollout_id: str, author: Author) -> RolloutRecord:
        """Ends it with all traffic on the canary."""
        now_ns = wall_ns()
        return await self._operate(
            rollout_id, "promote", author, lambda record: machine.promote(record, now_ns)
        )

    async def abort(self, rollout_id: str, reason: str, author: Author) -> RolloutRecord:
        """Ends it with all traffic on the baseline."""
        now_ns = wall_ns()
        return await self._operate(
            rollout_id, "abort", author, lambda record: machine.abort(record, reason, now_ns)
        )

    # -- what operators read

    async def get(self, rollout_id: str) -> tuple[RolloutRecord, Controller | None]:
        """A rollout, and what is known of its step while it is active."""
        record = await self._ledger.rollout(rollout_id)
        if not machine.is_active(record):
            return record, None
        live = self._live.get(rollout_id)
        if live is not None and live.controller is not None:
            return record, live.controller
        state = await self._ledger.state(rollout_id)
        return record, None if state is None else _continued(record, state)

    async def newest(
        self, model: str, *, before_ns: int | None, limit: int
    ) -> Sequence[RolloutRecord]:
        """Rollouts, newest first."""
        return await self._ledger.rollouts(model, before_ns=before_ns, limit=limit)

    async def verdicts(self, rollout_id: str, *, after: int, limit: int) -> Sequence[VerdictRecord]:
        """The trail of a rollout, oldest first. Raises NotFound."""
        return await self._ledger.verdicts(rollout_id, after=after, limit=limit)

    def active(self) -> list[tuple[RolloutRecord, Controller | None]]:
        """Active rollouts as this gateway knows them, by model."""
        found = sorted(self._live.values(), key=lambda live: live.record.model)
        return [(live.record, live.controller) for live in found]

    # -- the loop

    async def run(self) -> None:
        """Drives active rollouts for ever, through any number of losses of the store."""
        while True:
            try:
                await self._turn()
            except StoreUnavailable as error:
                _log.warning("rollouts wait for the store", extra={"why": error.message})
                await self._clock.sleep(_RETRY_NS)
            except Exception:
                # One malformed rollout must not end the loop that could roll another back.
                _log.exception("rollouts: turn failed")
                await self._clock.sleep(_RETRY_NS)
            await self._clock.sleep(self._pause_ns())

    def _pause_ns(self) -> int:
        now_ns = self._clock.now_ns()
        due = [live.ticked_at_ns + live.tick_ns - now_ns for live in self._live.values()]
        return max(_NS_PER_MS, min([_LONGEST_PAUSE_NS, *due]))

    async def _turn(self) -> None:
        if self._ledger.revision() != self._seen_revision:
            await self._refresh()
        for live in sorted(self._live.values(), key=lambda each: each.record.rollout_id):
            async with self._one_at_a_time:
                # It may have ended while others had their turns, and is not tapped again then.
                if self._live.get(live.record.rollout_id) is live:
                    await self._drive(live)

    async def _drive(self, live: Live) -> None:
        now_ns = self._clock.now_ns()
        if now_ns - live.ticked_at_ns < live.tick_ns and not live.tap.dead:
            return
        live.attach()
        counts, seconds = live.take(now_ns)
        if self._ledger.leads():
            await self._decide(live, counts, seconds)
        else:
            await self._hand_on(live, counts, now_ns)

    async def _refresh(self) -> None:
        """Takes over what the ledger has."""
        async with self._one_at_a_time:
            revision = self._ledger.revision()
            records = {record.rollout_id: record for record in await self._ledger.active()}
            ended = sorted(self._live.keys() - records.keys())
            if any(self._live[rollout_id].is_cut_off for rollout_id in ended):
                # The split of its end is to be here before the one of the cut is lifted.
                await self._ledger.catch_up()
            for live in [self._live[rollout_id] for rollout_id in ended]:
                if live.pending:
                    # It may have ended as it was decided here, and the store's answer was lost.
                    with contextlib.suppress(NotFound):
                        live.adopt(await self._ledger.rollout(live.record.rollout_id))
                        await self._note_pending(live)
            self._seen_revision = revision
            for rollout_id in ended:
                self._live.pop(rollout_id).detach()
            for record in records.values():
                self._take_over_record(record)

    def _take_over_record(self, record: RolloutRecord) -> None:
        live = self._live.get(record.rollout_id)
        model = self._catalog.models.get(record.model)
        if model is None:
            self._seen_revision = None  # no worker of it yet: look again
        elif live is None:
            self._take_in(record, model, self._clock.now_ns())
        elif live.record != record:
            live.adopt(record)
            live.attach()

    def _take_in(self, record: RolloutRecord, model: Model, now_ns: int) -> None:
        try:
            live = Live(record, model, self._catalog, self._submit, now_ns)
        except ValidationError:
            # Of a version with other rules. It stays as it is; an operator may end it.
            _log.exception("rollout cannot be driven", extra={"rollout": record.rollout_id})
            return
        self._live[record.rollout_id] = live

    async def _hand_on(self, live: Live, counts: TickCounts, now_ns: int) -> None:
        live.controller = None
        live.pending.clear()  # whoever leads now decides anew
        if live.unposted is None:
            live.unposted = counts
        else:
            live.unposted.add(counts)
        if now_ns - live.posted_at_ns >= POST_NS or counts.dead:
            await self._ledger.post(live.record.rollout_id, self._gateway_id, live.unposted)
            live.unposted, live.posted_at_ns = None, now_ns

    async def _decide(self, live: Live, counts: TickCounts, seconds: float) -> None:
        try:
            controller = live.controller or await self._take_over(live)
            # Last, since what it returns is nowhere else any more.
            collected = await self._ledger.collect(live.record.rollout_id)
        except Exception:
            live.put_back(counts, seconds)
            raise
        if live.unposted is not None:
            counts.merge(live.unposted)
            live.unposted = None
        for posted in collected:
            counts.merge(posted)
        live.pending += controller.on_tick(counts, seconds, wall_ns())
        if controller.record.phase == machine.ROLLED_BACK:
            live.cut_off()
        if live.pending or controller.record != live.record:
            await self._commit(live, controller)

    async def _take_over(self, live: Live) -> Controller:
        """Continues where the last controller left the ledger."""
        rollout_id = live.record.rollout_id
        state = await self._ledger.state(rollout_id)
        controller = _continued(live.record, state)
        controller.continue_after(await self._ledger.last_sequence(rollout_id))
        live.controller = controller
        if state is not None:
            _log.info("rollout taken over", extra={"rollout": rollout_id})
        return controller

    async def _commit(self, live: Live, controller: Controller) -> None:
        base, wanted = live.record, controller.record
        if wanted != base:
            stored = await self._ledger.change(
                base.rollout_id,
                _ACTIONS.get(wanted.phase, "step"),
                self._controller_author,
                lambda found: _unless_overtaken(base, wanted, found),
            )
            live.adopt(stored)  # an operator's, if one was first
            where = {"phase": stored.phase, "step": stored.step, "why": stored.reason}
            _log.info("rollout moved", extra={"rollout": base.rollout_id, **where})
        await self._note_pending(live)
        await self._ledger.keep(base.rollout_id, controller.to_plain())
        if not machine.is_active(live.record):
            live.detach()
            self._live.pop(base.rollout_id, None)

    async def _note_pending(self, live: Live) -> None:
        verdicts = list(live.pending)
        live.pending.clear()
        await self._ledger.note(verdicts)

    async def _operate(
        self, rollout_id: str, action: str, author: Author, edit: Edit
    ) -> RolloutRecord:
        record = await self._ledger.change(rollout_id, action, author, edit)
        _log.info("rollout changed", extra={"rollout": rollout_id, "action": action})
        await self._show_change()
        return record

    async def _show_change(self) -> None:
        """Takes over what an operator has just changed.

        The change is made and confirmed, so whatever goes wrong here is no failure of it: the loop
        takes it over, since the ledger's revision is another one.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._refresh()
        except (StoreUnavailable, TimeoutError) as error:
            _log.warning("rollout's change is not in force here yet", extra={"why": str(error)})

    def _model(self, name: str) -> Model:
        model = self._catalog.models.get(name)
        if model is None:
            known = ", ".join(sorted(self._catalog.models)[:8]) or "none"
            raise NotFound(
                f"no model {name[:64]!r}; there are: {known}",
                field="model",
                metadata={"name": name[:64], "kind": "model"},
            )
        return model


def new_rollout_id(model: str) -> str:
    """A name that no rollout ever had: not drawn from the process's seed, which may be fixed."""
    return f"{model[:40]}-{fresh_root():016x}"


def _continued(record: RolloutRecord, state: Mapping[str, Any] | None) -> Controller:
    """A controller that goes on from a stored state, or begins anew if that cannot be read."""
    try:
        return Controller(record, state)
    except (ValueError, KeyError, TypeError):
        _log.warning("rollout state of another version: its evidence begins anew",
                     extra={"rollout": record.rollout_id}, exc_info=True)  # fmt: skip
        return Controller(record)


_ACTIONS: Final = {machine.PROMOTED: "promote", machine.ROLLED_BACK: "roll_back"}


def _unless_overtaken(
    base: RolloutRecord, wanted: RolloutRecord, found: RolloutRecord
) -> RolloutRecord:
    """What a controller wanted, unless an operator was first: abort and promote always win."""
    if not machine.is_active(found):
        return found
    if wanted.phase == machine.ROLLED_BACK:
        return dataclasses.replace(wanted, step=found.step)
    return wanted if (found.phase, found.step) == (base.phase, base.step) else found
