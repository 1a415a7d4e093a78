"""Copies a share of requests to a canary that serves nobody yet, and discards the answers.

Bounded and behind the client's request: a copy is made after the original was admitted, at most
`max_inflight` are under way, and whatever becomes of one, the client never learns of it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from headway._core import hash_key, split_point
from headway.errors import RequestError
from headway.gateway.pending import Pending
from headway.rollout.policy import ShadowPolicy
from headway.rollout.tap import ArmTap
from headway.v1 import inference_pb2, types_pb2

Submit = Callable[[inference_pb2.InferRequest, float], Pending]
"""Submits a request with so many seconds left, on the gateway's own account."""

_SALT: Final = 0x5AD0_77AF


class ShadowMirror:
    """Mirrors requests of the baseline's pool."""

    def __init__(
        self, policy: ShadowPolicy, version: str, tap: ArmTap, submit: Submit, model: int
    ) -> None:
        """`version`: the canary. `tap`: what counts its outcomes."""
        self._policy = policy
        self._version = version
        self._tap = tap
        self._submit = submit
        self._salt = _SALT ^ model
        self._num_inflight = 0
        self.num_copied = 0
        self.num_skipped = 0

    def wants(self, request_id: str) -> bool:
        """True if a request is to be copied and there is room for the copy. O(1)."""
        if split_point(hash_key(request_id.encode()), self._salt) >= self._policy.share:
            return False
        if self._num_inflight >= self._policy.max_inflight:
            self.num_skipped += 1
            return False
        self._num_inflight += 1
        return True

    def copy(self, pending: Pending, remaining_s: float) -> None:
        """Sends the copy of a request that was wanted."""
        request = inference_pb2.InferRequest()
        request.CopyFrom(pending.request)
        request.version = self._version
        request.request_id = f"{pending.request_id[:120]}.shadow"
        request.priority = types_pb2.PRIORITY_SHEDDABLE
        request.ClearField("idempotency_key")
        try:
            copied = self._submit(request, remaining_s)
        except RequestError as error:
            self._num_inflight -= 1
            self._tap.refused(error.reason)
            return
        copied.tap = self._tap
        self.num_copied += 1
        copied.future.add_done_callback(self._on_end)

    def _on_end(self, future: "asyncio.Future[inference_pb2.InferResponse]") -> None:
        self._num_inflight -= 1
        # Nobody reads the answer; an error that nobody reads would be logged.
        if not future.cancelled():
            future.exception()
