"""The path of a request: checked, weighed, offered to the scheduler, awaited."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial

from headway import errors
from headway._core import Admission, RefusalReason, Scheduler, Verdict, hash_key
from headway.admission.refusal import displaced, to_error
from headway.admission.terms import check_key, check_terms
from headway.clock import Clock
from headway.gateway.catalog import Catalog, Model
from headway.gateway.decisions import DecisionLog, Record
from headway.gateway.dispatch import Dispatcher
from headway.gateway.idempotency import IdempotencyWindow
from headway.gateway.no_capacity import no_capacity
from headway.gateway.pending import Pending
from headway.gateway.recorder import TraceRecorder
from headway.gateway.stream_request import LiveRequest, PendingStream
from headway.gateway.stream_targets import refuse_writing
from headway.gateway.streaming import StreamDispatcher
from headway.gateway.timer import DeadlineTimer
from headway.rpc.convert import deadline_ns, duration_ns
from headway.rpc.interceptors import Caller
from headway.telemetry.gateway import GatewayMetrics
from headway.v1 import inference_pb2, types_pb2

_STANDARD = types_pb2.PRIORITY_STANDARD
_INTERACTIVE = types_pb2.LANE_INTERACTIVE
_PRIORITIES = frozenset(types_pb2.Priority.values())
_LANES = frozenset(types_pb2.Lane.values())
_NS_PER_S = 1_000_000_000
_DAY_NS = 86_400 * _NS_PER_S
_MAX_WEIGHT = 1000.0
_MAX_KEY_BYTES = 256
_MAX_ID_LENGTH = 128
_DRAIN_RETRY_NS = 1_000_000_000

InferRequest = inference_pb2.InferRequest
InferResponse = inference_pb2.InferResponse


class RequestPath:
    """Takes a request from its arrival to its answer.

    Every request that gets a ticket is in `live` until it ends, and ends exactly once: by an
    answer, an error, its deadline, or its caller's leaving.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        catalog: Catalog,
        dispatcher: Dispatcher,
        streams: StreamDispatcher,
        metrics: GatewayMetrics,
        clock: Clock,
        live: dict[int, Pending],
        decisions: DecisionLog,
        recorder: TraceRecorder,
        *,
        loop: asyncio.AbstractEventLoop,
        id_prefix: str,
        margin_ns: int,
        learning_until_ns: int,
        renew: Callable[[Caller], int],
    ) -> None:
        self._renew = renew
        self._scheduler = scheduler
        self._catalog = catalog
        self._dispatcher = dispatcher
        self._streams = streams
        self._metrics = metrics
        self._clock = clock
        self._live = live
        self._decisions = decisions
        self._recorder = recorder
        self._loop = loop
        self._id_prefix = id_prefix
        self._margin_ns = margin_ns
        self._learning_until_ns = learning_until_ns
        self._timer = DeadlineTimer(clock.now_ns, loop.call_later, self._expire)
        dispatcher.rearm = self._arm_next
        dispatcher.look_at = self._timer.arm
        self._window = IdempotencyWindow(clock.now_ns)
        self._num_arrived = 0
        self.draining = False

    async def infer(
        self, request: InferRequest, caller: Caller, remaining_s: float | None
    ) -> InferResponse:
        """One request, to its end.

        Args:
          remaining_s: time left on the call; None, or beyond a day, for none given.

        Raises:
          RequestError: refused, or ended without an answer.
        """
        if request.idempotency_key:
            return await self._window.once(
                request,
                caller,
                remaining_s,
                lambda: self.submit(request, caller, remaining_s),
                self.cancel,
            )
        pending = self.submit(request, caller, remaining_s)
        try:
            return await pending.future
        except asyncio.CancelledError:
            self.cancel(pending)
            raise

    def begin(
        self, request: InferRequest, caller: Caller, remaining_s: float | None
    ) -> "tuple[asyncio.Future[InferResponse], Callable[[], None]] | None":
        """As `infer`, without a coroutine: the answer's future, and what to do if it is cancelled.

        None for a request that may have to wait for another's answer: nothing has happened then.

        Raises:
          RequestError: refused.
        """
        if request.idempotency_key:
            return None
        pending = self.submit(request, caller, remaining_s)
        return pending.future, partial(self.cancel, pending)

    async def stream(
        self, request: InferRequest, caller: Caller, remaining_s: float | None
    ) -> AsyncGenerator[inference_pb2.InferStreamResponse]:
        """One request, its output as it is written, then the answer.

        Raises:
          RequestError: refused, or ended without an answer.
        """
        pending = self.submit(request, caller, remaining_s, reads_along=True)
        try:
            if isinstance(pending, PendingStream):
                while (part := await self._streams.parts(pending)) is not None:
                    yield inference_pb2.InferStreamResponse(delta=part)
            yield inference_pb2.InferStreamResponse(final=await pending.future)
        finally:
            self.cancel(pending)

    def submit(
        self,
        request: InferRequest,
        caller: Caller,
        remaining_s: float | None,
        *,
        reads_along: bool = False,
    ) -> LiveRequest:
        """Admits a request; its future ends with the answer or the error.

        Raises:
          RequestError: refused.
        """
        now_ns = self._clock.now_ns()
        request_id = request.request_id or self._next_id()
        record = Record(request_id[:_MAX_ID_LENGTH], caller, now_ns)
        self._decisions.add(record)
        self._recorder.add(record)
        try:
            return self._submit(now_ns, request, record, remaining_s, reads_along)
        except errors.RequestError as error:
            error.metadata.setdefault("request_id", record.request_id)
            record.fail(now_ns, error)
            self._metrics.refused_unmatched(error.reason)
            raise

    def cancel(self, pending: LiveRequest) -> None:
        """Ends a request whose caller left; its place is free at once, its worker is told."""
        if isinstance(pending, PendingStream):
            self._streams.end(pending, errors.Cancelled("the caller left"))
            return
        self._end_early(pending, errors.Cancelled("the caller left"))
        if pending.future.done() and not pending.future.cancelled():
            pending.future.exception()  # nobody is left to read it

    async def drain(self) -> None:
        """Refuses new requests from here on, and returns when the last live one has ended."""
        self.draining = True
        while self._live or self._streams.live:
            last: Iterable[LiveRequest] = self._live.values() or self._streams.live.values()
            await asyncio.wait((next(iter(last)).future,))

    def abandon_all(self) -> None:
        """Ends every live request with an error: the process goes down."""
        down = errors.Draining("this gateway went down before the answer")
        for pending in list(self._live.values()):
            self._end_early(pending, down)
        for stream in list(self._streams.live.values()):
            self._streams.end(stream, down)

    def _end_early(self, pending: Pending, error: errors.RequestError) -> None:
        if self._live.pop(pending.ticket, None) is None:
            return
        now_ns = self._clock.now_ns()
        pending.fail(now_ns, error)
        ended = self._scheduler.cancel(now_ns, pending.ticket)
        if ended is not None and ended.batch:
            self._dispatcher.stop_members((ended,))

    def _submit(
        self,
        now_ns: int,
        request: InferRequest,
        record: Record,
        remaining_s: float | None,
        reads_along: bool,
    ) -> LiveRequest:
        if self.draining:
            raise errors.Draining(
                "this gateway is shutting down; retry on another", retry_after_ns=_DRAIN_RETRY_NS
            )
        _check(request)
        caller = record.caller
        check_key(caller, now_ns)
        model, pool = self._catalog.resolve(
            request.model, request.version, still_learning=now_ns < self._learning_until_ns
        )
        record.model, record.pinned, record.shares = model, bool(request.version), model.shares
        terms = caller.terms
        record.priority = (
            check_terms(caller, model.name, request.priority)
            if terms.restricted
            else request.priority or _STANDARD
        )
        record.deadline_ns = deadline = self._deadline_ns(now_ns, request, model, remaining_s)
        key = request.session_key or record.request_id
        record.key_hash = key_hash = hash_key(key.encode())
        record.lane = lane = request.lane or _INTERACTIVE
        record.weight = weight = request.weight if request.HasField("weight") else 1.0
        if pool.card.generative:
            try:
                return self._streams.submit(request, record, model, reads_along=reads_along)
            except errors.RequestError as refused:
                version = "" if record.pool is None else record.pool.version
                self._metrics.refused(model.name, version, record.priority, refused.reason)
                raise
        refuse_writing(request, pool.name)
        record.units, record.rows = units, rows = pool.estimator.estimate(request.input)
        pinned = pool.handle if request.version else -1
        asked = (model.handle, pinned, key_hash, units, rows, deadline)
        wished = (record.priority, lane, weight)
        try:
            decision = self._scheduler.admit(now_ns, caller.handle, *asked, *wished)
        except KeyError:
            # The scheduler forgets tenants that were idle; at most once in a while, so no loop.
            decision = self._scheduler.admit(now_ns, self._renew(caller), *asked, *wished)
        record.inflight = len(self._live) + 1
        record.reading = decision.reading
        if isinstance(decision, Verdict):
            record.pool = self._catalog.pools.get(decision.pool)
            limit = 0 if record.pool is None else record.pool.card.batch_limits.max_rows
            by_rows = (decision.needed, decision.available) == (rows, limit)
            error = to_error(decision, model=model.name, tenant=caller.tenant, by_rows=by_rows)
            if decision.reason == RefusalReason.NO_CAPACITY and record.pool is not None:
                error = no_capacity(
                    record.pool,
                    pinned=record.pinned,
                    retry_after_ns=decision.retry_after_ns,
                    metadata=error.metadata,
                )
            tap = None if record.pool is None or request.version else record.pool.tap
            if tap is not None:
                tap.refused(error.reason)
            version = "" if record.pool is None else record.pool.version
            self._metrics.refused(model.name, version, record.priority, error.reason)
            raise error
        return self._admitted(now_ns, decision, request, record)

    def _admitted(
        self, now_ns: int, admission: Admission, request: InferRequest, record: Record
    ) -> Pending:
        ticket, handle = admission.ticket, admission.pool
        record.pool = pool = self._catalog.pools[handle]
        record.admitted = True
        deadline = record.deadline_ns
        if left := admission.displaced:
            self._displace(now_ns, left)
        pending = Pending(
            ticket,
            request,
            record.request_id,
            pool,
            record.arrived_ns,
            deadline,
            self._loop.create_future(),
            record,
        )
        # What names its version says nothing of the split's two groups of users.
        if pool.tap is not None and not request.version:
            pending.tap = pool.tap
        self._live[ticket] = pending
        self._timer.arm(deadline)
        self._dispatcher.kick(handle)
        mirror = pool.mirror
        if mirror is not None and not request.version and mirror.wants(record.request_id):
            remaining_s = (deadline - record.arrived_ns) / _NS_PER_S
            self._loop.call_soon(mirror.copy, pending, remaining_s)
        return pending

    def _displace(self, now_ns: int, tickets: Iterable[int]) -> None:
        """Answers requests that had to leave the queue for a better one."""
        for ticket in tickets:
            pending = self._live.pop(ticket, None)
            if pending is not None:
                pending.fail(now_ns, displaced(pending.pool.name))

    def _deadline_ns(
        self, now_ns: int, request: InferRequest, model: Model, remaining_s: float | None
    ) -> int:
        deadline = deadline_ns(now_ns, remaining_s, _DAY_NS)
        if deadline is None:
            deadline = now_ns + model.default_deadline_ns
        else:
            deadline -= self._margin_ns
        if request.HasField("slo"):
            slo_ns = duration_ns(request.slo)
            if slo_ns <= 0:
                raise errors.InvalidRequest(
                    f"slo is {slo_ns / 1e9:g} s; it must be above 0", field="slo"
                )
            deadline = min(deadline, now_ns + slo_ns)
        return deadline

    def configure(self, *, margin_ns: int) -> None:
        """Takes over another transport margin."""
        self._margin_ns = margin_ns

    def _next_id(self) -> str:
        self._num_arrived += 1
        return f"{self._id_prefix}-{self._num_arrived:x}"

    def _expire(self) -> None:
        """Answers every request whose deadline has come, queued or executing."""
        now_ns = self._clock.now_ns()
        ended = self._scheduler.expire(now_ns)
        for end in ended:
            pending = self._live.pop(end.ticket, None)
            if pending is not None:
                where = "while it ran" if end.batch else "while it was queued"
                pending.fail(now_ns, errors.DeadlineExpired(f"its deadline passed {where}"))
        self._dispatcher.stop_members(ended)
        for pool in self._catalog.pools:
            self._dispatcher.kick(pool)
        self._arm_next()

    def _arm_next(self) -> None:
        following = self._scheduler.next_event_ns()
        if following is not None:
            self._timer.arm(following)


def _check(request: InferRequest) -> None:
    """Raises InvalidRequest for fields that no model could make sense of."""
    if request.HasField("weight") and not 0 < request.weight <= _MAX_WEIGHT:
        raise errors.InvalidRequest(
            f"weight is {request.weight:g}; it must be above 0 and at most {_MAX_WEIGHT:g}",
            field="weight",
        )
    if request.priority not in _PRIORITIES:
        raise errors.InvalidRequest(
            f"priority is {request.priority}; use a PRIORITY_* value", field="priority"
        )
    if request.lane not in _LANES:
        raise errors.InvalidRequest(f"lane is {request.lane}; use a LANE_* value", field="lane")
    num_bytes = len(request.session_key.encode())
    if num_bytes > _MAX_KEY_BYTES:
        raise errors.InvalidRequest(
            f"session_key has {num_bytes} bytes; at most {_MAX_KEY_BYTES}",
            field="session_key",
        )
    request_id = request.request_id
    if request_id and not (
        len(request_id) <= _MAX_ID_LENGTH and request_id.isascii() and request_id.isprintable()
    ):
        raise errors.InvalidRequest(
            f"request_id must be at most {_MAX_ID_LENGTH} printable ASCII characters",
            field="request_id",
        )
    if request.HasField("max_output_units") and request.max_output_units < 1:
        raise errors.InvalidRequest(
            f"max_output_units is {request.max_output_units}; it must be at least 1",
            field="max_output_units",
        )
