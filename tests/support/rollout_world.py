"""Rollouts of one gateway in virtual time, on a ledger whose answers a test holds back."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from tests.support.held_ledger import HeldLedger

from headway._core import Scheduler
from headway.gateway.catalog import Catalog, Model
from headway.gateway.rollouts.service import Rollouts
from headway.gateway.settings import GatewaySettings
from headway.store.records import Author, RolloutRecord
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.testing.virtual import LoopClock, VirtualLoop
from headway.v1 import types_pb2

MS = 1_000_000
OPERATOR = Author("ops")
STEP = {"min_seconds": 0.5, "min_requests": 5, "max_error_rate": 1.0, "max_latency_ratio": 100,
        "max_seconds": 1, "on_inconclusive": "advance_if_clean"}  # fmt: skip
QUICK: dict[str, Any] = {
    "steps": [{"share": share, **STEP} for share in (0.1, 0.4, 0.9)],
    "analysis_seconds": 0.2,
    "tick_seconds": 0.1,
    "warmup_seconds": 0,
    "latency_tolerance": 50,
    "capacity": {"forecast": False},
}


class World:
    """A gateway's rollouts of two models on a held ledger, and traffic for their versions.

    Attributes:
      num_served: good requests that ended while they were tapped, by model and version.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = LoopClock(loop)
        self.num_served: Counter[tuple[str, str]] = Counter()
        settings = GatewaySettings(insecure_no_auth=True)
        self.catalog = Catalog(settings, Scheduler(seed=1, max_live=8), GatewayMetrics(Gauges))
        for model in ("a", "b"):
            for version in ("v1", "v2"):
                pool = self.catalog.host(types_pb2.ModelCard(model=model, version=version))
                pool.num_ready = 1
            self.catalog.override_split(self.catalog.models[model], ({"v1": 1.0, "v2": 0.0}, 2))
        self.ledger = HeldLedger(self.catalog)
        ledger: Any = self.ledger
        self.rollouts = Rollouts(self.catalog, ledger, self.clock, self._submit, gateway_id="g1")

    @staticmethod
    def _submit(request: Any, remaining_s: float) -> Any:
        raise AssertionError("no shadow step")

    async def start(self, model: str = "a", settings: Mapping[str, Any] = QUICK) -> str:
        record = await self.rollouts.start(model, "v2", "", settings, OPERATOR)
        return record.rollout_id

    @contextlib.asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        """The loop runs meanwhile."""
        running = asyncio.ensure_future(self.rollouts.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def settle(self) -> None:
        """All that waits for no answer and no tick has happened."""
        await self.clock.sleep(1)

    async def serve(self, until: Callable[[], bool], model: str = "a") -> None:
        """Good requests for both versions, every 20 ms, until something is so: for 60 s at most."""
        for _ in range(3000):
            if until():
                return
            await self.clock.sleep(20 * MS)
            for pool in self.catalog.models[model].versions.values():
                if pool.tap is not None:
                    for _ in range(4):
                        self.num_served[model, pool.version] += 1
                        pool.tap.ended(self.clock.now_ns(), "ok", 5 * MS, 1)
        raise AssertionError("it never came to that")

    async def serve_for(self, seconds: float) -> None:
        ends_ns = self.clock.now_ns() + round(seconds * 1000) * MS
        await self.serve(lambda: self.clock.now_ns() >= ends_ns)

    def kill(self, tap: Any) -> None:
        """Requests of the canary end, each for itself, and all fail."""
        for number in range(200):
            tap.ended(self.clock.now_ns() + number, "UPSTREAM_FAILURE", 5 * MS, 1)

    def seen(self, rollout_id: str) -> RolloutRecord:
        """The rollout as this gateway shows it; its controller has the same, if there is one."""
        for record, controller in self.rollouts.active():
            if record.rollout_id == rollout_id:
                assert controller is None or controller.record == record
                return record
        raise AssertionError(f"{rollout_id} is not shown as active")

    def stored(self, rollout_id: str) -> RolloutRecord:
        return self.ledger.stored[rollout_id]

    def model(self, name: str = "a") -> Model:
        return self.catalog.models[name]


def in_virtual_time(body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Runs a test; whatever waits for ever ends it as a deadlock."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(body(World(loop)))
    finally:
        loop.close()
