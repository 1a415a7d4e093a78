"""The schedulers that a simulation can run."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from headway.sim.workload import Frozen

PRIOR_INTERCEPT_MS: Final = 20.0
PRIOR_SLOPE_MS: Final = 0.02


class PolicyKind(StrEnum):
    """Headway, and what it is compared with. The rivals know the device's true cost."""

    HEADWAY = "headway"
    """The production scheduler."""
    ONE_BY_ONE = "one_by_one"
    """First come, first served, no batches."""
    FIXED_BATCH = "fixed_batch"
    """A batch when it is full or its oldest member has waited `linger_ms`."""
    EARLIEST_DEADLINE = "earliest_deadline"
    """Earliest deadline first; feasible or not is judged on arrival only."""
    FIRST_IN_TIME = "first_in_time"
    """First come, first served, less what can no longer finish in time."""
    SHORTEST_FIRST = "shortest_first"
    """Smallest first, in batches of at most `quantum_ms`."""


class Policy(Frozen):
    """A scheduler and its settings."""

    kind: PolicyKind = PolicyKind.HEADWAY
    """Which."""
    linger_ms: float = Field(default=25.0, ge=0)
    """Longest wait of a fixed batch or of earliest-deadline-first."""
    margin_ms: float = Field(default=4.0, ge=0)
    """What earliest-deadline-first keeps free before a deadline."""
    quantum_ms: float = Field(default=58.0, gt=0)
    """Longest batch of shortest-first."""
    learns: bool = True
    """False: Headway keeps its prior cost, which should then be the true one."""
    prior_intercept_ms: float = Field(default=PRIOR_INTERCEPT_MS, ge=0)
    """What Headway believes of the device at the start."""
    prior_slope_ms: float = Field(default=PRIOR_SLOPE_MS, ge=0)
    """Likewise."""
    max_queued_requests: int = Field(default=1_000_000, ge=1)
    """Bound of Headway's queue."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Headway: value = weight * units**alpha."""
    large_share: float = Field(default=0.0, ge=0, le=0.5)
    """Headway: device time kept for the largest tenth while they wait."""
    bulk_share: float = Field(default=0.05, ge=0, le=0.5)
    """Headway: device time of the bulk lane while interactive work waits."""
    priority_weights: tuple[float, float, float] = (4.0, 1.0, 0.25)
    """Headway: factors of critical, standard and sheddable."""
    shed_early: bool = True
    """Headway: refuse on arrival what will not be served."""
    fixed_quantum_ms: float = Field(default=0.0, ge=0)
    """Headway: a quantum instead of the learned one, for experiments; 0 for learned."""
