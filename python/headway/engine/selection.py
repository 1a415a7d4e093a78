"""What the engine asks of whatever chooses its steps: the face of `headway._core.StepScheduler`.

A protocol, so that the baselines of bench/engine drive the same engine.
"""

from collections.abc import Sequence
from typing import Protocol, SupportsInt

from headway._core import StepPause


class Step(Protocol):
    """A chosen step, in flight from here on. Lists in the order of the graph's rows."""

    @property
    def frame(self) -> int:
        """Ascending, never reused."""
        ...

    @property
    def graph(self) -> int:
        """Place in the catalogue."""
        ...

    @property
    def reason(self) -> SupportsInt:
        """A `StepReason`."""
        ...

    @property
    def prompt_lanes(self) -> Sequence[int]:
        """Lanes whose prompts go on."""
        ...

    @property
    def prompt_tokens(self) -> Sequence[int]:
        """Prompt tokens of each of them."""
        ...

    @property
    def row_lanes(self) -> Sequence[int]:
        """Lanes that decode."""
        ...

    @property
    def cost_ns(self) -> int:
        """Predicted cost; 0 while indeterminate."""
        ...

    @property
    def score(self) -> float:
        """Value per second, in output tokens."""
        ...

    @property
    def parts(self) -> Sequence[float]:
        """The terms of the score, in the order of `PART_NAMES`."""
        ...


PART_NAMES = ("tokens", "fairness", "prompts", "deliveries", "stalls", "waiting")


class StepSelector(Protocol):
    """Chooses steps. Deterministic: every instant is an argument."""

    def admit(
        self,
        now_ns: int,
        *,
        prompt_tokens: int,
        output_limit: int,
        arrived_at_ns: int | None = None,
        prompt_left: int | None = None,
        weight: float = 1.0,
        acceptance: Sequence[float] = (),
        first_token_deadline_ns: int | None = None,
        completion_deadline_ns: int | None = None,
        gap_target_ns: int | None = None,
        expected_tokens: float | None = None,
    ) -> int:
        """Takes a lane in; its handle."""
        ...

    def cancel(self, lane: int) -> None:
        """Takes a lane out of the next step."""
        ...

    def hold(self, lane: int, held: bool) -> None:
        """Leaves a lane out of steps until it is let go on."""
        ...

    def set_acceptance(self, lane: int, acceptance: Sequence[float]) -> None:
        """Replaces what is known of a lane's drafts."""
        ...

    def observe(
        self,
        graph: int,
        *,
        device_ns: int | None,
        wall_ns: int,
        completed_at_ns: int,
        probe: bool = False,
    ) -> None:
        """Takes in an execution that was not scheduled here."""
        ...

    def dispatch(self, now_ns: int) -> Step | StepPause:
        """The next step, in flight; or the reason why there is none."""
        ...

    def complete(
        self,
        frame: int,
        now_ns: int,
        *,
        device_ns: int | None,
        lanes: Sequence[int],
        tokens: Sequence[int],
        ended: Sequence[bool],
    ) -> None:
        """Takes in the end of the oldest frame. `device_ns` None: indeterminate."""
        ...
