"""One gateway's session: what it asks for, and the line of answers to it."""

import asyncio
import hmac
from collections import deque

from headway.clock import Clock
from headway.errors import InvalidRequest, Unauthenticated
from headway.v1 import worker_pb2
from headway.worker.batch import HostedModel, PendingBatch
from headway.worker.device import Device

MAX_UNSENT = 256
"""Answers a gateway may leave unread before its session is no longer read either."""


class Outbox:
    """Messages to one gateway, in order. Never blocks the sender, so it says when to stop."""

    def __init__(self) -> None:
        self._messages: deque[worker_pb2.SessionResponse] = deque()
        self._closed = False
        self._error: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._relief: asyncio.Future[None] | None = None

    def put(self, message: worker_pb2.SessionResponse) -> None:
        """Appends a message; dropped if closed."""
        if not self._closed:
            self._messages.append(message)
            self._wake()

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
        return self._messages.popleft()

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
        models: tuple[HostedModel, ...],
        clock: Clock,
        worker_id: str,
        instance_id: str,
        fleet_token: str | None,
    ) -> None:
        self.outbox = Outbox()
        self.gateway_id = ""
        self._device = device
        self._models = models
        self._clock = clock
        self._worker_id = worker_id
        self._instance_id = instance_id
        self._fleet_token = fleet_token
        self.greeted = False
        self.opened_at = clock.now_ns()
        self._turned_away = False
        self._half_closed = False
        self._batches: dict[int, PendingBatch] = {}

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
            pass  # No hosted model streams, so there is nothing the credit could be for.
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

    def tell_freed(self) -> None:
        """Tells a gateway that was turned away that there is room again."""
        if self._turned_away and self._device.free_slots > 0:
            self._turned_away = False
            self.tell_capacity()

    def tell_capacity(self) -> None:
        """Tells what can be taken now."""
        if self.greeted:
            self.outbox.put(worker_pb2.SessionResponse(capacity=self._capacity()))

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
        if batch_id in self._batches:
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
        batch = PendingBatch(
            message, self._models[message.model_handle], self._clock.now_ns(), self._deliver
        )
        self._batches[batch_id] = batch
        self._device.submit(batch)

    def _cancel(self, message: worker_pb2.CancelItems) -> None:
        # An unknown batch has been answered while the cancellation was on its way.
        batch = self._batches.get(message.batch_id)
        if batch is not None:
            self._device.cancel(batch, message.item_ids)

    def _deliver(self, response: worker_pb2.SessionResponse) -> None:
        if response.WhichOneof("message") == "busy":
            self._turned_away = not response.busy.draining
            batch_id = response.busy.batch_id
        else:
            batch_id = response.result.batch_id
        self._batches.pop(batch_id, None)
        self.outbox.put(response)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._half_closed and not self._batches:
            self.outbox.close()

    def _capacity(self) -> worker_pb2.Capacity:
        return worker_pb2.Capacity(
            free_slots=self._device.free_slots, draining=self._device.draining
        )


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
