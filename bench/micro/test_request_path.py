"""What does a request cost in the gateway, beside its transports?

Question:  time from a request's arrival at the request path to its answer.
Workload:  16 or 2 requests that arrive together, for a model whose worker answers at once over a
           session that is a pair of queues: no socket, no encoding. Each waits in a coroutine and
           a task of its own (`infer`), as on grpcio, or in neither (`begin`), as on native.
           Beside it 16 coroutines that do nothing. A round's time is that of all its requests.
Command:   python -m pytest bench/micro/test_request_path.py --benchmark-only -p no:xdist
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from pydantic import SecretStr
from pytest_benchmark.fixture import BenchmarkFixture

from headway.clock import SystemClock
from headway.gateway.services import Gateway
from headway.gateway.settings import GatewaySettings, StoreSettings
from headway.gateway.wiring import wire
from headway.rng import SeedTree
from headway.v1 import fleet_pb2, inference_pb2, types_pb2, worker_pb2

DEADLINE_S = 5.0


class Session:
    """A worker's end of a session: greets, and answers each batch at once."""

    def __init__(self, card: types_pb2.ModelCard) -> None:
        self._card = card
        self._answers: asyncio.Queue[worker_pb2.SessionResponse] = asyncio.Queue()
        self.read = self._answers.get

    async def write(self, request: worker_pb2.SessionRequest) -> None:
        answer = worker_pb2.SessionResponse()
        if request.WhichOneof("message") == "greeting":
            answer.greeting.worker_id = "w0"
            answer.greeting.models.add(handle=0, card=self._card)
        else:
            answer.result.batch_id = request.execute.batch_id
            answer.result.device_ns = 1
            for item in request.execute.items:
                done = answer.result.items.add()
                done.item_id, done.status = item.item_id, worker_pb2.ITEM_STATUS_OK
                done.output.text = "ok"
                done.usage.prompt_units = done.usage.rows = 1
        self._answers.put_nowait(answer)

    def cancel(self) -> None:
        """Nothing to end."""


class Channel:
    """Where sessions are opened."""

    def __init__(self, card: types_pb2.ModelCard) -> None:
        self._card = card

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def stream_stream(self, *_: object, **__: object) -> Callable[[], Session]:
        return lambda: Session(self._card)


class Bench:
    """A gateway with one worker, on an event loop of its own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.gateway = self._runner.run(self._start())
        self.request = inference_pb2.InferRequest(model="null")
        self.request.input.text = "a" * 64
        self._caller = self.gateway.directory.unlimited("bench")

    def close(self) -> None:
        self._runner.run(self.gateway.fleet.close())
        self._runner.close()

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._runner.run(work())

    async def infer(self, number: int) -> None:
        """Requests that each have a coroutine."""
        path = self.gateway.path
        waiting = [path.infer(self.request, self._caller, DEADLINE_S) for _ in range(number)]
        await asyncio.gather(*waiting)

    async def begin(self, number: int) -> None:
        """Requests that have none."""
        path, last = self.gateway.path, None
        for _ in range(number):
            last = path.begin(self.request, self._caller, DEADLINE_S)
        assert last is not None
        await last[0]

    @staticmethod
    async def _start() -> Gateway:
        store = StoreSettings(url=SecretStr("sqlite://"))
        settings = GatewaySettings(insecure_no_auth=True, store=store)
        card = types_pb2.ModelCard(
            model="null",
            version="1",
            unit_estimate=types_pb2.UnitEstimate(units_per_byte=0.25),
            batch_limits=types_pb2.BatchLimits(max_requests=64, max_rows=64, max_units=100_000),
        )
        loop = asyncio.get_running_loop()
        seeds = SeedTree(1)
        gateway = wire(settings, SystemClock(), seeds, loop, connect=lambda _: Channel(card))
        gateway.fleet.register(
            fleet_pb2.RegisterRequest(
                worker_id="w0",
                instance_id="1",
                address="w0:1",
                max_outstanding_batches=1,
                models=[card],
            )
        )
        (pool,) = gateway.catalog.pools.values()
        while not pool.num_ready:
            await asyncio.sleep(0)
        return gateway


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("number", [16, 2])
def test_infer(benchmark: BenchmarkFixture, bench: Bench, number: int) -> None:
    benchmark(lambda: bench.run(lambda: bench.infer(number)))


@pytest.mark.parametrize("number", [16, 2])
def test_begin(benchmark: BenchmarkFixture, bench: Bench, number: int) -> None:
    benchmark(lambda: bench.run(lambda: bench.begin(number)))


def test_null(benchmark: BenchmarkFixture, bench: Bench) -> None:
    async def nothing() -> None:
        async def at_once() -> None:
            return

        await asyncio.gather(*(at_once() for _ in range(16)))

    benchmark(lambda: bench.run(nothing))
