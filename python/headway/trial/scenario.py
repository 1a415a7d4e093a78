"""The canaries of the trial, and how each rollout should end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

MODEL: Final = "trial"
BASELINE: Final = "v1"
CANARY: Final = "v2"
POISON: Final = "spoiled"
"""Text on which the canary with errors fails."""

_DEVICE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "kind": "simulated",
        "intercept_ms": 12.0,
        "slope_ms_per_unit": 0.02,
        "jitter_ratio": 0.08,
        "max_requests": 8,
    }
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One canary.

    Attributes:
      device, canary_device: changes of the device of all versions, and of the canary's alone.
      speeds, canary_speeds: one replica for each; unlike ones, as fleets are.
      poisoned: share of requests that the canary fails on.
      phase: how the rollout should end; `tests`: by what.
    """

    name: str
    text: str
    phase: str
    tests: frozenset[str]
    device: Mapping[str, Any] = field(default_factory=dict)
    canary_device: Mapping[str, Any] = field(default_factory=dict)
    speeds: tuple[float, ...] = (1.0, 0.8)
    canary_speeds: tuple[float, ...] = (1.0, 0.8)
    poisoned: float = 0.0

    def runtime(self, version: str) -> dict[str, Any]:
        """The simulated device of a version."""
        changes = self.canary_device if version == CANARY else {}
        return {**_DEVICE, **self.device, **changes}


TRIALS: Final[Mapping[str, Trial]] = {
    trial.name: trial
    for trial in (
        Trial("good", "the same model again", "promoted", frozenset({"evidence", "policy"})),
        Trial(
            "errors", "fails on 3 % of requests", "rolled_back", frozenset({"errors"}),
            canary_device={"failures": {"poison": {"marker": POISON}}}, poisoned=0.03,
        ),
        Trial(
            "slow", "1.4 times the latency", "rolled_back", frozenset({"rank", "p95"}),
            canary_device={"intercept_ms": 12.0 * 1.4, "slope_ms_per_unit": 0.02 * 1.4},
        ),
        Trial(
            "dead", "fails always", "rolled_back", frozenset({"dead", "errors"}),
            canary_device={"failures": {"fail": 1.0}},
        ),
        Trial(
            "starved", "as fast, but one replica for the work of three", "rolled_back",
            frozenset({"capacity"}),
            device={"max_requests": 1, "intercept_ms": 15.0, "jitter_ratio": 0.02},
            speeds=(1.0, 1.0, 1.0), canary_speeds=(1.0,),
        ),
        Trial(
            "bimodal", "the same median, but 10 % of batches stall", "rolled_back",
            frozenset({"stalls", "p95"}),
            canary_device={"failures": {"slow": 0.1, "slow_ms": 600.0}},
        ),
    )
}  # fmt: skip
