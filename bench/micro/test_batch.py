"""How long does it take to form a batch, and to take its result?

Question:  the cost of `form_batch` for 32 members and of `complete`, as the queue grows.
Workload:  one call a round; the queue is filled up again to 10, 1,000 or 100,000 between rounds
           (with 10, the batch has 10 members) by requests that come one and a half times as fast
           as the device can serve them: a batch also takes in what came since the last. Beside
           it the same in plain Python, and a call that does nothing.
Command:   python -m pytest bench/micro/test_batch.py --benchmark-only
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import DEVICE_NS, CoreFleet, PlainFleet
from headway._core import Batch, BatchOutcome

ROUNDS = 500
QUEUED = (10, 1_000, 100_000)


@pytest.mark.parametrize("queued", QUEUED)
class TestFormBatch:
    """One batch of up to 32."""

    def test_core(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"form_batch, {queued} queued"
        fleet = CoreFleet(queued).settle()
        formed: list[Batch | None] = []

        def setup() -> None:
            while formed:
                fleet.end(formed.pop())

        def target() -> None:
            formed.append(fleet.form())

        benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)

    def test_plain_python(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"form_batch, {queued} queued"
        fleet = PlainFleet(queued)
        formed: list[int | None] = []

        def setup() -> None:
            while formed:
                batch = formed.pop()
                assert batch is not None
                count = len(fleet.plain.batches[batch][2])
                fleet.plain.complete(fleet.now_ns, batch)
                fleet.fill(count)

        def target() -> None:
            formed.append(fleet.plain.form_batch(fleet.now_ns))

        benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)

    def test_null_call(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"form_batch, {queued} queued"
        fleet = CoreFleet(10)
        benchmark.pedantic(fleet.core.num_executing, rounds=ROUNDS, warmup_rounds=5)


@pytest.mark.parametrize("queued", QUEUED)
class TestComplete:
    """The end of one batch of up to 32."""

    def test_core(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"complete, {queued} queued"
        fleet = CoreFleet(queued).settle()

        def setup() -> tuple[tuple[int, int], dict[str, object]]:
            batch = fleet.form()
            assert batch is not None
            fleet.fill(len(batch))
            return (batch.id, batch.units), {}

        def target(batch: int, units: int) -> None:
            fleet.core.complete(fleet.now_ns, batch, BatchOutcome.OK, DEVICE_NS, units)

        benchmark.pedantic(target, setup=setup, rounds=ROUNDS, warmup_rounds=5)

    def test_plain_python(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"complete, {queued} queued"
        fleet = PlainFleet(queued)

        def setup() -> tuple[tuple[int, int], dict[str, object]]:
            batch = fleet.plain.form_batch(fleet.now_ns)
            assert batch is not None
            fleet.fill(len(fleet.plain.batches[batch][2]))
            return (fleet.now_ns, batch), {}

        benchmark.pedantic(fleet.plain.complete, setup=setup, rounds=ROUNDS, warmup_rounds=5)

    def test_null_call(self, benchmark: BenchmarkFixture, queued: int) -> None:
        benchmark.group = f"complete, {queued} queued"
        fleet = CoreFleet(10)
        benchmark.pedantic(fleet.core.num_executing, rounds=ROUNDS, warmup_rounds=5)
