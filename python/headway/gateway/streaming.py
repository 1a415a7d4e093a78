"""Outputs: admitted, begun in their order on replicas with a free lane, passed on as they come.

One request a dispatch: a lane is taken and given back by itself, so there is nothing to batch.
"""

import asyncio
from collections.abc import Callable, Iterable

from headway import errors
from headway._core import Rng, Scheduler
from headway.admission.refusal import displaced
from headway.clock import Clock
from headway.gateway.catalog import Model
from headway.gateway.deadline_queue import DeadlineQueue
from headway.gateway.decisions import LANE, BatchTrace, Record
from headway.gateway.replica import Replica
from headway.gateway.session import WorkerSession
from headway.gateway.stream_admission import StreamAdmission, pool_of
from headway.gateway.stream_affinity import blocks_of
from headway.gateway.stream_answer import delta_of, execute_of, failure_of, response_of
from headway.gateway.stream_pool import StreamPool
from headway.gateway.stream_replica import MOST_NS, StreamReplica
from headway.gateway.stream_request import FIRST_STREAM_ID, WINDOW_PARTS, PendingStream
from headway.gateway.stream_targets import check_targets
from headway.gateway.timer import DeadlineTimer
from headway.rpc.interceptors import Caller
from headway.v1 import control_pb2, inference_pb2, types_pb2, worker_pb2

DEFAULT_BUDGET = 128
_MOST_UNITS = 1 << 38
"""Most units that the core takes for one request."""

_LEAST_RETRY_NS = 1_000_000
_RETRY_PART = 8
"""A full queue is worth asking again once this part of it was served."""

_OK = worker_pb2.ITEM_STATUS_OK
_STOP = types_pb2.FINISH_REASON_STOP


class StreamDispatcher:
    """All outputs of a gateway. The scheduler bounds them, and says who begins next."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        rng: Rng,
        loop: asyncio.AbstractEventLoop,
        *,
        max_attempts: int,
        renew: Callable[[Caller], int],
    ) -> None:
        """Does nothing yet.

        Args:
          scheduler: takes outputs in and orders them.
          renew: handle of a caller that the scheduler has forgotten.
        """
        self.live: dict[int, PendingStream] = {}
        self._scheduler = scheduler
        self._clock = clock
        self._rng = rng
        self._loop = loop
        self._admission = StreamAdmission(scheduler, renew=renew)
        self._max_attempts = max_attempts
        self._pools: dict[int, StreamPool] = {}
        self._by_session: dict[WorkerSession, list[StreamReplica]] = {}
        self._deadlines = DeadlineQueue()
        self._timer = DeadlineTimer(clock.now_ns, loop.call_later, self._expire)

    # -- the request path's side

    def submit(
        self,
        request: inference_pb2.InferRequest,
        record: Record,
        model: Model,
        *,
        reads_along: bool,
    ) -> PendingStream:
        """Admits a request.

        Raises:
          RequestError: refused.
        """
        check_targets(request.targets)
        now_ns, deadline_ns = record.arrived_ns, record.deadline_ns
        pool = pool_of(model, request.version, record.key_hash)
        units, rows = pool.estimator.estimate(request.input)
        record.pool, record.units, record.rows = pool, units, rows
        record.inflight = len(self.live) + 1
        budget = request.max_output_units or DEFAULT_BUDGET
        streams = self._pools.setdefault(pool.handle, StreamPool())
        # What names its version says nothing of the split's two groups of users.
        tap = None if record.pinned else pool.tap
        expected = streams.forecast.lengths.expected(budget=budget)
        try:
            admission = self._admission.admit(record, pool, streams, expected)
        except errors.RequestError as error:
            if tap is not None:
                tap.refused(error.reason)
            raise
        record.admitted = True
        self._displace(now_ns, pool.handle, admission.displaced)
        stream = PendingStream(
            FIRST_STREAM_ID + admission.ticket, request, record.request_id, pool, units, budget,
            expected, blocks_of(request.input), record.priority, now_ns, deadline_ns, reads_along,
            self._loop.create_future(), record, tap=tap,
        )  # fmt: skip
        self.live[stream.stream_id] = stream
        self._deadlines.push(deadline_ns, stream.stream_id)
        self._timer.arm(deadline_ns)
        self._pump(pool.handle)
        return stream

    async def parts(self, stream: PendingStream) -> "inference_pb2.OutputDelta | None":
        """The next part; None at the end. Taking parts lets the worker send more."""
        part = await stream.next_part()
        if part is not None and stream.num_delivered % (WINDOW_PARTS // 2) == 0:
            self._grant(stream, WINDOW_PARTS // 2)
        return part

    def end(self, stream: PendingStream, error: errors.RequestError) -> None:
        """Ends a request before its answer: its lane is freed, its queue slot at once."""
        if not self._forget(stream):
            return
        now_ns = self._clock.now_ns()
        stream.fail(now_ns, error)
        if stream.future.done() and not stream.future.cancelled():
            stream.future.exception()  # nobody may be left to read it
        if stream.replica is not None:
            cancel = worker_pb2.CancelItems(batch_id=stream.stream_id)
            stream.replica.replica.session.send(worker_pb2.SessionRequest(cancel=cancel))
            self._leave_replica(stream, now_ns, censored=True)
        self._settle(now_ns, stream)

    def _displace(self, now_ns: int, pool: int, tickets: Iterable[int]) -> None:
        """Answers outputs that had to leave the queue for a better one."""
        for ticket in tickets:
            stream = self.live[FIRST_STREAM_ID + ticket]
            self._forget(stream)
            wait_ns = self._scheduler.waiting_outputs(now_ns, pool)[1] // _RETRY_PART
            stream.fail(now_ns, displaced(stream.pool.name, max(_LEAST_RETRY_NS, wait_ns)))

    # -- the fleet's side

    def on_greeting(
        self, session: WorkerSession, replicas: Iterable[Replica], capacity: worker_pb2.Capacity
    ) -> None:
        """A worker greeted and said what it can take."""
        for replica in replicas:
            if replica.pool.card.generative:
                streams = self._pools.setdefault(replica.pool.handle, StreamPool())
                known = streams.replicas.get(replica.handle) or StreamReplica(replica)
                hosted = self._by_session.setdefault(session, [])
                if known not in hosted:
                    hosted.append(known)
                known.take_note(capacity)
                streams.note(known)
                self._pump(replica.pool.handle)

    def on_message(self, session: WorkerSession, message: worker_pb2.SessionResponse) -> bool:
        """Takes in what a worker said; False if it is not about outputs."""
        kind = message.WhichOneof("message")
        if kind == "parts":
            for part in message.parts.parts:
                self._on_part(session, part)
        elif kind == "capacity":
            self._on_capacity(session, message.capacity)
        elif kind == "result" and message.result.batch_id >= FIRST_STREAM_ID:
            self._on_result(session, message.result)
        elif kind == "busy" and message.busy.batch_id >= FIRST_STREAM_ID:
            self._on_busy(session, message.busy)
        else:
            return False
        return True

    def on_lost(self, session: WorkerSession) -> None:
        """A session ended: what was on it goes elsewhere, or ends where a part was delivered."""
        lost = self._by_session.pop(session, [])
        for replica in lost:
            self._pools[replica.replica.pool.handle].forget(replica.replica.handle)
            for stream in list(replica.inflight.values()):
                self._retry(stream, "its worker was lost")
        for replica in lost:
            self._pump(replica.replica.pool.handle)

    def on_condition(self, replica: Replica) -> None:
        """A replica may take work now, or no longer."""
        streams = self._pools.get(replica.pool.handle)
        known = None if streams is None else streams.replicas.get(replica.handle)
        if streams is not None and known is not None:
            streams.note(known)

    def kick(self, pool: int) -> None:
        """Something changed that may let an output begin."""
        if pool in self._pools:
            self._pump(pool)

    def describe(self, pool: int) -> control_pb2.StreamPoolState | None:
        """What operators are shown of a model version; None before it had a replica or request."""
        streams = self._pools.get(pool)
        if streams is None:
            return None
        waiting, wait_ns = self._scheduler.waiting_outputs(self._clock.now_ns(), pool)
        return streams.describe(waiting, wait_ns)

    # -- dispatch

    def _pump(self, pool: int) -> None:
        streams = self._pools[pool]
        now_ns = self._clock.now_ns()
        while (ticket := self._scheduler.next_output(pool)) is not None:
            stream = self.live[FIRST_STREAM_ID + ticket]
            replica = streams.choose(stream, self._rng)
            if replica is None:
                return
            self._send(now_ns, streams, stream, replica)

    def _send(
        self, now_ns: int, streams: StreamPool, stream: PendingStream, replica: StreamReplica
    ) -> None:
        streams.occupy(stream, replica)
        stream.replica = replica
        stream.dispatched_ns = now_ns
        stream.attempts += 1
        stream.company = replica.company
        stream.predicted_first_ns = first_ns = streams.forecast.first_ns(replica, stream.units)
        self._scheduler.begin_output(
            now_ns,
            stream.ticket,
            _span(first_ns + (stream.expected - 1) * replica.gap_ns),
            _span(first_ns + stream.budget * replica.gap_ns),
            replica.size_of(stream.units + stream.budget),
        )
        stream.pool.metrics.dispatched("lane", [now_ns - stream.arrived_ns])
        self._explain(now_ns, stream, replica)
        session = replica.replica.session
        session.send(execute_of(stream, replica.replica.wire_handle, now_ns))
        if stream.reads_along:
            self._grant(stream, WINDOW_PARTS)

    def _explain(self, now_ns: int, stream: PendingStream, replica: StreamReplica) -> None:
        """Keeps the dispatch for who asks."""
        stream.trace = BatchTrace(
            stream.stream_id, replica.replica.name, 1, 1, stream.units, LANE,
            stream.predicted_first_ns, now_ns, (stream.request_id,),
        )  # fmt: skip
        slack_ns = stream.deadline_ns - now_ns - stream.predicted_first_ns
        stream.record.attempts.append((stream.trace, now_ns - stream.arrived_ns, slack_ns))

    def _grant(self, stream: PendingStream, parts: int) -> None:
        if stream.replica is not None and not stream.ended:
            credit = worker_pb2.StreamCredit(item_id=stream.stream_id, parts=parts)
            stream.replica.replica.session.send(worker_pb2.SessionRequest(stream_credit=credit))

    # -- what workers say

    def _flight(self, session: WorkerSession, stream_id: int) -> PendingStream | None:
        """The output that a worker speaks of; None if it is not its to speak of."""
        stream = self.live.get(stream_id)
        if stream is None or stream.replica is None:
            return None
        return stream if stream.replica.replica.session is session else None

    def _on_part(self, session: WorkerSession, part: worker_pb2.StreamPart) -> None:
        stream = self._flight(session, part.item_id)
        if stream is None or not stream.reads_along:
            return
        now_ns = self._clock.now_ns()
        if stream.first_part_ns:
            stream.pool.metrics.next_part(now_ns - stream.last_part_ns)
        else:
            stream.first_part_ns = now_ns
            stream.pool.metrics.first_part(now_ns - stream.arrived_ns)
            forecast = self._pools[stream.pool.handle].forecast
            forecast.learn_first(now_ns, stream.units, now_ns - stream.dispatched_ns)
        stream.last_part_ns = now_ns
        stream.written += len(part.token_ids)
        stream.add_part(delta_of(part, stream.num_parts))
        stream.num_parts += 1

    def _on_capacity(self, session: WorkerSession, capacity: worker_pb2.Capacity) -> None:
        for replica in self._by_session.get(session, ()):
            replica.take_note(capacity)
            self._pools[replica.replica.pool.handle].note(replica)
            self._pump(replica.replica.pool.handle)

    def _on_result(self, session: WorkerSession, result: worker_pb2.BatchResult) -> None:
        stream = self._flight(session, result.batch_id)
        if stream is None:
            return
        item = next((i for i in result.items if i.item_id == stream.stream_id), None)
        if item is None or (item.status == _OK and not item.HasField("output")):
            self._retry(stream, "the worker's answer left it out")
        elif item.status == worker_pb2.ITEM_STATUS_CANCELLED:
            # Not by this gateway, which forgets what it cancels: the worker goes down.
            self._retry(stream, "its worker gave it up")
        elif item.status == _OK:
            self._answer(stream, item, result)
        elif item.status == worker_pb2.ITEM_STATUS_FAILED and stream.num_parts == 0:
            self._retry(stream, item.message)
        else:
            self._fail(stream, failure_of(stream, item))

    def _answer(
        self,
        stream: PendingStream,
        item: worker_pb2.ItemResult,
        result: worker_pb2.BatchResult,
    ) -> None:
        now_ns = self._clock.now_ns()
        replica = stream.replica
        assert replica is not None
        self._forget(stream)
        written = item.usage.output_units
        begun = stream.first_part_ns or stream.dispatched_ns + stream.predicted_first_ns
        writing_ns = max(0, now_ns - begun)
        planned_ns = self._learn_pace(stream, replica, written, writing_ns)
        replica.learn_gap(written, writing_ns)
        self._leave_replica(
            stream, now_ns, censored=item.output.finish_reason != _STOP, written=written
        )
        stream.pool.estimator.observe(stream.units, max(1, item.usage.prompt_units))
        if result.device_ns > 0:
            stream.pool.metrics.executed(result.device_ns, 0)
            if stream.pool.tap is not None:
                stream.pool.tap.executed(result.device_ns)
        used = min(max(0, item.usage.prompt_units) + max(0, written), _MOST_UNITS)
        self._scheduler.end_output(now_ns, stream.ticket, used, writing_ns, planned_ns)
        stream.answer(now_ns, response_of(stream, replica.replica, item, result, now_ns))
        self._pump(stream.pool.handle)

    def _learn_pace(
        self, stream: PendingStream, replica: StreamReplica, written: int, writing_ns: int
    ) -> int:
        """How long the writing was planned to take; 0 where its pace says nothing.

        Of an output whose first part was seen and whose reader kept up, and in company that is
        known: more neighbours are no congestion.
        """
        if not stream.first_part_ns or stream.lagged:
            return 0
        company = (stream.company + replica.company) // 2
        planned_ns = replica.planned_ns(written, company)
        replica.learn_company(written, writing_ns, company)
        return planned_ns

    def _on_busy(self, session: WorkerSession, busy: worker_pb2.BatchBusy) -> None:
        stream = self._flight(session, busy.batch_id)
        if stream is None or stream.replica is None:
            return
        # The worker says so again once a lane is freed.
        stream.replica.free_lanes = 0
        stream.replica.draining |= busy.draining
        self._pools[stream.pool.handle].note(stream.replica)
        stream.attempts -= 1
        self._queue_again(stream)

    def _retry(self, stream: PendingStream, why: str) -> None:
        """Begins it elsewhere; never once a part has reached its reader."""
        if stream.num_parts:
            self._fail(
                stream,
                errors.StreamBroken(
                    f"{why} after {stream.written} units had been delivered; it is not begun "
                    "anew by itself, since another text could follow",
                    metadata={"delivered_units": str(stream.written)},
                ),
            )
        elif stream.attempts >= self._max_attempts:
            self._fail(
                stream,
                errors.UpstreamFailure(
                    f"it was begun {stream.attempts} times without an answer: {why}"
                ),
            )
        else:
            self._queue_again(stream)

    def _queue_again(self, stream: PendingStream) -> None:
        if stream.replica is not None:
            self._pools[stream.pool.handle].release(stream, stream.replica)
        stream.replica = None
        if stream.trace is not None:
            stream.trace.end(self._clock.now_ns(), "given back")
        self._scheduler.return_output(stream.ticket)
        self._loop.call_soon(self._pump, stream.pool.handle)

    def _fail(self, stream: PendingStream, error: errors.RequestError) -> None:
        now_ns = self._clock.now_ns()
        self._forget(stream)
        self._leave_replica(stream, now_ns, censored=True)
        self._settle(now_ns, stream)
        stream.fail(now_ns, error)
        self._pump(stream.pool.handle)

    def _settle(self, now_ns: int, stream: PendingStream) -> None:
        """Pays for what was written of an output that ended without an answer, prompt included."""
        used = stream.units + stream.written if stream.written else 0
        self._scheduler.end_output(now_ns, stream.ticket, used)

    def _forget(self, stream: PendingStream) -> bool:
        """Takes a request out of the books; False if it was not in them any more."""
        self._deadlines.discard(stream.stream_id)
        return self.live.pop(stream.stream_id, None) is not None

    def _leave_replica(
        self, stream: PendingStream, now_ns: int, *, censored: bool, written: int | None = None
    ) -> None:
        replica, stream.replica = stream.replica, None
        if replica is None:
            return
        streams = self._pools[stream.pool.handle]
        streams.release(stream, replica)
        units = stream.written if written is None else written
        if units:
            streams.forecast.learn_end(now_ns, units, censored=censored)

    def _expire(self) -> None:
        now_ns = self._clock.now_ns()
        while (stream_id := self._deadlines.pop_due(now_ns)) is not None:
            stream = self.live[stream_id]
            where = "while it was queued" if stream.replica is None else "while it was written"
            self.end(stream, errors.DeadlineExpired(f"its deadline passed {where}"))
        following = self._deadlines.next_ns()
        if following is not None:
            self._timer.arm(following)


def _span(ns: float) -> int:
    """A time in a lane, as the core takes it."""
    return min(max(1, round(ns)), MOST_NS)
