"""How the load is laid on."""

import math
from dataclasses import dataclass
from typing import Literal

from headway.loadtest.workload import DeadlineMix

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One run.

    Attributes:
      deadlines: deadline classes and their shares.
      seconds: length of the measured part, > 0.
      warmup_seconds: length of the part before it, sent but not counted, >= 0.
      rate_per_s: open loop: requests offered a second, > 0; None for a closed loop.
      arrivals: open loop: exponential gaps (a Poisson process) or equal ones.
      clients: closed loop: requests in flight, >= 1.
      max_in_flight: open loop: what goes beyond is not sent, but counted, >= 1.
    """

    deadlines: DeadlineMix
    seconds: float
    warmup_seconds: float = 0.0
    rate_per_s: float | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    clients: int = 1
    max_in_flight: int = 4096

    def __post_init__(self) -> None:
        """Raises ValueError for a value out of its range."""
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"seconds is {self.seconds}; it must be above 0")
        if not (math.isfinite(self.warmup_seconds) and self.warmup_seconds >= 0):
            raise ValueError(f"warmup_seconds is {self.warmup_seconds}; it must be at least 0")
        if self.rate_per_s is not None and not 0 < self.rate_per_s < math.inf:
            raise ValueError(f"rate_per_s is {self.rate_per_s}; it must be above 0")
        if self.clients < 1 or self.max_in_flight < 1:
            raise ValueError("clients and max_in_flight must be at least 1")

    @property
    def warmup_ns(self) -> int:
        """Length of the warm-up."""
        return round(self.warmup_seconds * NS_PER_S)

    @property
    def total_ns(self) -> int:
        """Length of the run."""
        return self.warmup_ns + round(self.seconds * NS_PER_S)
