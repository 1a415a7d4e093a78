"""Constants of the tests: stakes, start masses, memories. Simulated in docs/adr/0040."""

from typing import Final

UP: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.85)
"""On rates of rare events, whose payoffs reach 200."""

RANK: Final = (0.05, 0.1, 0.2, 0.4, 0.7)
DIFFERENCE: Final = (0.05, 0.15, 0.4, 0.9)
P95: Final = (0.03, 0.06, 0.12, 0.25, 0.5, 0.85)
GATE: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)

FIRST_STEP_MASS: Final = 0.2
LATER_STEPS_MASS: Final = 0.4
"""Shared by the later steps."""

BLOCKS_MASS: Final = 0.3
NUM_EVEN_BLOCKS: Final = 240
"""Blocks (analysis intervals; two hours of 30 s) that share BLOCKS_MASS; those after it get
TAIL / (k (k + 1)), so that the whole is 1 at most and a version that turns bad late is caught."""

TAIL: Final = 24.0

BASELINE_MEMORY_S: Final = 300.0
"""Memory of the baseline's rates of errors and stalls."""

HISTOGRAM_DECAY: Final = 0.9
"""Of the baseline's trailing latency histogram, a block."""

LEVEL_MEMORY_S: Final = 20.0
"""Memory of the baseline's level of latency; load waves last longer, batches less."""

LEAST_HISTOGRAM: Final = 50.0
"""Baseline latencies in the trailing histogram before its quantiles count."""

SHARE_PRIOR_S: Final = 90.0
"""Traffic for which the nominal share counts beside the measured one."""

BURST_GROUP: Final = 16.0
"""Requests that a burst is taken to hold, in the guard of the measured share."""

STALL_FLOOR: Final = 0.003
STALL_QUANTILE: Final = 0.99
STALL_RATIO: Final = 2.0
"""A stall: slower than so many times the baseline's quantile."""

SHED_FLOOR: Final = 0.02
"""Share of refusals for want of capacity below which no comparison counts."""

ALPHA_SHARES: Final = {"errors": 0.35, "rank": 0.2, "p95": 0.2, "stalls": 0.15, "sheds": 0.1}
"""How the tests share the chance of a false rollback."""


def block_mass(block: int) -> float:
    """Start mass of block `block`, from 1."""
    if block <= NUM_EVEN_BLOCKS:
        return BLOCKS_MASS / NUM_EVEN_BLOCKS
    return TAIL / (block * (block + 1))


def step_mass(step: int, num_steps: int) -> float:
    """Start mass of a step that is entered for the first time, from 0."""
    if step == 0:
        return FIRST_STEP_MASS
    return LATER_STEPS_MASS / max(1, num_steps - 1)
