"""One batch in the worker's hands, and the one answer to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.errors import RuntimeInputError
from headway.runtimes.base import ItemOutput, Outcome, Runtime, Tampering
from headway.telemetry.worker import NUM_STATUSES, ModelMetrics
from headway.v1 import types_pb2, worker_pb2

OK = worker_pb2.ITEM_STATUS_OK
INVALID = worker_pb2.ITEM_STATUS_INVALID
FAILED = worker_pb2.ITEM_STATUS_FAILED
CANCELLED = worker_pb2.ITEM_STATUS_CANCELLED
EXPIRED = worker_pb2.ITEM_STATUS_EXPIRED


@dataclass(frozen=True, slots=True)
class HostedModel:
    """A model version that this worker serves.

    Attributes:
      handle: names it on sessions; its place in the worker's list.
      label: model/version, as the health service and logs have it.
      card: what gateways are told of it.
    """

    handle: int
    label: str
    card: types_pb2.ModelCard
    runtime: Runtime
    metrics: ModelMetrics

    async def close(self) -> None:
        """Frees what the runtime holds."""
        await self.runtime.close()


@dataclass(frozen=True, slots=True)
class Timings:
    """Times of one execution, in nanoseconds; see `BatchResult`."""

    device_ns: int = 0
    wall_ns: int = 0
    idle_ns: int = 0


class Turn:
    """What one asker, a model of a gateway's session, has had of a device; see `Turns`.

    Attributes:
      call: says that one batch of it would be taken now, and begun after so long (ns).
      finish_ns: where its batches so far end, in the device's virtual time.
      told_at: when it was told to come back, an instant; 0 for never.
    """

    __slots__ = ("call", "finish_ns", "told_at")

    def __init__(self, call: Callable[[int], None] = lambda _: None) -> None:
        self.call = call
        self.finish_ns = 0
        self.told_at = 0


class PendingBatch:
    """A batch from receipt to answer. It is answered exactly once, or abandoned."""

    __slots__ = (
        "_cancelled",
        "_deliver",
        "_units",
        "executing",
        "message",
        "model",
        "received_at",
        "turn",
    )

    def __init__(
        self,
        message: worker_pb2.ExecuteBatch,
        model: HostedModel,
        received_at: int,
        deliver: Callable[[worker_pb2.SessionResponse], None],
        turn: Turn | None = None,
    ) -> None:
        """Takes a batch in.

        Args:
          message: what was asked.
          model: which executes it.
          received_at: in ns.
          deliver: called once, with the result or the busy answer.
          turn: of whoever asked; None: it stands for itself.
        """
        self.message = message
        self.model = model
        self.received_at = received_at
        self.turn = Turn() if turn is None else turn
        self.executing: dict[int, types_pb2.Input] = {}
        self._cancelled: set[int] = set()
        self._units: int | None = None
        self._deliver: Callable[[worker_pb2.SessionResponse], None] | None = deliver

    def cancel(self, item_ids: Sequence[int]) -> None:
        """Marks members as cancelled; none given means all."""
        members = (item.item_id for item in self.message.items)
        self._cancelled.update(item_ids or members)

    def abandon(self) -> None:
        """Cancels all members and forgets who asked: nobody is there to be answered."""
        self.cancel(())
        self._deliver = None

    def all_cancelled(self) -> bool:
        """True if nobody waits for any member that is executing, or would be."""
        waiting = self.executing or {item.item_id: item.input for item in self.message.items}
        return waiting.keys() <= self._cancelled

    def begin(self, now_ns: int) -> list[types_pb2.Input]:
        """Inputs of the members to execute now: neither cancelled nor expired."""
        time_left_above = now_ns - self.received_at
        cancelled = self._cancelled
        self.executing = {
            item.item_id: item.input
            for item in self.message.items
            if item.remaining_ns > time_left_above and item.item_id not in cancelled
        }
        return list(self.executing.values())

    def count_units(self) -> int:
        """Work units of its members, as the runtime counts them; 0 for those it does not take."""
        if self._units is None:
            self._units = sum(_units(self.model.runtime, item.input) for item in self.message.items)
        return self._units

    def answer_busy(self, retry_after_ns: int, draining: bool) -> None:
        """Says that it was not begun."""
        busy = worker_pb2.BatchBusy(
            batch_id=self.message.batch_id, retry_after_ns=retry_after_ns, draining=draining
        )
        self.model.metrics.busy += 1
        self._answer(worker_pb2.SessionResponse(busy=busy))

    def answer(
        self, outcomes: Sequence[Outcome], timings: Timings, tampering: Tampering | None = None
    ) -> None:
        """Says how each member ended.

        Args:
          outcomes: of the members in `executing`, in order; empty if the execution was stopped.
          timings: of the execution.
          tampering: what a drill does to the answer.
        """
        response = worker_pb2.SessionResponse()
        result = response.result
        result.batch_id = self.message.batch_id
        result.device_ns = timings.device_ns
        result.wall_ns = timings.wall_ns
        result.idle_ns = timings.idle_ns
        by_status, units = self._fill(result, outcomes)
        result.units = units
        self.model.metrics.answered(by_status, units, timings.device_ns, timings.wall_ns)
        if tampering is not None:
            _tamper(result, tampering)
        self._answer(response)

    def _fill(
        self, result: worker_pb2.BatchResult, outcomes: Sequence[Outcome]
    ) -> tuple[list[int], int]:
        """Adds every member once, in the batch's order; (members by status, units executed)."""
        by_status, units = [0] * NUM_STATUSES, 0
        add = result.items.add
        by_id = dict(zip(self.executing, outcomes, strict=False))
        for item in self.message.items:
            item_id = item.item_id
            outcome = by_id.get(item_id)
            if isinstance(outcome, ItemOutput):
                units += outcome.units
            status = self._status(item_id, outcome)
            by_status[status] += 1
            if status == OK:
                assert isinstance(outcome, ItemOutput)
                # Field by field: arguments by name take twice as long.
                answered = add()
                answered.item_id, answered.status = item_id, status
                answered.output.CopyFrom(outcome.output)
                usage = answered.usage
                usage.prompt_units, usage.rows = outcome.units, outcome.rows
                usage.truncated_rows = outcome.truncated_rows
            elif status in (INVALID, FAILED):
                add(item_id=item_id, status=status, message=str(outcome))
            else:
                add(item_id=item_id, status=status)
        return by_status, units

    def _status(self, item_id: int, outcome: Outcome | None) -> worker_pb2.ItemStatus:
        if item_id in self._cancelled:
            return CANCELLED
        if outcome is None:
            # Without an outcome though it was executing: the execution was stopped.
            return CANCELLED if item_id in self.executing else EXPIRED
        if isinstance(outcome, ItemOutput):
            return OK
        return INVALID if isinstance(outcome, RuntimeInputError) else FAILED

    def _answer(self, response: worker_pb2.SessionResponse) -> None:
        deliver, self._deliver = self._deliver, None
        if deliver is not None:
            deliver(response)


def _units(runtime: Runtime, item: types_pb2.Input) -> int:
    try:
        return runtime.count_units(item)
    except RuntimeInputError:
        return 0


def _tamper(result: worker_pb2.BatchResult, tampering: Tampering) -> None:
    if tampering is Tampering.MISSING_MEMBER:
        del result.items[0]
    else:
        extra = result.items.add()
        extra.CopyFrom(result.items[0])
        extra.item_id = 2**63 + result.batch_id
