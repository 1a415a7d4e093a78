"""The simulator's event loop for schedulers written in Python.

It does what the core's own loop does, event by event and with the same draws, at some 10,000
requests a second: for policies that are tried out, and for Python that decides around the core's
`Scheduler`. `ScheduledPolicy` drives that one, and gives what `simulate` gives.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headway._core import PoolStats, Rng, Trace
from headway.sim.fleet import Fleet, SpeedChange
from headway.sim.report import Fate, Report
from headway.sim.workload import NS_PER_MS, NS_PER_S

# What the core sets the devices' draws apart from the scheduler's with.
_NOISE = 0x6E6F_6973_6500_0001


class Request(NamedTuple):
    """An arrival. `number` is its place in the trace; `deadline_ns` is an instant."""

    number: int
    at_ns: int
    units: int
    rows: int
    deadline_ns: int
    lane: int
    priority: int
    tenant: int
    weight: float


@dataclass(slots=True)
class Replicas:
    """What a policy may know of the fleet: which replicas are free, and which are there."""

    free: list[bool]
    present: list[bool]


class SimPolicy(Protocol):
    """A scheduler. It is told of what happens, and answers with requests by number."""

    def arrive(self, now_ns: int, request: Request, replicas: Replicas) -> bool:
        """A request comes; False refuses it."""
        ...

    def cancel(self, now_ns: int, number: int) -> None:
        """The client of a queued request gave up."""
        ...

    def form(self, now_ns: int, replicas: Replicas) -> tuple[int, Sequence[int]] | None:
        """A free replica and the batch for it; asked again until None."""
        ...

    def complete(self, now_ns: int, replica: int, device_ns: int) -> None:
        """A batch ended."""
        ...

    def expire(self, now_ns: int) -> Iterable[int]:
        """Requests that are given up now."""
        ...

    def wake_at_ns(self) -> int | None:
        """When to be asked although nothing happens."""
        ...


@dataclass(slots=True)
class _Outcome:
    """What became of each request: the shape of the core's `SimReport`."""

    fates: bytearray
    ended_at_ns: list[int]
    batch_sizes: list[int]
    num_batches: int = 0
    busy_ns: float = 0.0
    stats: PoolStats | None = None


@dataclass(slots=True)
class _Loop:
    trace: Trace
    fleet: Fleet
    policy: SimPolicy
    noise: Rng
    requests: list[Request]
    gives_up_after_ns: list[int]
    replicas: Replicas
    speeds: list[float]
    running: list[tuple[Sequence[int], int]]
    outcome: _Outcome
    changes: list[SpeedChange]
    completions: list[tuple[int, int]] = field(default_factory=list)
    quits: list[tuple[int, int]] = field(default_factory=list)
    next_request: int = 0
    next_change: int = 0
    now_ns: int = 0

    def run(self) -> None:
        while (now_ns := self._next_event_ns()) is not None:
            self.now_ns = now_ns
            self._change()
            self._complete()
            self._quit()
            self._arrive()
            for number in self.policy.expire(now_ns):
                self._end(number, Fate.DROPPED, batch=0)
            self._dispatch()

    def _next_event_ns(self) -> int | None:
        times = [heap[0][0] for heap in (self.completions, self.quits) if heap]
        if self.next_request < len(self.requests):
            times.append(self.requests[self.next_request].at_ns)
        wake_at_ns = self.policy.wake_at_ns()
        if wake_at_ns is not None:
            times.append(max(wake_at_ns, self.now_ns + 1))
        if not times:
            return None
        if self.next_change < len(self.changes):
            times.append(_instant_ns(self.changes[self.next_change]))
        return max(min(times), self.now_ns)

    def _change(self) -> None:
        while self.next_change < len(self.changes):
            change = self.changes[self.next_change]
            if _instant_ns(change) > self.now_ns:
                return
            self.next_change += 1
            self.replicas.present[change.replica] = change.speed > 0
            self.speeds[change.replica] = change.speed or self.speeds[change.replica]

    def _complete(self) -> None:
        while self.completions and self.completions[0][0] <= self.now_ns:
            _, replica = heapq.heappop(self.completions)
            members, took_ns = self.running[replica]
            for number in members:
                if self.outcome.fates[number] != Fate.CANCELLED:
                    in_time = self.now_ns <= self.requests[number].deadline_ns
                    self._end(number, Fate.ON_TIME if in_time else Fate.LATE)
            self.replicas.free[replica] = True
            self.policy.complete(self.now_ns, replica, took_ns)

    def _quit(self) -> None:
        while self.quits and self.quits[0][0] <= self.now_ns:
            _, number = heapq.heappop(self.quits)
            if self.outcome.fates[number] == Fate.UNFINISHED:
                self._end(number, Fate.CANCELLED)
                if self.outcome.batch_sizes[number] == 0:
                    self.policy.cancel(self.now_ns, number)

    def _arrive(self) -> None:
        requests = self.requests
        while (
            self.next_request < len(requests) and requests[self.next_request].at_ns <= self.now_ns
        ):
            request = requests[self.next_request]
            self.next_request += 1
            after_ns = self.gives_up_after_ns[request.number]
            if not self.policy.arrive(self.now_ns, request, self.replicas):
                self._end(request.number, Fate.REFUSED)
            elif after_ns >= 0:
                heapq.heappush(self.quits, (request.at_ns + after_ns, request.number))

    def _dispatch(self) -> None:
        replicas = self.replicas
        while any(map(all, zip(replicas.free, replicas.present, strict=True))):
            formed = self.policy.form(self.now_ns, replicas)
            if formed is None:
                return
            self._start(*formed)

    def _start(self, replica: int, members: Sequence[int]) -> None:
        device = self.fleet.device
        if not self.replicas.free[replica]:
            raise ValueError(f"form: replica {replica} is not free")
        for number in members:
            if self.outcome.fates[number] or self.outcome.batch_sizes[number]:
                raise ValueError(f"form: request {number} is not queued")
        units = sum(self.requests[number].units for number in members)
        wobble = 1.0 + device.noise * (2.0 * self.noise.uniform() - 1.0)
        planned_ns = device.intercept_ms * NS_PER_MS + device.slope_ms * NS_PER_MS * units
        took_ns = planned_ns * wobble / self.speeds[replica]
        for number in members:
            self.outcome.batch_sizes[number] = len(members)
        self.replicas.free[replica] = False
        self.running[replica] = (members, max(int(took_ns), 1))
        self.outcome.num_batches += 1
        self.outcome.busy_ns += took_ns
        heapq.heappush(self.completions, (self.now_ns + max(int(took_ns), 1), replica))

    def _end(self, number: int, fate: Fate, batch: int | None = None) -> None:
        self.outcome.fates[number] = fate
        self.outcome.ended_at_ns[number] = self.now_ns
        if batch is not None:
            self.outcome.batch_sizes[number] = batch


def _instant_ns(change: SpeedChange) -> int:
    return round(change.at_s * NS_PER_S)


def simulate_policy(
    trace: Trace, policy: SimPolicy, fleet: Fleet | None = None, seed: int = 0
) -> Report:
    """Runs a scheduler written in Python over a trace on a fleet.

    Deterministic if the policy is; `seed` drives the devices' noise, with the draws of `simulate`.

    Raises:
      ValueError: a batch for a replica that is not free, or with a member that is not queued.
    """
    fleet = fleet or Fleet()
    count, speeds = len(trace), list(fleet.speeds)
    columns = zip(
        trace.at_ns,
        trace.units,
        trace.rows,
        trace.deadline_ns,
        trace.lanes,
        trace.priorities,
        trace.tenants,
        trace.weights,
        strict=True,
    )
    requests = [
        Request(number, at_ns, units, rows, at_ns + deadline_ns, *rest)
        for number, (at_ns, units, rows, deadline_ns, *rest) in enumerate(columns)
    ]
    outcome = _Outcome(bytearray(count), [0] * count, [0] * count)
    loop = _Loop(
        trace=trace,
        fleet=fleet,
        policy=policy,
        noise=Rng(seed ^ _NOISE),
        requests=requests,
        gives_up_after_ns=trace.cancel_after_ns,
        replicas=Replicas([True] * len(speeds), [True] * len(speeds)),
        speeds=speeds,
        running=[((), 0)] * len(speeds),
        outcome=outcome,
        changes=sorted(fleet.changes, key=_instant_ns),
    )
    loop.run()
    return Report(trace, outcome, num_replicas=len(speeds))
