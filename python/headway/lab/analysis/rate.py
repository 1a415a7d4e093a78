"""Waiting during a step, and what a repeated cycle of steps is worth."""

from collections.abc import Sequence


def output_age_area(age: float, duration: float) -> float:
    """Integral of a stream's output age over one step: `∫ (A + u) du = A T + T²/2`.

    The same for a stream that the step serves and for one that it does not: output is published at
    the step's end. Unit: that of the arguments, squared.
    """
    if age < 0 or duration < 0:
        raise ValueError(f"age and duration must be at least 0, got {age} and {duration}")
    return age * duration + duration * duration / 2


def cycle_value_rate(steps: Sequence[tuple[float, float]]) -> float:
    """Value rate of a repeated cycle of `(reward, duration)`: total reward over total duration.

    It is the duration-weighted mean of the steps' own rates, so never above the best of them.
    """
    total = sum(duration for _, duration in steps)
    if not steps or any(duration <= 0 for _, duration in steps):
        raise ValueError("steps must hold at least one, each of a duration above 0")
    return sum(reward for reward, _ in steps) / total
