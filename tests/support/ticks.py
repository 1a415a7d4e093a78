"""Ticks made by hand."""

from headway.rollout.counts import ArmCounts, TickCounts
from headway.rollout.grid import bin_of

MS = 1_000_000


def arm(
    requests: int, errors: int = 0, latency_ms: float = 50, sheds: int = 0, busy_s: float = 0.0,
    replica_s: float = 1.0,
) -> ArmCounts:  # fmt: skip
    """Requests of which some fail and the others take `latency_ms`."""
    answered = requests - errors
    return ArmCounts(
        requests=requests,
        errors=errors,
        sheds=sheds,
        groups=min(requests, 1 + requests // 4),
        busy_ns=round(busy_s * 1e9),
        replica_ns=round(replica_s * 1e9),
        latency={bin_of(round(latency_ms * MS)): answered} if answered else {},
    )


def tick(baseline: ArmCounts, canary: ArmCounts, dead: str = "") -> TickCounts:
    return TickCounts(baseline, canary, dead)
