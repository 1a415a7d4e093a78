"""The judge of a policy."""

from collections.abc import Mapping
from typing import Any, Protocol

from headway.rollout.classic import ClassicJudge
from headway.rollout.decision import Decision, StepView
from headway.rollout.judge import SequentialJudge
from headway.rollout.policy import ClassicPolicy, SequentialPolicy
from headway.rollout.rows import Mask, Real, Whole
from headway.rollout.tick import Tick


class Judge(Protocol):
    """Scores ticks and decides, for one row a rollout."""

    step: Whole
    elapsed_s: Real

    def enter_step(self, rows: Mask, step: int) -> None:
        """A new split is in force."""
        ...

    def forget_latency(self, rows: Mask) -> None:
        """Drops what speaks against latency: it was for want of replicas."""
        ...

    def begin_block(self, rows: Mask) -> None:
        """An analysis interval is over."""
        ...

    def score(self, tick: Tick, active: Mask | None = None) -> None:
        """One tick."""
        ...

    def crossed(self) -> Mask:
        """Rollouts to be rolled back now."""
        ...

    def roll_back(self, row: int) -> Decision:
        """Why."""
        ...

    def analyse(self, row: int) -> Decision:
        """The decision at the end of an analysis interval."""
        ...

    def view(self, row: int) -> StepView:
        """What it is made from."""
        ...

    def bounds(self) -> Mapping[str, float]:
        """Logarithm of the e-value at which each test rolls back."""
        ...

    def keep(self, rows: Mask) -> None:
        """Drops all other rows."""
        ...

    def to_plain(self) -> dict[str, Any]:
        """The state, as JSON has it."""
        ...

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Takes it back."""
        ...


def make_judge(policy: SequentialPolicy | ClassicPolicy, num_rows: int = 1) -> Judge:
    """A judge with no evidence yet."""
    if isinstance(policy, ClassicPolicy):
        return ClassicJudge(policy, num_rows)
    return SequentialJudge(policy, num_rows)
