"""Exact references that experiments are judged against. None of them schedules anything."""

from headway.lab.analysis.allocation import Allocation, ConvergenceError, fair_allocation
from headway.lab.analysis.length import (
    LengthPrior,
    conditional_remaining,
    fixed_length,
    geometric_length,
    learn_length,
    pareto_length,
    pareto_remaining,
)
from headway.lab.analysis.prefill import PrefillPlan, prefill_completion_ms
from headway.lab.analysis.rate import cycle_value_rate, output_age_area

__all__ = [
    "Allocation",
    "ConvergenceError",
    "LengthPrior",
    "PrefillPlan",
    "conditional_remaining",
    "cycle_value_rate",
    "fair_allocation",
    "fixed_length",
    "geometric_length",
    "learn_length",
    "output_age_area",
    "pareto_length",
    "pareto_remaining",
    "prefill_completion_ms",
]
