"""Fair time shares of non-preemptible actions, with a bound on how far from the optimum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]


class ConvergenceError(RuntimeError):
    """The tolerance was not met within the allowed steps; no allocation is returned."""


@dataclass(frozen=True)
class Allocation:
    """Time shares of actions and what they give.

    Attributes:
      shares: fraction of wall time of each action, summing to 1.
      rates: useful tokens/s of each request.
      gap: no allocation has more than `utility + gap`.
    """

    shares: Floats
    rates: Floats
    utility: float
    gap: float


def fair_allocation(
    action_rates: ArrayLike,
    *,
    token_values: ArrayLike,
    fairness_weights: ArrayLike,
    tolerance: float = 1e-9,
    max_steps: int = 100_000,
) -> Allocation:
    """Maximizes `Σ_i [v_i x_i + f_i log x_i]` over mixtures `x = θ Y` of actions.

    Pairwise conditional gradients: each step moves time from the worst action in use to the best,
    by a line search on the exact derivative. Concavity bounds what is left by
    `max_a ∇·(e_a - θ)`.

    Args:
      action_rates: Y[action, request], useful tokens/s of the request while the action runs.
      token_values: v, at least 0; one a request, or one for all.
      fairness_weights: f, above 0; one a request, or one for all.
      tolerance: largest accepted gap, in units of utility.

    Raises:
      ValueError: a bad argument, or a request that no action serves.
      ConvergenceError: the gap is still above `tolerance` after `max_steps`.

    Source: Kelly, Maulloo and Tan, JORS 49, 1998 (the objective); Lacoste-Julien and Jaggi,
    NeurIPS 2015 (pairwise steps).
    """
    rates = np.asarray(action_rates, dtype=np.float64)
    if rates.ndim != 2 or rates.size == 0 or not np.isfinite(rates).all() or (rates < 0).any():
        raise ValueError("action_rates must be a non-empty matrix of finite rates of at least 0")
    num_requests = rates.shape[1]
    values = np.broadcast_to(np.asarray(token_values, dtype=np.float64), num_requests)
    weights = np.broadcast_to(np.asarray(fairness_weights, dtype=np.float64), num_requests)
    if (values < 0).any() or (weights <= 0).any():
        raise ValueError("token_values must be at least 0 and fairness_weights above 0")
    if not (rates > 0).any(axis=0).all():
        unserved = int(np.flatnonzero(~(rates > 0).any(axis=0))[0])
        raise ValueError(f"request {unserved} is served by no action; its utility has no bound")
    return _ascend(rates, values, weights, tolerance, max_steps)


def _ascend(
    rates: Floats, values: Floats, weights: Floats, tolerance: float, max_steps: int
) -> Allocation:
    shares = np.full(len(rates), 1 / len(rates))
    gap = np.inf
    for _ in range(max_steps):
        served = shares @ rates
        slopes = rates @ (values + weights / served)
        best = int(slopes.argmax())
        gap = float(slopes[best] - shares @ slopes)
        if gap <= tolerance:
            utility = float(values @ served + weights @ np.log(served))
            return Allocation(shares, served, utility, max(gap, 0.0))
        used = np.flatnonzero(shares > 0)
        worst = int(used[slopes[used].argmin()])
        moved = _line_search(served, rates[best] - rates[worst], values, weights, shares[worst])
        shares[best] += moved
        shares[worst] = 0.0 if moved == shares[worst] else shares[worst] - moved
    raise ConvergenceError(
        f"the gap is {gap:.3g} after {max_steps} steps, above the tolerance {tolerance:.3g}; "
        "allow more steps or a larger tolerance"
    )


def _line_search(
    served: Floats, direction: Floats, values: Floats, weights: Floats, most: float
) -> float:
    """The share to move, in (0, most]: where the utility's slope along the direction is 0."""

    def slope(share: float) -> float:
        rates = served + share * direction
        if (rates <= 0).any():
            return -np.inf
        return float(direction @ (values + weights / rates))

    if slope(most) >= 0:
        return most
    # The slope falls to -inf where a rate reaches 0; stay inside for the root search.
    inside = most
    while slope(inside) == -np.inf:
        inside *= 1 - 1e-12 if inside == most else 0.5
    if slope(inside) >= 0:
        return inside
    return float(brentq(slope, 0.0, inside, xtol=1e-16, rtol=8.9e-16))
