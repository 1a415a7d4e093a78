"""The rollout calls of ControlService for code without an event loop."""

from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from headway.client.rollouts import RolloutCalls
from headway.v1 import control_pb2

Answer = TypeVar("Answer")


class BlockingRolloutCalls:
    """The part of a `BlockingControlClient` that starts, watches and ends rollouts."""

    @abstractmethod
    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs a call to its end."""

    @property
    @abstractmethod
    def _calls(self) -> RolloutCalls:
        """Who makes the calls."""

    def start_rollout(
        self,
        model: str,
        canary_version: str,
        *,
        preset: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> control_pb2.Rollout:
        """Begins to move a model's traffic; see `ControlClient.start_rollout`."""
        return self._run(
            self._calls.start_rollout(model, canary_version, preset=preset, settings=settings)
        )

    def pause_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Holds it where it is; its tests go on."""
        return self._run(self._calls.pause_rollout(rollout_id))

    def resume_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Goes on."""
        return self._run(self._calls.resume_rollout(rollout_id))

    def promote_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Ends it with all traffic on the new version."""
        return self._run(self._calls.promote_rollout(rollout_id))

    def abort_rollout(self, rollout_id: str, reason: str = "") -> control_pb2.Rollout:
        """Ends it with all traffic on the old version."""
        return self._run(self._calls.abort_rollout(rollout_id, reason))

    def rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """One rollout, with where its step stands."""
        return self._run(self._calls.rollout(rollout_id))

    def rollouts(self, model: str = "", limit: int = 100) -> Sequence[control_pb2.Rollout]:
        """Rollouts, newest first, of one model or of all; at most `limit`, in [1, 1000]."""
        return self._run(self._calls.rollouts(model, limit))

    def verdicts(self, rollout_id: str) -> Sequence[control_pb2.Verdict]:
        """The whole trail of a rollout, oldest first."""
        return self._run(self._calls.verdicts(rollout_id))
