"""What a verdict shows of each version: counts, quantiles and their intervals."""

import math
from collections.abc import Mapping
from typing import Any, Final

from headway.rollout.counts import ArmCounts
from headway.rollout.decision import Load
from headway.rollout.gate import design_effect, error_interval
from headway.rollout.grid import quantiles_ns

_Z: Final = 1.96
_QUANTILES: Final = (0.5, 0.95, 0.99)


class ArmTally:
    """One version since its step began."""

    def __init__(self) -> None:
        self.counts = ArmCounts()
        # Sums over ticks of e*e, e*n, n*n, for the design effect.
        self.sums = [0.0, 0.0, 0.0]

    def add(self, tick: ArmCounts) -> None:
        """Adds a tick."""
        self.counts.add(tick)
        n, e = tick.requests, tick.errors
        for at, product in enumerate((e * e, e * n, n * n)):
            self.sums[at] += product

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"counts": self.counts.to_plain(), "sums": list(self.sums)}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Takes back what `to_plain` gave."""
        self.counts = ArmCounts.from_plain(plain["counts"])
        self.sums = [float(value) for value in plain["sums"]]

    def evidence(self, version: str, share: float, load: Load) -> dict[str, Any]:
        """For a verdict.

        Rates in [0, 1], durations in ns; intervals of 98 % for errors (Wilson,
        widened for errors that come together) and 95 % for p95 (order statistics, a batch counted
        once).
        """
        counts = self.counts
        n, e = counts.requests, counts.errors
        low, high = error_interval(n, e, design_effect(n, e, *self.sums))
        p50, p95, p99 = quantiles_ns(counts.histogram(), _QUANTILES)
        p95_low, p95_high = self._p95_interval()
        return {
            "version": version,
            "share": share,
            "requests": n,
            "errors": e,
            "sheds": counts.sheds,
            "error_rate_low": low,
            "error_rate_high": high,
            "p50_ns": p50,
            "p95_ns": p95,
            "p99_ns": p99,
            "p95_low_ns": p95_low,
            "p95_high_ns": p95_high,
            "utilisation": load.utilisation,
            "replicas": load.replicas,
            "device_ns_per_request": round(1e9 * load.busy_s_per_request),
        }

    def _p95_interval(self) -> tuple[int, int]:
        spread = _Z * math.sqrt(0.95 * 0.05 / max(1, self.counts.groups))
        low, high = quantiles_ns(self.counts.histogram(), (0.95 - spread, min(1.0, 0.95 + spread)))
        return low, high
