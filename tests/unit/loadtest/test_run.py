import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from google.protobuf.duration_pb2 import Duration

from headway.client import GatewayUnreachable
from headway.clock import Clock
from headway.errors import DeadlineExpired, Overloaded
from headway.loadtest import DeadlineMix, LoadPlan, LoadReport, LoadRun, Workload, report
from headway.loadtest.workload import FixedSize
from headway.rng import SeedTree
from headway.testing import ManualClock
from headway.v1 import inference_pb2, types_pb2

MS = 1_000_000
SECOND = 1_000_000_000
ONE_SECOND = DeadlineMix((SECOND,), (1.0,))


def answer(batch_size: int = 4) -> inference_pb2.InferResponse:
    return inference_pb2.InferResponse(
        version="v1",
        replica="replica-a",
        attempts=1,
        usage=types_pb2.Usage(prompt_units=10, rows=1),
        timings=inference_pb2.Timings(
            queued=Duration(nanos=5 * MS), device=Duration(nanos=20 * MS)
        ),
        batch=inference_pb2.BatchInfo(size=batch_size, reason="BATCH_REASON_QUANTUM"),
    )


@dataclass
class Gateway:
    """Answers after what `delay_ns` says of the time since its start; -1 refuses."""

    clock: Clock
    delay_ns: Callable[[int], int]
    received: int = 0

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        self.received += 1
        delay_ns = self.delay_ns(self.clock.now_ns())
        if delay_ns < 0:
            raise Overloaded("no", retry_after_ns=100 * MS)
        assert timeout_s is not None
        if delay_ns > timeout_s * SECOND:
            await self.clock.sleep(round(timeout_s * SECOND))
            raise DeadlineExpired("late")
        await self.clock.sleep(delay_ns)
        return answer()


async def measure(plan: LoadPlan, delay_ns: Callable[[int], int]) -> tuple[LoadReport, Gateway]:
    clock = ManualClock()
    gateway = Gateway(clock, delay_ns)
    seeds = SeedTree(5)
    workload = Workload(
        inference_pb2.InferRequest(), size=FixedSize(8), deadlines=plan.deadlines, seeds=seeds
    )
    run = LoadRun(plan, workload, [gateway], clock=clock, arrivals_rng=seeds.stream("arrivals"))
    async with clock.auto_jump():
        await run.run()
    return report(run), gateway


async def test_open_loop_counts_everything_it_offers() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=2, rate_per_s=50, arrivals="constant")
    result, gateway = await measure(plan, lambda _: 30 * MS)
    assert (result.offered, result.ok, result.in_time, gateway.received) == (99, 99, 99, 99)
    assert result.latency_ms["p50"] == pytest.approx(30, rel=1 / 64)
    assert result.latency_ms["max"] == pytest.approx(30, rel=1 / 64)
    assert (result.goodput_ratio, result.throughput_per_s) == (1.0, 49.5)
    assert result.errors == {}
    assert result.versions == {"v1": 99}
    assert result.replicas == {"replica-a": 99}
    assert result.batch_reasons == {"QUANTUM": 99}
    assert result.mean_batch == pytest.approx(4)
    assert result.units_per_s == 495
    assert result.queued_ms["p99"] == pytest.approx(5, rel=1 / 64)
    assert result.device_ms["p50"] == pytest.approx(20, rel=1 / 64)


async def test_a_stall_is_measured_in_full() -> None:
    # The gateway freezes for a second from t = 1 s. A tool that waits for answers before it sends
    # would see one slow request; ten a second were due.
    plan = LoadPlan(
        DeadlineMix((5 * SECOND,), (1.0,)), seconds=3, rate_per_s=10, arrivals="constant"
    )
    result, _ = await measure(
        plan, lambda now: max(2 * SECOND - now, 0) + MS if now >= SECOND else MS
    )
    assert result.latency_ms["max"] == pytest.approx(1001, rel=1 / 64)
    # 29 were due; the 10 of the stall waited 1001, 901, ..., 101 ms.
    assert result.latency_ms["p90"] >= 700
    assert result.ok == 29


async def test_a_client_that_is_behind_adds_its_own_lateness() -> None:
    clock = ManualClock()

    class Oversleeping:
        def now_ns(self) -> int:
            return clock.now_ns()

        async def sleep(self, duration_ns: int) -> None:
            await clock.sleep(duration_ns + 40 * MS if duration_ns > 0 else 0)

    seeds = SeedTree(5)
    workload = Workload(
        inference_pb2.InferRequest(), size=FixedSize(8), deadlines=ONE_SECOND, seeds=seeds
    )
    plan = LoadPlan(ONE_SECOND, seconds=1, rate_per_s=10, arrivals="constant")
    gateway = Gateway(clock, lambda _: 10 * MS)
    run = LoadRun(
        plan, workload, [gateway], clock=Oversleeping(), arrivals_rng=seeds.stream("arrivals")
    )
    async with clock.auto_jump():
        await run.run()
    assert report(run).latency_ms["p50"] == pytest.approx(50, rel=1 / 64)


async def test_poisson_arrivals_have_the_rate_asked_for() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=40, rate_per_s=50)
    result, _ = await measure(plan, lambda _: MS)
    # Four standard deviations of a count of 2000.
    assert result.offered == pytest.approx(2000, abs=179)


async def test_what_goes_beyond_the_bound_is_counted_and_not_sent() -> None:
    plan = LoadPlan(
        DeadlineMix((30 * SECOND,), (1.0,)),
        seconds=1,
        rate_per_s=100,
        arrivals="constant",
        max_in_flight=7,
    )
    result, gateway = await measure(plan, lambda _: 10 * SECOND)
    assert (result.offered, result.dropped_by_client, gateway.received) == (99, 92, 7)
    assert (result.ok, result.in_time) == (7, 7)
    assert result.goodput_ratio == pytest.approx(7 / 99)


async def test_warm_up_is_sent_and_not_counted() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=1, warmup_seconds=2, rate_per_s=10, arrivals="constant")
    result, gateway = await measure(plan, lambda _: MS)
    assert (gateway.received, result.offered, result.seconds) == (29, 10, 1.0)


async def test_errors_are_counted_by_reason_and_lower_goodput() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=2, rate_per_s=10, arrivals="constant")

    def delay_ns(now_ns: int) -> int:
        if now_ns < SECOND // 2:
            return -1
        return 2 * SECOND if now_ns < SECOND else MS

    result, _ = await measure(plan, delay_ns)
    assert result.errors == {"DEADLINE_EXPIRED": 5, "OVERLOADED": 4}
    assert (result.offered, result.ok) == (19, 10)
    assert result.goodput_ratio == pytest.approx(10 / 19)


async def test_goodput_is_told_by_deadline_class() -> None:
    mix = DeadlineMix((20 * MS, 500 * MS), (0.5, 0.5))
    plan = LoadPlan(mix, seconds=10, rate_per_s=20, arrivals="constant")
    result, _ = await measure(plan, lambda _: 100 * MS)
    urgent, relaxed = result.deadlines
    assert (urgent.deadline_ms, relaxed.deadline_ms) == (20, 500)
    assert urgent.in_time == 0
    assert relaxed.in_time == relaxed.offered == result.in_time
    assert urgent.offered + relaxed.offered == 199


async def test_closed_loop_keeps_each_client_busy() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=1, clients=3)
    result, _ = await measure(plan, lambda _: 100 * MS)
    assert (result.offered, result.ok) == (30, 30)


async def test_a_refused_closed_loop_client_waits_as_told() -> None:
    plan = LoadPlan(ONE_SECOND, seconds=1, clients=2)
    result, gateway = await measure(plan, lambda _: -1)
    assert gateway.received == 20
    assert result.errors == {"OVERLOADED": 20}


async def test_an_unreachable_gateway_is_a_reason_like_another() -> None:
    clock = ManualClock()

    class Nobody:
        async def infer(
            self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
        ) -> inference_pb2.InferResponse:
            raise GatewayUnreachable("nobody")

    seeds = SeedTree(5)
    plan = LoadPlan(ONE_SECOND, seconds=1, clients=1)
    workload = Workload(
        inference_pb2.InferRequest(), size=FixedSize(8), deadlines=ONE_SECOND, seeds=seeds
    )
    run = LoadRun(plan, workload, [Nobody()], clock=clock, arrivals_rng=seeds.stream("arrivals"))
    async with clock.auto_jump():
        await run.run()
    assert report(run).errors == {"UNREACHABLE": 10}


async def test_cancelling_a_run_keeps_what_was_measured() -> None:
    clock = ManualClock()
    seeds = SeedTree(5)
    plan = LoadPlan(ONE_SECOND, seconds=60, rate_per_s=10, arrivals="constant")
    workload = Workload(
        inference_pb2.InferRequest(), size=FixedSize(8), deadlines=ONE_SECOND, seeds=seeds
    )
    gateway = Gateway(clock, lambda _: 10 * MS)
    run = LoadRun(plan, workload, [gateway], clock=clock, arrivals_rng=seeds.stream("arrivals"))
    task = asyncio.ensure_future(run.run())
    await clock.advance(2 * SECOND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (report(run).offered, report(run).ok, report(run).seconds) == (20, 19, 2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seconds": 0}, "seconds is 0; it must be above 0"),
        ({"seconds": 1, "warmup_seconds": -1}, "warmup_seconds is -1"),
        ({"seconds": 1, "rate_per_s": 0}, "rate_per_s is 0; it must be above 0"),
        ({"seconds": 1, "clients": 0}, "clients and max_in_flight must be at least 1"),
    ],
)
def test_an_impossible_plan_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoadPlan(ONE_SECOND, **values)  # type: ignore[arg-type]  the values are the point
