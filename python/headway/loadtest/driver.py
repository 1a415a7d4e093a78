"""Sends the requests of a plan when they are due, and tallies how they end."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from headway._core import Rng
from headway.client.errors import CallError, GatewayUnreachable, UnexpectedStatus
from headway.clock import Clock
from headway.errors import RequestError
from headway.loadtest.plan import NS_PER_S, LoadPlan
from headway.loadtest.tally import Tally
from headway.loadtest.workload import Work, Workload
from headway.v1 import inference_pb2

SHORTEST_PAUSE_NS = 10_000_000
"""Least pause of a closed-loop client after an error, so that refusals do not become a storm."""

UNREACHABLE_PAUSE_NS = 100_000_000
"""Pause of a closed-loop client that met nobody: a process takes longer than that to start."""

LONGEST_PAUSE_NS = 1_000_000_000
"""Most that a closed-loop client waits because a gateway said so."""

LARGEST_BURST = 256
"""Requests sent before answers get a turn, where the client is behind."""


class Caller(Protocol):
    """Sends a request and waits for its answer: a `Client`, or a `ManyStream`."""

    async def infer(
        self, request: inference_pb2.InferRequest, *, timeout_s: float | None = None
    ) -> inference_pb2.InferResponse:
        """The answer; raises as `Client.infer` does."""
        ...


class LoadRun:
    """One run of a plan."""

    def __init__(
        self,
        plan: LoadPlan,
        workload: Workload,
        callers: Sequence[Caller],
        *,
        clock: Clock,
        arrivals_rng: Rng,
    ) -> None:
        """`callers`: connections, used in turn; at least one."""
        self.plan = plan
        self.tally = Tally(plan.deadlines.deadlines_ns)
        self._workload = workload
        self._callers = callers
        self._clock = clock
        self._arrivals_rng = arrivals_rng
        self._started_ns = clock.now_ns()
        self._num_sent = 0
        self._in_flight: set[asyncio.Task[None]] = set()
        self._clients_waiting = 0

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered."""
        return len(self._in_flight) + self._clients_waiting

    @property
    def elapsed_ns(self) -> int:
        """Time since the start, warm-up included."""
        return self._clock.now_ns() - self._started_ns

    @property
    def measured_ns(self) -> int:
        """Length of the measured part so far."""
        return max(0, min(self.elapsed_ns, self.plan.total_ns) - self.plan.warmup_ns)

    async def run(self) -> Tally:
        """Runs the plan to its end, and waits for the answers still out.

        Cancelling it cancels what is in flight; the tally keeps what was measured.
        """
        self._started_ns = self._clock.now_ns()
        try:
            if self.plan.rate_per_s is None:
                await self._run_closed()
            else:
                await self._run_open(_gaps(self.plan, self.plan.rate_per_s, self._arrivals_rng))
        finally:
            for task in self._in_flight:
                task.cancel()
        return self.tally

    async def _run_open(self, next_gap_ns: Callable[[], int]) -> None:
        end_ns = self._started_ns + self.plan.total_ns
        due_ns = self._started_ns + next_gap_ns()
        while due_ns < end_ns:
            await self._clock.sleep(due_ns - self._clock.now_ns())
            now_ns = self._clock.now_ns()
            for _ in range(LARGEST_BURST):
                if due_ns > now_ns or due_ns >= end_ns:
                    break
                self._launch(due_ns)
                due_ns += next_gap_ns()
        await self._clock.sleep(end_ns - self._clock.now_ns())
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    def _launch(self, due_ns: int) -> None:
        work = self._workload.next()
        measured = self._offer(work, due_ns)
        if len(self._in_flight) >= self.plan.max_in_flight:
            if measured:
                self.tally.drop()
            return
        task = asyncio.ensure_future(self._send(work, due_ns, measured))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _run_closed(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for _ in range(self.plan.clients):
                clients.create_task(self._run_client())

    async def _run_client(self) -> None:
        end_ns = self._started_ns + self.plan.total_ns
        while (now_ns := self._clock.now_ns()) < end_ns:
            work = self._workload.next()
            measured = self._offer(work, now_ns)
            self._clients_waiting += 1
            try:
                pause_ns = await self._call(work, now_ns, measured)
            finally:
                self._clients_waiting -= 1
            if pause_ns:
                await self._clock.sleep(pause_ns)

    def _offer(self, work: Work, due_ns: int) -> bool:
        """Counts a request as offered; False if it belongs to the warm-up."""
        measured = due_ns >= self._started_ns + self.plan.warmup_ns
        if measured:
            self.tally.offer(work.deadline_class)
        return measured

    async def _send(self, work: Work, due_ns: int, measured: bool) -> None:
        await self._call(work, due_ns, measured)

    async def _call(self, work: Work, due_ns: int, measured: bool) -> int:
        """Sends one request and tallies its end; returns the pause that makes sense then, in ns."""
        deadline_ns = due_ns + self.plan.deadlines.deadlines_ns[work.deadline_class]
        remaining_ns = deadline_ns - self._clock.now_ns()
        if remaining_ns <= 0:
            if measured:
                self.tally.drop()
            return SHORTEST_PAUSE_NS
        self._num_sent += 1
        caller = self._callers[self._num_sent % len(self._callers)]
        try:
            response = await caller.infer(work.request, timeout_s=remaining_ns / NS_PER_S)
        except (RequestError, GatewayUnreachable, UnexpectedStatus) as error:
            if measured:
                self.tally.fail(error.reason)
            return _pause_ns(error)
        if measured:
            latency_ns = self._clock.now_ns() - due_ns
            self.tally.answer(work.deadline_class, latency_ns, response)
        return 0


def _pause_ns(error: CallError) -> int:
    if isinstance(error, GatewayUnreachable):
        return UNREACHABLE_PAUSE_NS
    asked_ns = error.retry_after_ns or SHORTEST_PAUSE_NS
    return min(max(asked_ns, SHORTEST_PAUSE_NS), LONGEST_PAUSE_NS)


def _gaps(plan: LoadPlan, rate_per_s: float, rng: Rng) -> Callable[[], int]:
    mean_ns = NS_PER_S / rate_per_s
    if plan.arrivals == "constant":
        return lambda: max(1, round(mean_ns))
    return lambda: max(1, round(-mean_ns * math.log(1 - rng.uniform())))
