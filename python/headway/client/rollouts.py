"""The rollout calls of ControlService, typed."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf import json_format

from headway.v1 import control_pb2

Answer = TypeVar("Answer")

_PAGE = 1000


class RolloutCalls:
    """The part of a `ControlClient` that starts, watches and ends rollouts."""

    @abstractmethod
    async def _call(
        self, method: str, answer: type[Answer], request: Any, *, again: bool = True
    ) -> Answer:
        """One call."""

    async def start_rollout(
        self,
        model: str,
        canary_version: str,
        *,
        preset: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> control_pb2.Rollout:
        """Begins to move a model's traffic.

        Args:
          preset: "default", "fast" or "classic".
          settings: rules by their names in docs/rollout.md, laid over the preset.
        """
        policy = control_pb2.RolloutPolicy(preset=preset)
        json_format.ParseDict(dict(settings or {}), policy.settings)
        request = control_pb2.StartRolloutRequest(
            model=model, canary_version=canary_version, policy=policy
        )
        answer = control_pb2.StartRolloutResponse
        return (await self._call("StartRollout", answer, request, again=False)).rollout

    async def pause_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Holds it where it is; its tests go on."""
        request = control_pb2.PauseRolloutRequest(rollout_id=rollout_id)
        return (await self._call("PauseRollout", control_pb2.PauseRolloutResponse, request)).rollout

    async def resume_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Goes on."""
        request = control_pb2.ResumeRolloutRequest(rollout_id=rollout_id)
        answer = control_pb2.ResumeRolloutResponse
        return (await self._call("ResumeRollout", answer, request)).rollout

    async def promote_rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """Ends it with all traffic on the new version."""
        request = control_pb2.PromoteRolloutRequest(rollout_id=rollout_id)
        answer = control_pb2.PromoteRolloutResponse
        return (await self._call("PromoteRollout", answer, request)).rollout

    async def abort_rollout(self, rollout_id: str, reason: str = "") -> control_pb2.Rollout:
        """Ends it with all traffic on the old version."""
        request = control_pb2.AbortRolloutRequest(rollout_id=rollout_id, reason=reason)
        return (await self._call("AbortRollout", control_pb2.AbortRolloutResponse, request)).rollout

    async def rollout(self, rollout_id: str) -> control_pb2.Rollout:
        """One rollout, with where its step stands."""
        request = control_pb2.GetRolloutRequest(rollout_id=rollout_id)
        return (await self._call("GetRollout", control_pb2.GetRolloutResponse, request)).rollout

    async def rollouts(self, model: str = "", limit: int = 100) -> Sequence[control_pb2.Rollout]:
        """Rollouts, newest first, of one model or of all; at most `limit`, in [1, 1000]."""
        request = control_pb2.ListRolloutsRequest(model=model, page_size=limit)
        answer = control_pb2.ListRolloutsResponse
        return (await self._call("ListRollouts", answer, request)).rollouts

    async def verdicts(self, rollout_id: str) -> Sequence[control_pb2.Verdict]:
        """The whole trail of a rollout, oldest first."""
        found: list[control_pb2.Verdict] = []
        token = ""
        while True:
            request = control_pb2.ListVerdictsRequest(
                rollout_id=rollout_id, page_size=_PAGE, page_token=token
            )
            answer = await self._call("ListVerdicts", control_pb2.ListVerdictsResponse, request)
            found += answer.verdicts
            token = answer.next_page_token
            if not token:
                return found
