"""What happens in the run of a seed: fleet, requests and faults, all drawn beforehand."""

from dataclasses import dataclass, field
from typing import Any

from tests.dst.draw import MS, Draw, S

from headway.rng import SeedTree

MODEL = "sim"
WRITER = "writer"
LEASE_S = 1.0


@dataclass(frozen=True)
class Request:
    """One call of a client.

    Attributes:
      kind: unary (Infer), many (InferMany) or stream (InferStream).
      cancel_after_ns: when its caller leaves; None to stay.
      key: its idempotency key; "" for none.
    """

    number: int
    at_ns: int
    gateway: int
    kind: str
    model: str
    size: int
    timeout_ns: int
    priority: int
    lane: int
    cancel_after_ns: int | None
    key: str


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at `at_ns`, and is mended after `for_ns` where it can be.

    Attributes:
      kind: what happens; `World` has a method of that name.
      worker, gateway: whom it meets, where that matters.
    """

    kind: str
    at_ns: int
    for_ns: int
    worker: int
    gateway: int


@dataclass(frozen=True)
class WorkerPlan:
    """One worker's device."""

    runtime: dict[str, Any]
    max_outstanding: int
    max_queued: int
    writes: bool


@dataclass(frozen=True)
class Plan:
    """A run.

    Attributes:
      delay_ns: shortest and longest time of a message within the fleet.
      slow_messages, duplicated, forged, swallowed: shares of messages that are late, and of
        answers that come twice, come with one for nothing beside them, or never come.
      wall_steps: (instant, step) of the wall clock.
    """

    seed: int
    num_gateways: int
    workers: list[WorkerPlan]
    requests: list[Request]
    faults: list[Fault]
    delay_ns: tuple[int, int]
    slow_messages: float
    duplicated: float
    forged: float
    swallowed: float
    wall_steps: tuple[tuple[int, int], ...]
    span_ns: int
    kinds: tuple[str, ...] = field(default=())


FAULTS = (
    "kill_worker", "freeze_worker", "reset_link", "silence_link", "drain_worker", "kill_gateway",
    "storm", "leave_fleet",
)  # fmt: skip


def draw_plan(seed: int) -> Plan:
    seeds = SeedTree(seed)
    draw = Draw(seeds.stream("plan"))
    span_ns = draw.between(300, 2_000) * MS
    num_gateways = 2 if draw.chance(0.3) else 1
    # A crowd: more at once than the few devices can take, so that batches wait at workers too.
    crowd = draw.chance(0.25)
    workers = [_worker(draw, crowd) for _ in range(1 if crowd else draw.between(1, 4))]
    writes = any(worker.writes for worker in workers)
    requests = _requests(draw, span_ns, num_gateways, writes, crowd)
    faults = sorted(
        (
            Fault(
                draw.choose(FAULTS),
                draw.below(span_ns),
                draw.spread(20, 4_000) * MS,
                draw.below(len(workers)),
                draw.below(num_gateways),
            )
            for _ in range(draw.choose((0, 1, 2, 3, 5)))
        ),
        key=lambda fault: fault.at_ns,
    )
    low_ns = draw.spread(20_000, 1_000_000)
    return Plan(
        seed=seed,
        num_gateways=num_gateways,
        workers=workers,
        requests=requests,
        faults=faults,
        delay_ns=(low_ns, 2 * low_ns),
        slow_messages=draw.choose((0.0, 0.0, 0.02)),
        duplicated=draw.choose((0.0, 0.0, 0.05)),
        forged=draw.choose((0.0, 0.0, 0.03)),
        swallowed=draw.choose((0.0, 0.0, 0.0, 0.05)),
        wall_steps=tuple(
            (draw.below(span_ns), draw.choose((-3 * S, 10 * S))) for _ in range(draw.below(3))
        ),
        span_ns=span_ns,
        kinds=tuple(sorted({fault.kind for fault in faults})),
    )


def _worker(draw: Draw, crowd: bool) -> WorkerPlan:
    failures = {}
    if draw.chance(0.4):
        names = ("fail", "fail_fast", "hang", "slow", "busy", "garbage")
        failures = {name: draw.choose((0.05, 0.2, 0.5)) for name in names if draw.chance(0.35)}
    runtime = {
        "kind": "simulated",
        "intercept_ms": draw.choose((15, 40) if crowd else (0, 2, 5, 15, 40)),
        "slope_ms_per_unit": draw.choose((0.01, 0.1)),
        "max_requests": draw.choose((4, 8) if crowd else (1, 2, 4, 8)),
        "failures": failures,
    }
    return WorkerPlan(
        runtime,
        max_outstanding=draw.choose((2, 3) if crowd else (1, 1, 2)),
        max_queued=draw.choose((0, 0, 1)),
        writes=draw.chance(0.12),
    )


def _requests(
    draw: Draw, span_ns: int, num_gateways: int, writes: bool, crowd: bool
) -> list[Request]:
    count = draw.choose((40, 60) if crowd else (15, 30, 50))
    bursts = crowd or draw.chance(0.3)
    leaves = draw.choose((0.2, 0.6) if crowd else (0.0, 0.1, 0.4))
    shortest, longest = draw.choose(((20, 200), (50, 2_000), (500, 3_000)))
    requests = []
    for number in range(count):
        at_ns = draw.below(4) * span_ns // 4 if bursts else draw.below(span_ns)
        timeout_ns = draw.spread(shortest, longest) * MS
        model = WRITER if writes and draw.chance(0.3) else MODEL
        kind = draw.choose(("unary", "unary", "unary", "many", "stream"))
        # Few keys, so that retries of one request meet each other.
        keyed = kind == "unary" and model == MODEL and draw.chance(0.1)
        key = f"k{draw.below(3)}" if keyed else ""
        requests.append(
            Request(
                number,
                at_ns,
                draw.below(num_gateways),
                kind,
                model,
                size=64 if key else draw.spread(16, 4_000),
                timeout_ns=timeout_ns,
                priority=draw.choose((1, 2, 2, 2, 3)),
                lane=draw.choose((1, 1, 1, 2)),
                cancel_after_ns=draw.below(timeout_ns) if draw.chance(leaves) else None,
                key=key,
            )
        )
    return sorted(requests, key=lambda request: (request.at_ns, request.number))


__all__ = ["LEASE_S", "MODEL", "MS", "WRITER", "Fault", "Plan", "Request", "S", "draw_plan"]
