"""The rollout methods of ControlService: wire to `Rollouts` and back, no decisions."""

from typing import Any, Final

from headway.errors import InvalidRequest
from headway.gateway.messages import position
from headway.gateway.rollouts import messages
from headway.gateway.rollouts.service import Rollouts
from headway.rpc.interceptors import current_caller
from headway.store.records import Author
from headway.v1 import control_pb2

METHODS: Final = (
    "StartRollout",
    "PauseRollout",
    "ResumeRollout",
    "PromoteRollout",
    "AbortRollout",
    "GetRollout",
    "ListRollouts",
    "ListVerdicts",
)
CHANGES: Final = METHODS[:5]
"""Methods that take the role of an operator; a viewer may use the others."""

_DEFAULT_PAGE: Final = 100
_LARGEST_PAGE: Final = 1000


class RolloutMethods:
    """Mixed into the servicer of ControlService, which sets `rollouts` and `gateway_id`."""

    rollouts: Rollouts
    gateway_id: str

    async def StartRollout(
        self, request: control_pb2.StartRolloutRequest, context: Any
    ) -> control_pb2.StartRolloutResponse:
        """Begins to move a model's traffic to another version."""
        _required(request.model, "model")
        _required(request.canary_version, "canary_version")
        record = await self.rollouts.start(
            request.model,
            request.canary_version,
            request.policy.preset,
            messages.policy_settings(request.policy),
            self._author(),
        )
        return control_pb2.StartRolloutResponse(rollout=messages.rollout_message(record))

    async def PauseRollout(
        self, request: control_pb2.PauseRolloutRequest, context: Any
    ) -> control_pb2.PauseRolloutResponse:
        """Holds it where it is."""
        _required(request.rollout_id, "rollout_id")
        record = await self.rollouts.pause(request.rollout_id, self._author())
        return control_pb2.PauseRolloutResponse(rollout=messages.rollout_message(record))

    async def ResumeRollout(
        self, request: control_pb2.ResumeRolloutRequest, context: Any
    ) -> control_pb2.ResumeRolloutResponse:
        """Goes on."""
        _required(request.rollout_id, "rollout_id")
        record = await self.rollouts.resume(request.rollout_id, self._author())
        return control_pb2.ResumeRolloutResponse(rollout=messages.rollout_message(record))

    async def PromoteRollout(
        self, request: control_pb2.PromoteRolloutRequest, context: Any
    ) -> control_pb2.PromoteRolloutResponse:
        """Ends it with all traffic on the new version."""
        _required(request.rollout_id, "rollout_id")
        record = await self.rollouts.promote(request.rollout_id, self._author())
        return control_pb2.PromoteRolloutResponse(rollout=messages.rollout_message(record))

    async def AbortRollout(
        self, request: control_pb2.AbortRolloutRequest, context: Any
    ) -> control_pb2.AbortRolloutResponse:
        """Ends it with all traffic on the old version."""
        _required(request.rollout_id, "rollout_id")
        record = await self.rollouts.abort(request.rollout_id, request.reason, self._author())
        return control_pb2.AbortRolloutResponse(rollout=messages.rollout_message(record))

    async def GetRollout(
        self, request: control_pb2.GetRolloutRequest, context: Any
    ) -> control_pb2.GetRolloutResponse:
        """One rollout, with where its step stands."""
        _required(request.rollout_id, "rollout_id")
        record, controller = await self.rollouts.get(request.rollout_id)
        message = messages.rollout_message(record, controller)
        return control_pb2.GetRolloutResponse(rollout=message)

    async def ListRollouts(
        self, request: control_pb2.ListRolloutsRequest, context: Any
    ) -> control_pb2.ListRolloutsResponse:
        """Rollouts, newest first."""
        size = _page_size(request.page_size)
        before_ns = position(request.page_token)
        found = await self.rollouts.newest(request.model, before_ns=before_ns, limit=size + 1)
        shown = found[:size]
        token = str(shown[-1].started_at_ns) if len(found) > size else ""
        return control_pb2.ListRolloutsResponse(
            rollouts=[messages.rollout_message(record) for record in shown], next_page_token=token
        )

    async def ListVerdicts(
        self, request: control_pb2.ListVerdictsRequest, context: Any
    ) -> control_pb2.ListVerdictsResponse:
        """The verdicts of a rollout, oldest first."""
        _required(request.rollout_id, "rollout_id")
        size = _page_size(request.page_size)
        after = position(request.page_token) or 0
        found = await self.rollouts.verdicts(request.rollout_id, after=after, limit=size + 1)
        shown = found[:size]
        token = str(shown[-1].sequence) if len(found) > size else ""
        return control_pb2.ListVerdictsResponse(
            verdicts=[messages.verdict_message(verdict) for verdict in shown],
            next_page_token=token,
        )

    def _author(self) -> Author:
        caller = current_caller()
        return Author(caller.tenant, caller.key_id, self.gateway_id)


def _required(value: str, field: str) -> None:
    if not value:
        raise InvalidRequest(f"{field} is empty; name one", field=field)


def _page_size(asked: int) -> int:
    if not 0 <= asked <= _LARGEST_PAGE:
        raise InvalidRequest(
            f"page_size is {asked}; it must be in [1, {_LARGEST_PAGE}]", field="page_size"
        )
    return asked or _DEFAULT_PAGE
