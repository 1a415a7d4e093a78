"""One output in the worker's hands: its parts as the gateway takes them, and its one result."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from headway.engine.lane import EngineLane
from headway.engine.request import Ending, Finish
from headway.rpc.convert import tensor_from_array
from headway.telemetry.worker import NUM_STATUSES, ModelMetrics
from headway.v1 import types_pb2, worker_pb2

HELD_TOKENS = 32
"""Tokens that may wait for a reader before its lane is left out of steps."""

_STATUS = {
    Finish.STOP: worker_pb2.ITEM_STATUS_OK,
    Finish.LENGTH: worker_pb2.ITEM_STATUS_OK,
    Finish.CANCELLED: worker_pb2.ITEM_STATUS_CANCELLED,
    Finish.EXPIRED: worker_pb2.ITEM_STATUS_EXPIRED,
    Finish.FAILED: worker_pb2.ITEM_STATUS_FAILED,
}
_REASON = {
    Finish.STOP: types_pb2.FINISH_REASON_STOP,
    Finish.LENGTH: types_pb2.FINISH_REASON_LENGTH,
}


class PartLine(Protocol):
    """A session's line of messages, as an output sees it."""

    def join_part(self, part: worker_pb2.StreamPart) -> bool:
        """Adds to an unsent part of the same output; False if there is none with room."""
        ...

    def put_part(self, part: worker_pb2.StreamPart) -> None:
        """Appends a part."""
        ...


class PendingStream:
    """A request for an output, from receipt to answer. Answered exactly once, or abandoned.

    A part takes one credit; what joins a part that has not left takes none. Without a first
    credit nobody reads along: the output is in the result alone.
    """

    __slots__ = (
        "_credit", "_deliver", "_logprobs", "_now_ns", "_parts", "_text", "_tokens", "_unsent",
        "_wrote_at", "granted", "held", "item", "lane", "message", "metrics", "received_at",
        "set_held",
    )  # fmt: skip

    def __init__(
        self,
        message: worker_pb2.ExecuteBatch,
        metrics: ModelMetrics,
        received_at: int,
        *,
        deliver: Callable[[worker_pb2.SessionResponse], None],
        parts: PartLine,
        now_ns: Callable[[], int],
    ) -> None:
        """Makes the stream of a batch of one.

        Args:
          received_at: in ns.
          deliver: called once, with the result or the busy answer.
          parts: where parts go.
          now_ns: the present instant.
        """
        self.message = message
        self.item = message.items[0]
        self.metrics = metrics
        self.received_at = received_at
        self.lane: EngineLane | None = None
        self.granted = False
        self.held = False
        self.set_held: Callable[[bool], None] = lambda held: None
        self._deliver: Callable[[worker_pb2.SessionResponse], None] | None = deliver
        self._parts = parts
        self._now_ns = now_ns
        self._wrote_at: int | None = None
        self._credit = 0
        self._text: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._unsent = worker_pb2.StreamPart(item_id=self.item.item_id)

    # -- the engine's side

    def on_output(self, text: str, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Keeps it for the result, and sends it along where somebody reads along."""
        if token_ids:
            self._note_delivery()
        self._text.append(text)
        self._tokens.extend(token_ids)
        self._logprobs.extend(logprobs)
        self._unsent.text += text
        self._unsent.token_ids.extend(token_ids)
        self._unsent.logprobs.extend(logprobs)
        self._send()

    def on_end(self, ending: Ending) -> None:
        """Answers. What the reader has no credit for is in the result."""
        status = _STATUS[ending.finish]
        result = worker_pb2.ItemResult(item_id=self.item.item_id, status=status)
        if status == worker_pb2.ITEM_STATUS_OK:
            result.output.CopyFrom(self._output(ending))
            result.usage.prompt_units = ending.prompt_tokens
            result.usage.output_units = ending.output_tokens
            result.usage.rows = 1
        elif ending.error:
            result.message = ending.error
        units = ending.prompt_tokens + ending.output_tokens
        self._answer(result, units, ending.device_ns)

    # -- the session's side

    def grant(self, parts: int) -> None:
        """The reader takes so many parts more."""
        self.granted = True
        self._credit += parts
        self._send()

    def refuse(self, status: "worker_pb2.ItemStatus", message: str) -> None:
        """Answers without a lane."""
        result = worker_pb2.ItemResult(item_id=self.item.item_id, status=status, message=message)
        self._answer(result, 0, 0)

    def answer_busy(self, retry_after_ns: int, draining: bool) -> None:
        """Says that it was not begun."""
        self.metrics.busy += 1
        busy = worker_pb2.BatchBusy(
            batch_id=self.message.batch_id, retry_after_ns=retry_after_ns, draining=draining
        )
        self._send_once(worker_pb2.SessionResponse(busy=busy))

    def abandon(self) -> None:
        """Forgets who asked."""
        self._deliver = None

    def _note_delivery(self) -> None:
        now_ns, last = self._now_ns(), self._wrote_at
        since = self.received_at if last is None else last
        self.metrics.wrote(now_ns - since, first=last is None)
        self._wrote_at = now_ns

    def _send(self) -> None:
        unsent = self._unsent
        if unsent.text or unsent.token_ids:
            if not self.granted:
                unsent.Clear()
                unsent.item_id = self.item.item_id
                return
            sent = self._parts.join_part(unsent)
            if not sent and self._credit > 0:
                self._credit -= 1
                self._parts.put_part(unsent)
                sent = True
            if sent:
                self._unsent = worker_pb2.StreamPart(item_id=self.item.item_id)
        self._hold(len(self._unsent.token_ids) >= HELD_TOKENS)

    def _hold(self, held: bool) -> None:
        if held != self.held:
            self.held = held
            self.set_held(held)

    def _output(self, ending: Ending) -> types_pb2.Output:
        output = types_pb2.Output(
            text="".join(self._text), token_ids=self._tokens, finish_reason=_REASON[ending.finish]
        )
        if self._logprobs:
            row = np.asarray([self._logprobs], np.float32)
            output.tensors.append(tensor_from_array("logprobs", row))
        return output

    def _answer(self, item: worker_pb2.ItemResult, units: int, device_ns: int) -> None:
        response = worker_pb2.SessionResponse()
        result = response.result
        result.batch_id = self.message.batch_id
        result.items.append(item)
        result.device_ns = device_ns
        result.units = units
        by_status = [0] * NUM_STATUSES
        by_status[item.status] = 1
        self.metrics.answered(by_status, units, device_ns, 0)
        self._send_once(response)

    def _send_once(self, response: worker_pb2.SessionResponse) -> None:
        deliver, self._deliver = self._deliver, None
        if deliver is not None:
            deliver(response)
