"""Evidence for going on: that the canary is *not* worse. Weaker than what rolls back, and apart.

The same bets with the sign turned: a stake on -x gains where the canary does well. Wrongly going
on past a gate of e-value 20 has a chance of at most 5 %.
"""

import math
from typing import Final

import numpy as np

from headway.rollout import stakes
from headway.rollout.rows import Mask, Real, Rows
from headway.rollout.wealth import Wealth

GATE_LOG: Final = math.log(20)
CLEAN_LOG: Final = math.log(5)
"""Above this, a test is suspicious: the rollout holds."""

_Z99: Final = 2.3263478740408408


class Gates(Rows):
    """What speaks for going on, for each row."""

    def __init__(self, num_rows: int) -> None:
        self.typical = Wealth(num_rows, stakes.GATE)
        self.p95 = Wealth(num_rows, stakes.GATE)
        self.p95.restart(np.ones(num_rows, dtype=bool))
        # Sums over the ticks of the step: requests n, errors e, e*e, e*n, n*n, for the canary.
        self.sums: Real = np.zeros((num_rows, 5))
        self.baseline_requests: Real = np.zeros(num_rows)
        self.baseline_errors: Real = np.zeros(num_rows)

    def enter_step(self, rows: Mask) -> None:
        """Each step shows anew that it is fit; only the evidence on p95 is kept."""
        self.typical.restart(rows)
        self.sums[rows] = 0
        self.baseline_requests[rows] = 0
        self.baseline_errors[rows] = 0

    def score(self, *, typical: Real, typical_active: Mask, p95: Real, p95_active: Mask) -> None:
        """Payoffs of one tick, as of `Evidence`: above 0 speaks against the canary."""
        self.typical.bet(-typical, typical_active)
        self.p95.bet(-p95, p95_active)

    def count(self, requests: Real, errors: Real, baseline: tuple[Real, Real]) -> None:
        """Counts of one tick."""
        n, e = requests, errors
        self.sums += np.stack((n, e, e * e, e * n, n * n), axis=1)
        self.baseline_requests += baseline[0]
        self.baseline_errors += baseline[1]

    def error_bound(self, row: int) -> float:
        """Upper 99 % bound of the canary's error rate in this step (see `error_interval`)."""
        n, e, ee, en, nn = self.sums[row]
        return error_interval(n, e, design_effect(n, e, ee, en, nn))[1]

    def baseline_rate(self, row: int) -> float:
        """The baseline's error rate in this step."""
        return float(self.baseline_errors[row] / max(1.0, self.baseline_requests[row]))


def design_effect(n: float, e: float, ee: float, en: float, nn: float) -> float:
    """How many errors of a tick share one cause, on average: variance over the binomial one.

    At least 1. Arguments: sums over ticks of n, e, e*e, e*n, n*n.

    Source: Rao and Scott, A simple method for the analysis of clustered binary data, 1992.
    """
    rate = e / n if n else 0.0
    if not 0 < rate < 1:
        return 1.0
    return float(max(1.0, (ee - 2 * rate * en + rate * rate * nn) / (rate * (1 - rate) * n)))


def error_interval(n: float, e: float, effect: float) -> tuple[float, float]:
    """One-sided 99 % bounds of a rate, after Wilson, at e/effect of n/effect. (0, 1) if n is 0."""
    if n <= 0:
        return 0.0, 1.0
    size, rate, z = n / effect, e / n, _Z99
    centre = rate + z * z / (2 * size)
    spread = z * math.sqrt(rate * (1 - rate) / size + z * z / (4 * size * size))
    scale = 1 + z * z / size
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
