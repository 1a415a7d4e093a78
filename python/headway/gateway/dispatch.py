"""Batches: formed when a replica is free, sent, answered, and given back when they fail."""

import logging
from collections.abc import Callable, Iterable
from typing import cast

from headway import errors
from headway._core import Batch, BatchOutcome, BreakerState, Ended, Scheduler
from headway.clock import Clock
from headway.gateway.batch_answer import (
    common_answer,
    match,
    member_error,
    response_of,
    too_large,
    used,
)
from headway.gateway.flight import Flight, add_item, trace_of
from headway.gateway.pending import Pending
from headway.gateway.replica import Replica
from headway.gateway.session import WorkerSession
from headway.rpc.convert import set_duration
from headway.v1 import inference_pb2, worker_pb2

_log = logging.getLogger(__name__)

_REASON_NAMES = {
    value: name.removeprefix("BATCH_REASON_").lower()
    for name, value in inference_pb2.BatchReason.items()
}
_OK = worker_pb2.ITEM_STATUS_OK
_INVALID = worker_pb2.ITEM_STATUS_INVALID
_EXPIRED = worker_pb2.ITEM_STATUS_EXPIRED
_FAILED = worker_pb2.ITEM_STATUS_FAILED
_NEUTRAL = (_INVALID, _EXPIRED)


class Dispatcher:
    """Carries out the scheduler's batches.

    `live` is shared with the request path: ticket to request, for every request that is queued or
    executing; the scheduler's max_live bounds it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        live: dict[int, Pending],
        replica_of: Callable[[int], Replica],
        call_soon: Callable[[Callable[[], None]], object],
        *,
        max_batch_bytes: int,
        max_message_bytes: int,
    ) -> None:
        """Sends nothing yet.

        Args:
          scheduler: forms batches.
          clock: time.
          live: requests by ticket.
          replica_of: by the scheduler's handle.
          call_soon: runs something at the end of this turn of the event loop.
          max_batch_bytes: inputs of a batch together; a larger message would end the session.
          max_message_bytes: output of a request; a larger one would not reach its caller.
        """
        self._scheduler = scheduler
        self._clock = clock
        self._live = live
        self._replica_of = replica_of
        self._call_soon = call_soon
        self._max_batch_bytes = max_batch_bytes
        self._max_message_bytes = max_message_bytes
        self._flights: dict[int, Flight] = {}
        self._dirty: set[int] = set()
        self._pump_scheduled = False
        # Set by the request path, which owns the timer: a busy replica is offered again by time.
        self.rearm: Callable[[], None]
        # Likewise: asks for a call at an instant, at which a late batch may be sent again or the
        # next one may leave for a replica that is about to be free.
        self.look_at: Callable[[int], None]
        self._retries_refused: dict[int, int] = {}

    def kick(self, pool: int) -> None:
        """Something changed that may let a batch of `pool` start.

        The batch is formed at the end of this turn of the event loop, so that requests that
        arrive together travel together; nothing waits longer than that.
        """
        self._dirty.add(pool)
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._call_soon(self._pump)

    def _pump(self) -> None:
        self._pump_scheduled = False
        pools, self._dirty = sorted(self._dirty), set()
        now_ns = self._clock.now_ns()
        for pool in pools:
            batch = self._scheduler.form_batch(now_ns, pool)
            if batch is None:
                if (at_ns := self._scheduler.look_at_ns(pool)) is not None:
                    self.look_at(at_ns)
                continue
            while batch is not None:
                self._send(now_ns, batch)
                batch = self._scheduler.form_batch(now_ns, pool)

    def _send(self, now_ns: int, batch: Batch) -> None:
        replica = self._replica_of(batch.replica)
        # Filled in place: a message made by itself is copied into the one that is sent, inputs too.
        message = worker_pb2.SessionRequest()
        execute = message.execute
        execute.batch_id, execute.model_handle = batch.id, replica.wire_handle
        execute.predicted_device_ns, execute.pipelined = batch.predicted_ns, batch.is_pipelined
        late = self._flights.get(batch.hedge_of) if batch.hedge_of else None
        members: dict[int, Pending] = {}
        num_bytes = 0
        queued = batch.queued_ns
        rival = batch.other_replica
        other = self._replica_of(rival).name if rival >= 0 else ""
        tickets = batch.tickets
        trace = trace_of(batch, tickets, replica.name, other, self._live, now_ns)
        for ticket, waited, slack, attempts in zip(
            tickets, queued, batch.slack_ns, batch.attempts, strict=True
        ):
            pending = self._live[ticket]
            if late is None:
                pending.queued_ns, pending.slack_ns, pending.attempts = waited, slack, attempts
            else:
                pending.hedged = True
            pending.record.attempts.append((trace, waited, slack))
            members[ticket] = pending
            size = pending.request.ByteSize()
            # Who does not fit counts as left out by the worker: back to the queue, for the next.
            if num_bytes == 0 or num_bytes + size <= self._max_batch_bytes:
                num_bytes += size
                add_item(execute, pending, now_ns)
        reason = int(batch.reason)
        info = inference_pb2.BatchInfo()
        info.id, info.size, info.rows, info.units = batch.id, len(members), trace.rows, trace.units
        info.reason = cast("inference_pb2.BatchReason", reason)
        set_duration(info.predicted_device, batch.predicted_ns)
        if late is None:
            replica.pool.metrics.dispatched(_REASON_NAMES[reason], queued)
        self._flights[batch.id] = Flight(
            batch.id, replica, replica.session, members, info,
            trace.units, trace.predicted_ns, now_ns, trace, batch.hedge_of,
        )  # fmt: skip
        if late is not None:
            late.twin = batch.id
        if batch.look_at_ns:
            self.look_at(batch.look_at_ns)
        replica.session.send(message)

    def on_result(self, session: WorkerSession, result: worker_pb2.BatchResult) -> None:
        """A worker answered for a batch. Answers for batches it does not have are ignored."""
        flight = self._flights.get(result.batch_id)
        if flight is None or flight.session is not session:
            return
        del self._flights[result.batch_id]
        items, unanswered = match(flight, result)
        failed = [item for item in items if item.status == _FAILED]
        twin = self._part(flight)
        if failed and len(failed) == len(flight.members):
            self._give_back(flight, BatchOutcome.FAILED, why=failed[0].message)
            return
        if twin is not None and failed:
            # The other copy may still answer for them.
            unanswered += [item.item_id for item in failed]
            items = [item for item in items if item.status != _FAILED]
            failed = []
        now_ns = self._clock.now_ns()
        flight.trace.end(now_ns, "ok" if items else "cancelled", device_ns=result.device_ns)
        ended = self._scheduler.complete(
            now_ns,
            flight.batch_id,
            BatchOutcome.OK,
            result.device_ns,
            result.units,
            retry=unanswered,
            failed=len(failed),
            invalid=sum(1 for item in items if item.status in _NEUTRAL),
            used=used(items),
        )
        self._learn(flight, result)
        common = common_answer(flight, result.device_ns, now_ns)
        for item in items:
            self._end_member(flight, item, common, now_ns)
        self._fail_all(flight, ended, now_ns, "the worker's answer left it out")
        if twin is not None:
            self._stop_ended(twin)
        self.kick(flight.replica.pool.handle)

    def on_busy(self, session: WorkerSession, busy: worker_pb2.BatchBusy) -> None:
        """A worker did not begin a batch: its members go back to their place in the queue."""
        flight = self._flights.get(busy.batch_id)
        if flight is None or flight.session is not session:
            return
        del self._flights[busy.batch_id]
        self._give_back(flight, BatchOutcome.BUSY, retry_after_ns=busy.retry_after_ns)

    def on_lost(self, session: WorkerSession) -> None:
        """A session ended: what was on it is given back."""
        lost = [flight for flight in self._flights.values() if flight.session is session]
        for flight in lost:
            del self._flights[flight.batch_id]
            self._give_back(flight, BatchOutcome.LOST, why="its worker was lost")

    def stop_members(self, ended: Iterable[Ended]) -> None:
        """Tells workers to stop working for requests that ended while executing."""
        by_batch: dict[int, list[int]] = {}
        for end in ended:
            flight = self._flights.get(end.batch)
            if flight is None:
                continue
            by_batch.setdefault(end.batch, []).append(end.ticket)
            if flight.twin in self._flights:
                by_batch.setdefault(flight.twin, []).append(end.ticket)
        for batch_id, tickets in by_batch.items():
            cancel = worker_pb2.CancelItems(batch_id=batch_id, item_ids=tickets)
            self._flights[batch_id].session.send(worker_pb2.SessionRequest(cancel=cancel))

    def give_up_overdue(self) -> None:
        """Restarts sessions whose worker owes an answer for a batch that nobody waits for.

        A worker that swallows an answer would keep its slot for ever; a stream that is opened
        anew settles who owes what. O(batches), a few times a lease.
        """
        now_ns = self._clock.now_ns()
        overdue = {
            flight.session: flight.replica.name
            for flight in self._flights.values()
            if flight.overdue(now_ns)
        }
        for session, replica in overdue.items():
            _log.warning("a batch was never answered", extra={"replica": replica})
            session.restart()

    def num_flights(self) -> int:
        """Batches on their way."""
        return len(self._flights)

    def _give_back(
        self, flight: Flight, outcome: BatchOutcome, *, retry_after_ns: int = 0, why: str = ""
    ) -> None:
        now_ns = self._clock.now_ns()
        flight.trace.end(now_ns, _outcome_name(outcome), why)
        flight.trace.left_to_twin = self._part(flight) is not None
        ended = self._scheduler.complete(
            now_ns, flight.batch_id, outcome, retry_after_ns=retry_after_ns
        )
        if outcome != BatchOutcome.BUSY:
            self._note_breaker(flight)
        self._fail_all(flight, ended, now_ns, why)
        self.kick(flight.replica.pool.handle)
        self.rearm()

    def _part(self, flight: Flight) -> Flight | None:
        """Parts a flight that ends from its twin; returns the twin if it is still on its way."""
        twin = self._flights.get(flight.twin) if flight.twin else None
        if twin is not None:
            twin.twin = 0
        return twin

    def _stop_ended(self, flight: Flight) -> None:
        """Tells a worker to stop working for members that ended elsewhere."""
        ended = [ticket for ticket in flight.members if ticket not in self._live]
        cancel = worker_pb2.CancelItems(batch_id=flight.batch_id, item_ids=ended)
        if ended:
            flight.session.send(worker_pb2.SessionRequest(cancel=cancel))

    def _note_breaker(self, flight: Flight) -> None:
        """Keeps, for whoever asks, what a failure did to the replica's standing."""
        stats = self._scheduler.replica_stats(flight.replica.handle)
        trace = flight.trace
        trace.shut_out = stats.breaker == BreakerState.OPEN
        trace.recent_failures, trace.recent_outcomes = stats.recent_failures, stats.recent_outcomes

    def _was_refused_retry(self, flight: Flight) -> bool:
        """True if the retry budget refused something since this was last asked of the pool."""
        handle = flight.replica.pool.handle
        refused = self._scheduler.pool_stats(handle).retries_refused
        before = self._retries_refused.get(handle, 0)
        self._retries_refused[handle] = refused
        return refused > before

    def _learn(self, flight: Flight, result: worker_pb2.BatchResult) -> None:
        if result.device_ns > 0:
            pool = flight.replica.pool
            pool.metrics.executed(result.device_ns, flight.predicted_ns)
            if pool.tap is not None:
                pool.tap.executed(result.device_ns)
        executed = sum(1 for item in result.items if item.status == _OK)
        if result.units > 0 and executed == len(flight.members):
            flight.replica.pool.estimator.observe(flight.units, result.units)

    def _end_member(
        self,
        flight: Flight,
        item: worker_pb2.ItemResult,
        common: inference_pb2.InferResponse,
        now_ns: int,
    ) -> None:
        pending = self._live.pop(item.item_id, None)
        if pending is None:
            return
        if item.status == _OK:
            size = item.output.ByteSize()
            if size > self._max_message_bytes:
                pending.fail(now_ns, too_large(size, self._max_message_bytes))
                return
            pending.answer(now_ns, response_of(common, pending, item, now_ns))
        else:
            pending.fail(now_ns, member_error(item, flight.replica.name))

    def _fail_all(self, flight: Flight, tickets: list[int], now_ns: int, why: str) -> None:
        is_refused = bool(tickets) and self._was_refused_retry(flight)
        for ticket in tickets:
            pending = self._live.pop(ticket, None)
            if pending is None:
                continue
            if now_ns >= pending.deadline_ns:
                pending.fail(now_ns, errors.DeadlineExpired("its deadline passed while it ran"))
                continue
            message = f"it was begun {pending.attempts} times without an answer: "
            message += why or "no time was left"
            if is_refused:
                message += "; the version's retry budget is spent, since too much fails"
            pending.fail(now_ns, errors.UpstreamFailure(message))


def _outcome_name(outcome: BatchOutcome) -> str:
    if outcome == BatchOutcome.BUSY:
        return "busy"
    return "failed" if outcome == BatchOutcome.FAILED else "lost"
