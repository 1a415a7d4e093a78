"""One gateway's session: what it asks for, and the line of answers to it."""

import asyncio
import hmac
from collections import deque

from headway.clock import Clock
from headway.errors import InvalidRequest, Unauthenticated
from headway.v1 import worker_pb2
from headway.worker import sizes
from headway.worker.batch import HostedModel, PendingBatch, Turn
from headway.worker.device import Device
from headway.worker.generation import Generation
from headway.worker.generator import HostedGenerator
from headway.worker.stream import PendingStream

MAX_UNSENT = 256
"""Answers a gateway may leave unread before its session is no longer read either."""

MAX_PART_TOKENS = 32
"""Tokens at which an unsent part takes no more; its output then waits for credit."""


class Outbox:
    """Messages to one gateway, in order. Never blocks the sender, so it says when to stop."""

    def __init__(self) -> None:
        self._messages: deque[worker_pb2.SessionResponse] = deque()
        self._unsent_capacity: worker_pb2.SessionResponse | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._relief: asyncio.Future[None] | None = None

    def put(self, message: worker_pb2.SessionResponse) -> None:
        """Appends a message; dropped if closed."""
        if not self._closed:
            self._messages.append(message)
            self._wake()

    def put_capacity(self, capacity: worker_pb2.Capacity) -> None:
        """Appends what can be taken; replaces the last word on it where that has not left yet."""
        unsent = self._unsent_capacity
        if unsent is not None:
            unsent.capacity.CopyFrom(capacity)
            return
        message = worker_pb2.SessionResponse(capacity=capacity)
        if not self._closed:
            self._unsent_capacity = message
        self.put(message)

    def join_part(self, part: worker_pb2.StreamPart) -> bool:
        """Adds to an unsent part of the same output; False if there is none with room.

        Only to the last message, so that nothing is overtaken. A reader that is behind gets
        fewer and larger messages.
        """
        last = self._messages[-1] if self._messages else None
        if last is None or last.WhichOneof("message") != "parts":
            return False
        for unsent in last.parts.parts:
            if unsent.item_id == part.item_id and len(unsent.token_ids) < MAX_PART_TOKENS:
                unsent.text += part.text
                unsent.token_ids.extend(part.token_ids)
                unsent.logprobs.extend(part.logprobs)
                return True
        return False

    def put_part(self, part: worker_pb2.StreamPart) -> None:
        """Appends a part, to an unsent message of others' parts where that is the last one."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last.WhichOneof("message") == "parts":
            last.parts.parts.append(part)
        else:
            self.put(worker_pb2.SessionResponse(parts=worker_pb2.StreamParts(parts=[part])))

    def close(self, error: BaseException | None = None) -> None:
        """No more messages; what is unsent is still sent, then `error` is raised, if one."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._wake()

    async def take(self) -> worker_pb2.SessionResponse | None:
        """The next message; None once closed and empty."""
        while not self._messages:
            if self._closed:
                if self._error is not None:
                    raise self._error
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self._relief is not None and len(self._messages) <= MAX_UNSENT // 2:
            _resolve(self._relief)
        message = self._messages.popleft()
        if message is self._unsent_capacity:
            self._unsent_capacity = None
        return message

    @property
    def congested(self) -> bool:
        """True if the gateway does not read its answers."""
        return len(self._messages) >= MAX_UNSENT

    async def relieved(self) -> None:
        """Returns once half of the room is free again."""
        self._relief = asyncio.get_running_loop().create_future()
        await self._relief

    def _wake(self) -> None:
        if self._reader is not None:
            _resolve(self._reader)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class GatewaySession:
    """Takes one gateway's messages, in order; puts the answers into its outbox."""

    def __init__(
        self,
        *,
        device: Device,
        models: tuple[HostedModel | HostedGenerator, ...],
        clock: Clock,
        worker_id: str,
        instance_id: str,
        fleet_token: str | None,
        max_message_bytes: int = sizes.UNBOUNDED,
        max_batch_bytes: int = sizes.UNBOUNDED,
    ) -> None:
        self.outbox = Outbox()
        self.gateway_id = ""
        self._device = device
        self._models = models
        self._clock = clock
        self._worker_id = worker_id
        self._instance_id = instance_id
        self._fleet_token = fleet_token
        self._max_message_bytes = max_message_bytes
        self._max_batch_bytes = max_batch_bytes
        self.greeted = False
        self.opened_at = clock.now_ns()
        self._half_closed = False
        self._batches: dict[int, PendingBatch] = {}
        self._turns = [Turn(self._call) for _ in models]
        self._streams: dict[int, PendingStream] = {}
        self._stream_of_item: dict[int, PendingStream] = {}
        self._generators = [model for model in models if isinstance(model, HostedGenerator)]

    def receive(self, request: worker_pb2.SessionRequest) -> None:
        """Acts on one message.

        Raises:
          InvalidRequest: it breaks the protocol.
          Unauthenticated: the greeting's token is not the fleet's.
        """
        kind = request.WhichOneof("message")
        if not self.greeted:
            self._greet(request, kind)
        elif kind == "execute":
            self._execute(request.execute)
        elif kind == "cancel":
            self._cancel(request.cancel)
        elif kind == "stream_credit":
            self._grant(request.stream_credit)
        else:
            raise InvalidRequest(
                f"message {kind or 'of no kind'} in a session that was greeted; "
                "send execute, cancel or stream_credit",
                field="message",
            )

    def half_close(self) -> None:
        """The gateway sends no more; the session ends once what it asked for is answered."""
        self._half_closed = True
        self._close_if_done()

    def lose(self) -> None:
        """The stream is gone: its work is taken back."""
        self.outbox.close()
        for batch in list(self._batches.values()):
            self._device.abandon(batch)
        self._batches.clear()
        for turn in self._turns:
            self._device.forget(turn)
        streams, self._streams = list(self._streams.values()), {}
        self._stream_of_item.clear()
        for stream in streams:
            self._generation_of(stream).abandon(stream)

    def tell_capacity(self) -> None:
        """Tells what can be taken now."""
        if self.greeted:
            self.outbox.put_capacity(self._capacity())

    def _call(self, free_in_ns: int) -> None:
        """It is this gateway's turn: one batch would be taken, whatever waits."""
        capacity = self._capacity()
        capacity.free_slots = max(1, capacity.free_slots)
        capacity.free_in_ns = free_in_ns
        self.outbox.put_capacity(capacity)

    def _greet(self, request: worker_pb2.SessionRequest, kind: str | None) -> None:
        if kind != "greeting":
            raise InvalidRequest(
                f"the session begins with {kind or 'a message of no kind'}; send greeting first",
                field="message",
            )
        given = request.greeting.fleet_token
        if self._fleet_token is not None and not _same(given, self._fleet_token):
            raise Unauthenticated(
                "greeting.fleet_token is not the fleet's; give gateways and workers the same "
                "fleet_token",
                field="greeting.fleet_token",
            )
        self.greeted = True
        self.gateway_id = request.greeting.gateway_id
        greeting = worker_pb2.WorkerGreeting(
            worker_id=self._worker_id,
            instance_id=self._instance_id,
            models=[
                worker_pb2.HostedModel(handle=model.handle, card=model.card)
                for model in self._models
            ],
            capacity=self._capacity(),
        )
        self.outbox.put(worker_pb2.SessionResponse(greeting=greeting))

    def _execute(self, message: worker_pb2.ExecuteBatch) -> None:
        batch_id = message.batch_id
        if batch_id in self._batches or batch_id in self._streams:
            raise InvalidRequest(
                f"execute.batch_id {batch_id} is in hand already; name each batch once",
                field="execute.batch_id",
            )
        if not message.items:
            raise InvalidRequest(
                f"execute.items of batch {batch_id} is empty; send at least one member",
                field="execute.items",
            )
        if len({item.item_id for item in message.items}) != len(message.items):
            raise InvalidRequest(
                f"execute.items of batch {batch_id} has an item_id twice; name each member once",
                field="execute.items",
            )
        if message.model_handle >= len(self._models):
            raise InvalidRequest(
                f"execute.model_handle {message.model_handle} is unknown; the greeting lists "
                f"0 to {len(self._models) - 1}",
                field="execute.model_handle",
            )
        model = self._models[message.model_handle]
        if isinstance(model, HostedGenerator):
            self._generate(message, model)
            return
        turn = self._turns[message.model_handle]
        batch = PendingBatch(message, model, self._clock.now_ns(), self._deliver, turn)
        self._batches[batch_id] = batch
        self._device.submit(batch)

    def _generate(self, message: worker_pb2.ExecuteBatch, model: HostedGenerator) -> None:
        item_id = message.items[0].item_id
        if len(message.items) != 1 or item_id in self._stream_of_item:
            raise InvalidRequest(
                f"execute.items of batch {message.batch_id} for {model.label}, which writes: "
                "send one member a batch, and name each once",
                field="execute.items",
            )
        stream = PendingStream(
            message,
            model.metrics,
            self._clock.now_ns(),
            deliver=self._deliver,
            parts=self.outbox,
            now_ns=self._clock.now_ns,
        )
        self._streams[message.batch_id] = self._stream_of_item[item_id] = stream
        model.generation.submit(stream)

    def _grant(self, message: worker_pb2.StreamCredit) -> None:
        # An unknown output has ended while the credit was on its way.
        stream = self._stream_of_item.get(message.item_id)
        if stream is None:
            return
        if message.parts < 1:
            raise InvalidRequest(
                f"stream_credit.parts is {message.parts}; grant at least 1",
                field="stream_credit.parts",
            )
        stream.grant(message.parts)

    def _cancel(self, message: worker_pb2.CancelItems) -> None:
        stream = self._streams.get(message.batch_id)
        if stream is not None:
            self._generation_of(stream).cancel(stream, message.item_ids)
            return
        # An unknown batch has been answered while the cancellation was on its way.
        batch = self._batches.get(message.batch_id)
        if batch is not None:
            self._device.cancel(batch, message.item_ids)

    def _deliver(self, response: worker_pb2.SessionResponse) -> None:
        if response.WhichOneof("message") == "busy":
            batch_id = response.busy.batch_id
        else:
            batch_id = response.result.batch_id
            if response.ByteSize() > min(self._max_message_bytes, self._max_batch_bytes):
                sizes.bound(
                    response.result,
                    max_message_bytes=self._max_message_bytes,
                    max_batch_bytes=self._max_batch_bytes,
                )
        self._batches.pop(batch_id, None)
        stream = self._streams.pop(batch_id, None)
        if stream is not None:
            del self._stream_of_item[stream.item.item_id]
        self.outbox.put(response)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._half_closed and not self._batches and not self._streams:
            self.outbox.close()

    def _capacity(self) -> worker_pb2.Capacity:
        capacity = worker_pb2.Capacity(
            free_slots=self._device.free_slots, draining=self._device.draining
        )
        capacity.models.extend(
            model.generation.capacity(model.handle) for model in self._generators
        )
        if capacity.models:
            first = capacity.models[0]
            capacity.free_lanes = first.free_lanes
            capacity.free_kv_units = first.free_kv_units
            capacity.first_token_wait_ns = first.first_token_wait_ns
        return capacity

    def _generation_of(self, stream: PendingStream) -> Generation:
        model = self._models[stream.message.model_handle]
        assert isinstance(model, HostedGenerator)
        return model.generation


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
