"""The path of a request: checked, weighed, offered to the scheduler, awaited."""

import asyncio

from headway import errors
from headway._core import Scheduler, Verdict, hash_key
from headway.admission.refusal import to_error
from headway.clock import Clock
from headway.gateway.catalog import Catalog, Model, Pool
from headway.gateway.dispatch import Dispatcher
from headway.gateway.idempotency import IdempotencyWindow
from headway.gateway.pending import Pending
from headway.gateway.timer import DeadlineTimer
from headway.rpc.convert import deadline_ns, duration_ns
from headway.rpc.interceptors import Caller
from headway.telemetry.gateway import GatewayMetrics
from headway.v1 import inference_pb2, types_pb2

_STANDARD = types_pb2.PRIORITY_STANDARD
_INTERACTIVE = types_pb2.LANE_INTERACTIVE
_PRIORITIES = frozenset(types_pb2.Priority.values())
_LANES = frozenset(types_pb2.Lane.values())
_DAY_NS = 86_400 * 1_000_000_000
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
        metrics: GatewayMetrics,
        clock: Clock,
        live: dict[int, Pending],
        *,
        loop: asyncio.AbstractEventLoop,
        id_prefix: str,
        margin_ns: int,
        learning_until_ns: int,
    ) -> None:
        self._scheduler = scheduler
        self._catalog = catalog
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._clock = clock
        self._live = live
        self._loop = loop
        self._id_prefix = id_prefix
        self._margin_ns = margin_ns
        self._learning_until_ns = learning_until_ns
        self._timer = DeadlineTimer(clock.now_ns, loop.call_later, self._expire)
        dispatcher.rearm = self._arm_next
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

    def submit(self, request: InferRequest, caller: Caller, remaining_s: float | None) -> Pending:
        """Admits a request; its future ends with the answer or the error.

        Raises:
          RequestError: refused.
        """
        try:
            return self._submit(request, caller, remaining_s)
        except errors.RequestError as error:
            self._metrics.refused_unmatched(error.reason)
            raise

    def cancel(self, pending: Pending) -> None:
        """Ends a request whose caller left; its place is free at once, its worker is told."""
        self._end_early(pending, errors.Cancelled("the caller left"))
        if pending.future.done() and not pending.future.cancelled():
            pending.future.exception()  # nobody is left to read it

    async def drain(self) -> None:
        """Refuses new requests from here on, and returns when the last live one has ended."""
        self.draining = True
        while self._live:
            pending = next(iter(self._live.values()))
            await asyncio.wait((pending.future,))

    def abandon_all(self) -> None:
        """Ends every live request with an error: the process goes down."""
        for pending in list(self._live.values()):
            self._end_early(pending, errors.Draining("this gateway went down before the answer"))

    def _end_early(self, pending: Pending, error: errors.RequestError) -> None:
        if self._live.pop(pending.ticket, None) is None:
            return
        now_ns = self._clock.now_ns()
        pending.fail(now_ns, error)
        ended = self._scheduler.cancel(now_ns, pending.ticket)
        if ended is not None and ended.batch:
            self._dispatcher.stop_members((ended,))

    def _submit(self, request: InferRequest, caller: Caller, remaining_s: float | None) -> Pending:
        now_ns = self._clock.now_ns()
        if self.draining:
            raise errors.Draining(
                "this gateway is shutting down; retry on another", retry_after_ns=_DRAIN_RETRY_NS
            )
        _check(request)
        model, pool = self._catalog.resolve(
            request.model, request.version, still_learning=now_ns < self._learning_until_ns
        )
        units, rows = pool.estimator.estimate(request.input)
        deadline = self._deadline_ns(now_ns, request, model, remaining_s)
        request_id = request.request_id or self._next_id()
        key = request.session_key or request_id
        ticket = self._scheduler.offer(
            now_ns,
            caller.handle,
            model.handle,
            pool.handle if request.version else -1,
            hash_key(key.encode()),
            units,
            rows,
            deadline,
            request.priority or _STANDARD,
            request.lane or _INTERACTIVE,
            request.weight if request.HasField("weight") else 1.0,
        )
        if isinstance(ticket, Verdict):
            raise to_error(ticket, model=model.name, tenant=caller.tenant)
        return self._admitted(ticket, request, request_id, now_ns, deadline)

    def _admitted(
        self, ticket: int, request: InferRequest, request_id: str, now_ns: int, deadline: int
    ) -> Pending:
        pool: Pool = self._catalog.pools[self._scheduler.pool_of(ticket)]
        pending = Pending(
            ticket,
            request,
            request_id,
            pool,
            now_ns,
            deadline,
            self._loop.create_future(),
        )
        self._live[ticket] = pending
        self._timer.arm(deadline)
        self._dispatcher.kick(pool.handle)
        return pending

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
    if len(request.session_key) > _MAX_KEY_BYTES:
        raise errors.InvalidRequest(
            f"session_key has {len(request.session_key)} characters; at most {_MAX_KEY_BYTES}",
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
