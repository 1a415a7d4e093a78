"""Processes and the network between them, as parts of one program in virtual time.

Nodes can be killed, frozen and cut off from each other, the way processes and networks are.
`headway.testing.memory` carries gRPC over it.

Like turmoil (Tokio) and FoundationDB's simulation (Zhou et al., SIGMOD 2021), for asyncio.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from headway.testing.virtual import VirtualLoop

Delay = Callable[[str, str], int]
"""Time that a message between two nodes takes, in nanoseconds."""
Tamper = Callable[[str, str, str, Any], Sequence[Any]]
"""(method, source, target, message) to what is sent in its place."""
Observe = Callable[[str, str, str, Any], None]
"""(method, source, target, message), when a message is delivered."""

_NS_PER_S = 1_000_000_000
_node: ContextVar["Node"] = ContextVar("node")


class Node:
    """A process: what runs in it, and whether it does.

    Tasks that are begun inside `run` belong to it, and all that those begin.
    """

    def __init__(self, network: "Network", name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self._network = network
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def run(self, coroutine: Any) -> "asyncio.Task[Any]":
        """Starts a task of this node."""
        token = _node.set(self)
        try:
            return asyncio.get_running_loop().create_task(coroutine)
        finally:
            _node.reset(token)

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function as this node, so that what it begins belongs to it."""
        token = _node.set(self)
        try:
            return function()
        finally:
            _node.reset(token)

    def own(self, task: "asyncio.Task[Any]") -> None:
        """Takes a task in; for the loop's task factory."""
        self._tasks[task] = None
        task.add_done_callback(self._disown)

    def kill(self) -> None:
        """Ends it without a word, as SIGKILL does: peers see connections reset."""
        self.alive = False
        self._network.drop_node(self.name)
        for task in list(self._tasks):
            task.cancel()

    def freeze(self) -> None:
        """Stops it, as SIGSTOP does: nothing reaches it, and its clock wakes nobody."""
        self.frozen = True

    def thaw(self) -> None:
        """Lets it go on; what was held reaches it now."""
        self.frozen = False
        self._network.release()

    @property
    def num_tasks(self) -> int:
        """Tasks that have not ended."""
        return len(self._tasks)

    def _disown(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)


def current_node() -> Node | None:
    """Whose task this is; None where that was not said."""
    return _node.get(None)


class NodeClock:
    """The clock of a node: it stands still for sleepers while the node is frozen."""

    def __init__(self, loop: VirtualLoop, node: Node, network: "Network") -> None:
        self._loop = loop
        self._held = network.held
        self._node = node

    def now_ns(self) -> int:
        """The present instant; a frozen process would see time go on too."""
        return self._loop.now_ns

    async def sleep(self, duration_ns: int) -> None:
        """As `Clock.sleep`; later while the node is frozen."""
        woken = self._loop.create_future()
        at_s = (self._loop.now_ns + max(0, duration_ns)) / _NS_PER_S
        handle = self._loop.call_at(at_s, self._wake, woken)
        try:
            await woken
        finally:
            handle.cancel()

    def _wake(self, woken: "asyncio.Future[None]") -> None:
        if self._node.frozen:
            self._held.append((self._is_held, lambda: resolve(woken)))
        else:
            resolve(woken)

    def _is_held(self) -> bool:
        return self._node.frozen


class Link(Protocol):
    """What is between two nodes and breaks with either: a call."""

    client: Node
    server: Node

    def lose(self) -> None:
        """Both ends learn that the other is gone."""
        ...


class Listener(Protocol):
    """What is bound to a port."""

    @property
    def accepts(self) -> bool:
        """Whether new calls reach it."""
        ...


class Network:
    """Who can reach whom, and how long it takes."""

    def __init__(self, loop: VirtualLoop, delay: Delay) -> None:
        """Installs a task factory on `loop`, which tells whose a task is."""
        self.loop = loop
        self.delay = delay
        self.tamper: Tamper | None = None
        self.observe: Observe | None = None
        # What waits for a thaw or for a link to come back, in its order.
        self.held: deque[tuple[Callable[[], bool], Callable[[], None]]] = deque()
        self._nodes: dict[str, Node] = {}
        self._servers: dict[str, Listener] = {}
        self._silent: set[tuple[str, str]] = set()
        self._calls: dict[Link, None] = {}
        self._last_port = 1024
        loop.set_task_factory(_task_of_node)

    @property
    def num_calls(self) -> int:
        """Calls that are under way."""
        return len(self._calls)

    def is_open(self, call: Link) -> bool:
        """Whether a call is under way."""
        return call in self._calls

    def node(self, name: str) -> Node:
        """A new process of this name; an earlier one must be dead."""
        self._nodes[name] = Node(self, name)
        return self._nodes[name]

    def silence(self, one: str, other: str) -> None:
        """Holds all messages between two nodes, as a lost route does. Nobody is told."""
        self._silent.add(_pair(one, other))

    def restore(self, one: str, other: str) -> None:
        """Ends a silence; what was held arrives."""
        self._silent.discard(_pair(one, other))
        self.release()

    def reset(self, one: str, other: str) -> None:
        """Breaks all calls between two nodes; both learn of it."""
        for call in list(self._calls):
            if _pair(call.client.name, call.server.name) == _pair(one, other):
                call.lose()

    def release(self) -> None:
        """Lets go what is held no longer."""
        waiting, count = self.held, len(self.held)
        for _ in range(count):
            still, go_on = waiting.popleft()
            if still():
                waiting.append((still, go_on))
            else:
                go_on()

    # -- for what goes over it

    def bind(self, server: Listener, port: int) -> int:
        """Has a server found at a port; 0 gives one that nobody had before."""
        if port == 0:
            self._last_port += 1
            port = self._last_port
        self._servers[f"127.0.0.1:{port}"] = server
        return port

    def server_at(self, address: str) -> Any:
        """The server that accepts calls at host:port; None where nobody does."""
        server = self._servers.get(address)
        return server if server is not None and server.accepts else None

    def drop_node(self, name: str) -> None:
        """Breaks all calls of a node."""
        for call in list(self._calls):
            if name in (call.client.name, call.server.name):
                call.lose()

    def is_held(self, one: Node, other: Node) -> bool:
        """Whether a message between them would wait now."""
        return other.frozen or _pair(one.name, other.name) in self._silent

    def begin(self, call: Link) -> None:
        """A call is under way."""
        self._calls[call] = None

    def end(self, call: Link) -> None:
        """It is over."""
        self._calls.pop(call, None)


class Way:
    """One direction of one call: in order, delayed, held back, and bounded."""

    def __init__(self, network: Network, source: Node, target: Node) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._last_ns = 0
        self._held: deque[Callable[[], None]] = deque()
        self.closed = False

    def send(self, deliver: Callable[[], None]) -> None:
        """Has `deliver` called at the far end, after all that was sent before it."""
        if self.closed or not self._source.alive:
            return
        network = self._network
        delay_ns = network.delay(self._source.name, self._target.name)
        # Never at the same instant as the one before: asyncio does not keep the order of those.
        self._last_ns = max(self._last_ns + 1, network.loop.now_ns + delay_ns)
        network.loop.call_at(self._last_ns / _NS_PER_S, self._arrive, deliver)

    def _arrive(self, deliver: Callable[[], None]) -> None:
        if self._held or self._is_held():
            if not self._held:
                self._network.held.append((self._is_held, self._flush))
            self._held.append(deliver)
        elif not self.closed and self._target.alive:
            self._target.call(deliver)

    def _flush(self) -> None:
        while self._held:
            deliver = self._held.popleft()
            if not self.closed and self._target.alive:
                self._target.call(deliver)

    def _is_held(self) -> bool:
        return self._network.is_held(self._source, self._target)


def _task_of_node(loop: Any, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    node = _node.get(None)
    if node is not None:
        node.own(task)
    return task


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def resolve(future: "asyncio.Future[None]") -> None:
    """Wakes who waits for it; a second time changes nothing."""
    if not future.done():
        future.set_result(None)
