"""The calls of a drill: made, judged, and counted. None may last longer than its deadline."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headway._core import Rng
from headway.client import Client, GatewayUnreachable, UnexpectedStatus, text_request
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.runtimes.base import ItemOutput
from headway.runtimes.simulated import answer
from headway.v1 import inference_pb2, types_pb2

OK: Final = "ok"
WRONG: Final = "WRONG_ANSWER"
GRACE_NS: Final = 100_000_000
"""A call must have ended so long after its deadline: what it may spend on the way, both ways."""

_ELSEWHERE_NS: Final = 50_000_000
_LONGEST_PAUSE_S: Final = 0.25
_WATCH_NS: Final = 10_000_000
_TRANSIENT: Final = frozenset(
    {"UNREACHABLE", "DRAINING", "NO_CAPACITY", "MODEL_LOADING", "OVERLOADED"}
)


@dataclass
class Tally:
    """How calls ended.

    Attributes:
      latest_ns: the longest time beyond a deadline; negative if all ended before.
      attempts: of calls that were answered, how often each was begun.
      units: work units of those, as the worker counted them.
      paused_ns: the longest that this process itself stood still meanwhile. A call that ended late
        by no more says as much about the machine as about the fleet.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    latest_ns: int = -(10**18)
    slowest_ns: int = 0
    units: int = 0
    paused_ns: int = 0

    @property
    def ok(self) -> int:
        """Calls that were answered."""
        return self.outcomes[OK]

    @property
    def num_calls(self) -> int:
        """Calls that have ended."""
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        """Calls that ended otherwise."""
        return self.num_calls - self.ok

    def figures(self) -> dict[str, Any]:
        """Numbers for the report."""
        return {
            "calls": self.num_calls,
            "outcomes": dict(sorted(self.outcomes.items())),
            "begun_again": sum(n for attempts, n in self.attempts.items() if attempts > 1),
            "latest_after_deadline_ms": round(self.latest_ns / 1e6, 1),
            "slowest_ms": round(self.slowest_ns / 1e6, 1),
            "client_paused_ms": round(self.paused_ns / 1e6, 1),
        }


class Calls:
    """Clients of one or several gateways, each call with a text of its own.

    Where there are several gateways, a call that one cannot take goes to the next one, within its
    deadline, as clients of a fleet do.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        clock: Clock,
        rng: Rng,
        model: str,
        api_key: str | None = None,
    ) -> None:
        self.tally = Tally()
        self._clock = clock
        self._rng = rng
        self._model = model
        self._clients = [Client(address, api_key=api_key) for address in addresses]
        self._num_made = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._stopped = False

    async def one(self, timeout_s: float = 2.0) -> str:
        """Makes a call; returns how it ended."""
        self._num_made += 1
        text = f"call {self._num_made} " + "x" * (self._num_made % 50)
        client = self._num_made
        began_ns = self._clock.now_ns()
        deadline_ns = began_ns + round(timeout_s * 1e9)
        outcome = await self._try(text, client, deadline_ns)
        ended_ns = self._clock.now_ns()
        self.tally.outcomes[outcome] += 1
        self.tally.latest_ns = max(self.tally.latest_ns, ended_ns - deadline_ns)
        self.tally.slowest_ns = max(self.tally.slowest_ns, ended_ns - began_ns)
        return outcome

    def start_clients(self, count: int, timeout_s: float = 2.0) -> None:
        """Begins clients that make one call after the other until `stop`."""
        self._watch_pauses()

        async def client() -> None:
            while not self._stopped:
                if await self.one(timeout_s) != OK:
                    await self._clock.sleep(_ELSEWHERE_NS)

        for _ in range(count):
            self._keep(client())

    async def offer(self, rate_per_s: float, seconds: float, timeout_s: float = 2.0) -> None:
        """Makes calls at random instants, whether earlier ones have ended or not."""
        self._watch_pauses()
        due_ns = self._clock.now_ns()
        end_ns = due_ns + round(seconds * 1e9)
        while due_ns < end_ns and not self._stopped:
            await self._clock.sleep(due_ns - self._clock.now_ns())
            self._keep(self._discard(self.one(timeout_s)))
            due_ns += round(-math.log(1 - self._rng.uniform()) / rate_per_s * 1e9)

    async def until_answered(self, count: int, within_s: float = 30.0) -> bool:
        """Waits for `count` more answers; False if they did not come in time."""
        wanted, give_up_ns = self.tally.ok + count, self._clock.now_ns() + round(within_s * 1e9)
        return await self._until(lambda: self.tally.ok >= wanted, give_up_ns)

    async def stop(self) -> Tally:
        """Lets every call end; returns how they ended."""
        self._stopped = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._watch is not None:
            self._watch.cancel()
        return self.tally

    async def close(self) -> None:
        """Ends what is under way and closes the connections."""
        ending = [*self._tasks, *(() if self._watch is None else (self._watch,))]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self._clients))

    def _watch_pauses(self) -> None:
        async def watch() -> None:
            while True:
                began_ns = self._clock.now_ns()
                await self._clock.sleep(_WATCH_NS)
                late_ns = self._clock.now_ns() - began_ns - _WATCH_NS
                self.tally.paused_ns = max(self.tally.paused_ns, late_ns)

        if self._watch is None:
            self._watch = asyncio.ensure_future(watch())

    async def _until(self, holds: Callable[[], bool], give_up_ns: int) -> bool:
        while not holds():
            if self._clock.now_ns() > give_up_ns:
                return False
            await self._clock.sleep(_ELSEWHERE_NS // 5)
        return True

    async def _try(self, text: str, client: int, deadline_ns: int) -> str:
        while True:
            left_ns = deadline_ns - self._clock.now_ns()
            address = self._clients[client % len(self._clients)]
            outcome, pause_s = await self._once(address, text, max(left_ns, 1_000_000) / 1e9)
            pause_ns = round(pause_s * 1e9)
            again = outcome in _TRANSIENT and len(self._clients) > 1
            if not again or self._clock.now_ns() + pause_ns >= deadline_ns:
                return outcome
            await self._clock.sleep(pause_ns)
            client += 1

    async def _once(self, client: Client, text: str, timeout_s: float) -> tuple[str, float]:
        """How a try ended, and the pause before another one makes sense."""
        request = text_request(text, model=self._model)
        try:
            response = await client.infer(request, timeout_s=timeout_s)
        except (HeadwayError, GatewayUnreachable, UnexpectedStatus) as error:
            retry_ns = getattr(error, "retry_after_ns", None)
            pause_s = _ELSEWHERE_NS / 1e9 if retry_ns is None else retry_ns / 1e9
            return getattr(error, "reason", "UNKNOWN"), min(pause_s, _LONGEST_PAUSE_S)
        self.tally.replicas[response.replica] += 1
        self.tally.attempts[response.attempts] += 1
        self.tally.units += response.usage.prompt_units
        return (OK if _is_answer(response, text) else WRONG), 0.0

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _discard(self, work: Awaitable[object]) -> None:
        await work


def _is_answer(response: inference_pb2.InferResponse, text: str) -> bool:
    """Whether the answer is to this text: simulated devices answer with its digest."""
    expected = answer(types_pb2.Input(text=text))
    return isinstance(expected, ItemOutput) and response.output == expected.output
