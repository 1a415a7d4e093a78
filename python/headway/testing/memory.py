"""gRPC between the nodes of a `Network`: the stubs and servicers of the product, without sockets.

A `MemoryServer` takes the place of `grpc.aio.server()`, a `MemoryChannel` that of a channel.
Messages are serialized, as on a wire, and arrive in order on each call after a delay.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self, cast

from grpc import aio

from headway.testing.memory_call import Call, StreamCall, UnaryCall
from headway.testing.network import Network, Node


class MemoryServer:
    """In the place of `grpc.aio.server()`."""

    def __init__(self, network: Network, node: Node) -> None:
        self.node = node
        self.calls: dict[Call, None] = {}
        self._network = network
        self._handlers: dict[str, Any] = {}
        self._started = False
        self._stopping = False

    @property
    def accepts(self) -> bool:
        """Whether new calls reach it."""
        return self._started and not self._stopping and self.node.alive

    def handler(self, method: str) -> Any:
        """What serves a method."""
        return self._handlers[method]

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Nothing: what counts comes by name."""

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """Takes in a servicer's methods."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = handler

    def add_insecure_port(self, address: str) -> int:
        """Binds; port 0 gives one that nobody had before."""
        return self._network.bind(self, int(address.rpartition(":")[2]))

    async def start(self) -> None:
        """Accepts calls from here on."""
        self._started = True

    async def stop(self, grace: float | None) -> None:
        """Refuses new calls, gives old ones `grace` seconds, then cancels them."""
        self._stopping = True
        tasks = [call._task for call in self.calls if call._task is not None]
        if tasks and grace:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def connect_from(network: Network, node: Node) -> Callable[[str], aio.Channel]:
    """What opens channels for a node: a `headway.rpc.channels.Connect`."""
    return lambda address: cast(aio.Channel, MemoryChannel(network, node, address))


class MemoryChannel:
    """In the place of a grpc.aio channel: what stubs are made of."""

    def __init__(self, network: Network, node: Node, address: str) -> None:
        self.network = network
        self.node = node
        self.address = address
        self._open: dict[Call, None] = {}

    def unary_unary(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any
    ) -> Callable[..., UnaryCall]:
        """A method with one request and one answer."""
        return lambda request, *, timeout=None, metadata=None, **_: self._keep(
            UnaryCall(
                request, self, method, request_serializer, response_deserializer, timeout, metadata
            )
        )

    def unary_stream(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any
    ) -> Callable[..., StreamCall]:
        """A method with one request and many answers."""
        return lambda request, *, timeout=None, metadata=None, **_: self._keep(
            StreamCall(
                request, self, method, request_serializer, response_deserializer, timeout, metadata
            )
        )

    def stream_stream(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any
    ) -> Callable[..., StreamCall]:
        """A method with many requests and many answers."""
        return lambda *, timeout=None, metadata=None, **_: self._keep(
            StreamCall(
                None, self, method, request_serializer, response_deserializer, timeout, metadata
            )
        )

    async def close(self, grace: float | None = None) -> None:
        """Cancels what is under way."""
        for call in list(self._open):
            if self.network.is_open(call):
                call.cancel()
        self._open.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _keep(self, call: Any) -> Any:
        if len(self._open) >= 64:
            self._open = {each: None for each in self._open if self.network.is_open(each)}
        self._open[call] = None
        return call
