"""Runs one seed from its plan to the last invariant."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tests.dst.clients import LEFT, OK, Broken, Clients
from tests.dst.draw import MS, S
from tests.dst.invariants import Watch, WatchedRuntime, check_calls, check_idle, require
from tests.dst.plan import MODEL, WRITER, Plan, Request, draw_plan
from tests.dst.trace import Trace
from tests.dst.world import START_NS, World, wall_of

from headway.testing.network import current_node
from headway.testing.virtual import VirtualLoop
from headway.worker import wiring

PROBES = 60
"""Tries of a client that comes back every quarter of a second: within 15 s all is well again."""
PROBE_EVERY_NS = S // 4
LONGEST_NS = 200 * S
"""Of a run: what lasts longer waits for something that does not come."""


@dataclass
class Report:
    """A run of a seed."""

    seed: int
    digest: str = ""
    virtual_ns: int = 0
    num_events: int = 0
    num_turns: int = 0
    num_executions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: tuple[str, ...] = ()
    failure: str = ""


def run_seed(
    seed: int,
    show: Callable[[str], None] | None = None,
    change: Callable[[Plan], Plan] = lambda p: p,
) -> Report:
    """Runs a seed; `failure` says what does not hold.

    Args:
      show: is given each line of the trace.
      change: changes the plan, to see what follows from it.
    """
    plan = change(draw_plan(seed))
    report = Report(seed, faults=plan.kinds)
    loop = VirtualLoop()
    trace = Trace(lambda: loop.now_ns, show)
    asyncio.set_event_loop(loop)
    try:
        with _faults_of_ours() as ours:
            run = _Run(plan, loop, trace, report)
            loop.set_exception_handler(lambda _, context: ours.append(_told(context)))
            loop.run_until_complete(run.run())
            require(not ours, *ours[:3])
    except Exception as error:
        report.failure = f"{type(error).__name__}: {error}"
        if show is not None:
            import traceback

            show(traceback.format_exc())
    finally:
        asyncio.set_event_loop(None)
        _close(loop)
    report.digest = trace.digest
    report.num_events = trace.num_events
    report.virtual_ns = loop.now_ns
    return report


class _Run:
    def __init__(self, plan: Plan, loop: VirtualLoop, trace: Trace, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._world = World(plan, loop, trace)
        self._watch = Watch(self._world)
        self._clients = Clients(self._world)
        loop.on_turn(self._on_turn)

    async def run(self) -> None:
        world, report = self._world, self._report
        with wall_of(world), mock.patch.object(wiring, "make_runtime", self._make_runtime()):
            world.start()
            await world.pass_time(START_NS)
            try:
                await self._storm_and_calm()
            finally:
                report.num_turns = self._watch.num_turns
                report.num_executions = self._watch.num_executions
                report.outcomes = Counter(call.outcome for call in self._clients.calls)
            await self._shut_down()
        self._raise_failure()

    async def _storm_and_calm(self) -> None:
        world, plan = self._world, self._plan
        faults = [asyncio.ensure_future(self._inject(fault)) for fault in plan.faults]
        shifted = [_later(request, START_NS) for request in plan.requests]
        await self._clients.run(shifted)
        if faults:
            await asyncio.wait(faults)
        for fault in faults:
            fault.result()
        world.heal()
        await self._comes_back()
        self._raise_failure()
        # What the last callers said on leaving arrives.
        await world.pass_time(5 * MS)
        check_calls(world, self._clients.calls)
        await self._until_idle()
        for each in world.gateways:
            check_idle(each)

    async def _inject(self, fault: Any) -> None:
        await self._world.pass_time(fault.at_ns + START_NS - self._world.loop.now_ns)
        await self._world.inject(fault)

    async def _comes_back(self) -> None:
        """Every model that has a device that can work is served again, by every gateway."""
        able = [plan for plan in self._plan.workers if not _hopeless(plan.runtime)]
        models = [MODEL] if able else []
        models += [WRITER] if any(plan.writes for plan in self._plan.workers) else []
        number = 10_000
        for gateway in range(len(self._world.gateways)):
            for model in models:
                for _ in range(PROBES):
                    number += 1
                    probe = Request(number, 0, gateway, "unary", model, 16, 2 * S, 2, 1, None, "")
                    await asyncio.wait([self._clients.begin(probe)])
                    if self._clients.calls[-1].outcome == OK:
                        break
                    await self._world.pass_time(PROBE_EVERY_NS)
                last = self._clients.calls[-1].outcome
                require(last == OK, f"gateway-{gateway} does not serve {model} again:", last)

    async def _until_idle(self) -> None:
        """Gives workers the time to drop what was cancelled, and gateways to give up on answers."""
        await self._world.pass_time(7 * S if self._plan.swallowed else S)

    async def _shut_down(self) -> None:
        world = self._world
        for each in world.gateways:
            await each.node.run(each.gateway.path.drain())
            await each.node.run(each.gateway.fleet.close())
        for worker in world.workers:
            await worker.drain()
        await world.pass_time(100 * MS)
        self._raise_failure()
        for each in world.gateways:
            require(each.gateway.scheduler.num_live() == 0, each.name, "has requests left")
            each.kill()
        for worker in world.workers:
            worker.kill()
        await world.pass_time(100 * MS)
        require(world.network.num_calls == 0, world.network.num_calls, "calls never ended")
        for node in (*(g.node for g in world.gateways), *(w.node for w in world.workers)):
            require(node.num_tasks == 0, node.name, "has", node.num_tasks, "tasks left")
        require(world.client.num_tasks == 0, "clients have tasks left")

    def _on_turn(self) -> None:
        self._watch.on_turn()
        if self._world.loop.now_ns > LONGEST_NS:
            raise Broken("it does not end")

    def _raise_failure(self) -> None:
        if self._watch.failure is not None:
            raise self._watch.failure

    def _make_runtime(self) -> Callable[..., Any]:
        make = wiring.make_runtime

        def watched(settings: Any, **given: Any) -> Any:
            return WatchedRuntime(
                make(settings, **given), getattr(current_node(), "name", ""), self._watch
            )

        return watched


def _later(request: Request, by_ns: int) -> Request:
    import dataclasses

    return dataclasses.replace(request, at_ns=request.at_ns + by_ns)


def _hopeless(runtime: dict[str, Any]) -> bool:
    failures = runtime["failures"]
    return sum(failures.get(name, 0) for name in ("fail", "fail_fast", "hang", "busy")) >= 0.6


@contextlib.contextmanager
def _faults_of_ours() -> Iterator[list[str]]:
    """What is logged as an error is one of ours."""
    told: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(f"logged by {record.name}: {record.getMessage()}")

    handler = Keep(logging.ERROR)
    logger = logging.getLogger("headway")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    try:
        yield told
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _told(context: dict[str, Any]) -> str:
    return f"{context.get('message')}: {context.get('exception')!r}"


def _close(loop: VirtualLoop) -> None:
    """Ends what a failed run has left, without a word."""
    loop.on_turn(lambda: None)
    loop.set_exception_handler(lambda *_: None)
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with contextlib.suppress(Exception):
        loop.run_until_complete(_turns(loop))
    loop.close()


async def _turns(loop: VirtualLoop) -> None:
    for _ in range(20):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


__all__ = ["LEFT", "Report", "run_seed"]
