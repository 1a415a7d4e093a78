"""A device under a test's hand, and batches for it."""

import asyncio
from collections.abc import Sequence

from headway.runtimes.base import Execution, ItemOutput, Outcome
from headway.telemetry.worker import ModelMetrics
from headway.testing import ManualClock
from headway.v1 import types_pb2, worker_pb2
from headway.worker.batch import HostedModel, PendingBatch, Turn

MS = 1_000_000
OK = worker_pb2.ITEM_STATUS_OK
INVALID = worker_pb2.ITEM_STATUS_INVALID
FAILED = worker_pb2.ITEM_STATUS_FAILED
CANCELLED = worker_pb2.ITEM_STATUS_CANCELLED
EXPIRED = worker_pb2.ITEM_STATUS_EXPIRED


class HandRuntime:
    """Executes each batch until the test ends it; says what it was given and what was stopped."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []
        self.stopped = 0
        self.ends: list[asyncio.Future[Execution]] = []

    async def load(self) -> None: ...

    async def close(self) -> None: ...

    def card(self) -> types_pb2.ModelCard:
        return types_pb2.ModelCard(model="m", version="v1")

    def count_units(self, item: types_pb2.Input) -> int:
        return len(item.text)

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        self.given.append([item.text for item in items])
        end: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        try:
            return await end
        except asyncio.CancelledError:
            self.stopped += 1
            raise

    def finish(self, *outcomes: Outcome, device_ns: int = 7 * MS) -> None:
        """Ends the latest batch; without outcomes, each member gets its own text back."""
        answers = outcomes or tuple(echo(text) for text in self.given[-1])
        self.ends[-1].set_result(Execution(answers, device_ns))

    def fail(self, error: Exception) -> None:
        self.ends[-1].set_exception(error)


def echo(text: str) -> ItemOutput:
    return ItemOutput(types_pb2.Output(text=text), units=len(text), rows=1)


def hosted(runtime: HandRuntime) -> HostedModel:
    return HostedModel(0, "m/v1", runtime.card(), runtime, ModelMetrics())


def item(item_id: int, text: str = "", remaining_ms: int = 1_000) -> worker_pb2.BatchItem:
    return worker_pb2.BatchItem(
        item_id=item_id,
        remaining_ns=remaining_ms * MS,
        input=types_pb2.Input(text=text or f"text {item_id}"),
    )


class Asker:
    """A gateway: makes batches, and keeps what is answered to them and what it is called for."""

    def __init__(self, clock: ManualClock, model: HostedModel) -> None:
        self.clock = clock
        self.model = model
        self.answers: list[worker_pb2.SessionResponse] = []
        self.calls: list[int] = []
        self.turn = Turn(self.calls.append)

    def batch(
        self,
        batch_id: int,
        *items: worker_pb2.BatchItem,
        predicted_ms: int = 0,
        pipelined: bool = False,
    ) -> PendingBatch:
        message = worker_pb2.ExecuteBatch(
            batch_id=batch_id,
            items=items,
            predicted_device_ns=predicted_ms * MS,
            pipelined=pipelined,
        )
        now_ns = self.clock.now_ns()
        return PendingBatch(message, self.model, now_ns, self.answers.append, self.turn)

    @property
    def results(self) -> list[worker_pb2.BatchResult]:
        return [answer.result for answer in self.answers if answer.HasField("result")]

    @property
    def busy(self) -> list[worker_pb2.BatchBusy]:
        return [answer.busy for answer in self.answers if answer.HasField("busy")]


def statuses(result: worker_pb2.BatchResult) -> dict[int, int]:
    """Status by member; fails if one is answered twice."""
    ids = [each.item_id for each in result.items]
    assert len(set(ids)) == len(ids)
    return {each.item_id: each.status for each in result.items}
