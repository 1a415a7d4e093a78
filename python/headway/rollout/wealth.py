"""Betting: the capital of a gambler who stakes on a claim, tick after tick.

Each tick gives a payoff x >= -1 whose mean is <= 0 while the claim to be refuted holds. A stake f
in (0, 1) multiplies a capital by 1 + f*x; the mean of the capitals of several stakes, begun at
several times with start masses that add up to at most 1, exceeds 1/a with a chance of at most a,
however often one looks.

Source: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B
86(1), 2024; Ville, 1939.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from headway.rollout.rows import Mask, Real, Rows

LOG_ZERO: Final = -1e300
"""Logarithm of no capital at all."""


class Wealth(Rows):
    """Capitals of a grid of stakes, for each row; all in logarithms."""

    def __init__(self, num_rows: int, stakes: Sequence[float]) -> None:
        """`stakes`: each in (0, 1)."""
        self._stakes = np.asarray(stakes)
        self.logs: Real = np.full((num_rows, len(stakes)), LOG_ZERO)

    def add_mass(self, mass: Real) -> None:
        """Begins anew with a start mass for each row (0: not), shared by the stakes."""
        with np.errstate(divide="ignore"):
            share = np.maximum(np.log(mass / self.logs.shape[1]), LOG_ZERO)
        self.logs = np.logaddexp(self.logs, share[:, None])

    def restart(self, rows: Mask) -> None:
        """Sets the capital of some rows back to 1."""
        self.logs[rows] = -np.log(self.logs.shape[1])

    def drop(self, rows: Mask) -> None:
        """Gives all capital of some rows up."""
        self.logs[rows] = LOG_ZERO

    def bet(self, payoff: Real, active: Mask) -> None:
        """One tick; rows that are not active sit it out."""
        stakes = self._stakes
        self.logs += np.log1p(np.where(active, payoff, 0.0)[:, None] * stakes)

    def log_total(self) -> Real:
        """Logarithm of the whole capital of each row."""
        largest = self.logs.max(axis=1)
        total: Real = largest + np.log(np.exp(self.logs - largest[:, None]).sum(axis=1))
        return total


def log_mean(one: Real, other: Real) -> Real:
    """Logarithm of the mean of two capitals."""
    mean: Real = np.logaddexp(one, other) - np.log(2)
    return mean
