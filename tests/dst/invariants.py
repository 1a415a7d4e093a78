"""What holds at every turn of the event loop, and at the end."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.dst.clients import LEFT, OK, Broken, Call
from tests.dst.draw import MS
from tests.dst.plan import WRITER
from tests.dst.world import SESSION, SimulatedGateway, World

from headway.gateway.services import Gateway
from headway.runtimes.base import Execution, Runtime
from headway.v1 import types_pb2, worker_pb2

EVERY = 16
"""Turns between two looks at what takes time to look at."""

Key = tuple[str, str]


def require(holds: bool, *words: object) -> None:
    if not holds:
        raise Broken(" ".join(map(str, words)))


class Watch:
    """Looks at every gateway at each turn, and at every message of a session."""

    def __init__(self, world: World) -> None:
        self.num_turns = 0
        self.num_executions = 0
        self.failure: Broken | None = None
        self._world = world
        # Members in workers' hands: (worker, text) to gateway, receipt and time left.
        self._in_hand: dict[Key, tuple[str, int, int]] = {}
        self._taken_back: dict[Key, int] = {}
        # Batches in which a worker was sent a member and has neither answered nor been stopped.
        self._batches: dict[Key, set[tuple[str, int]]] = {}
        self._text_of: dict[tuple[str, str, int], str] = {}
        world.network.observe = self._on_message

    def on_turn(self) -> None:
        self.num_turns += 1
        self._noting(self._check_all)

    def _noting(self, check: Callable[..., None], *given: Any) -> None:
        """Keeps the first failure: an exception here would be taken for one of the product's."""
        try:
            check(*given)
        except Broken as error:
            self.failure = self.failure or error

    def _check_all(self) -> None:
        for each in self._world.gateways:
            if each.starts and each.node.alive:
                self._check(each, thorough=self.num_turns % EVERY == 0)

    def _check(self, each: SimulatedGateway, *, thorough: bool) -> None:
        gateway = each.gateway
        executing, flights = gateway.scheduler.num_executing(), gateway.dispatcher.num_flights()
        require(
            executing == flights, each.name, "has", executing, "batches and", flights, "flights"
        )
        if not thorough:
            return
        on_replicas = 0
        for replica in gateway.fleet.replicas.values():
            stats = gateway.scheduler.replica_stats(replica.handle)
            # Behind the only one a second may wait, sent just before that one ends.
            most = max(2, gateway.fleet.workers[replica.worker_id].max_outstanding)
            on_replicas += stats.outstanding_batches
            # One with a single slot gets its next batch just before it is free.
            most = max(2, most)
            require(0 <= stats.outstanding_batches <= most, replica.name, "is beyond its slots")
        require(on_replicas == executing, each.name, "counts", on_replicas, "batches of", executing)
        live = gateway.scheduler.num_live()
        pools = [gateway.scheduler.pool_stats(handle) for handle in gateway.catalog.pools]
        queued = sum(pool.queued_requests for pool in pools)
        running = sum(pool.executing_requests for pool in pools)
        require(live == queued + running, each.name, "live", live, "queued", queued, "run", running)

    # -- what workers do

    def _on_message(self, method: str, source: str, target: str, message: Any) -> None:
        if method != SESSION:
            return
        kind = message.WhichOneof("message")
        if kind == "execute":
            self._noting(self._on_execute, source, target, message.execute)
        elif kind == "cancel":
            self._on_cancel(source, target, message.cancel)
        elif kind == "result":
            self._on_result(source, target, message.result)
        elif kind == "busy":
            for batches in self._batches.values():
                batches.discard((target, message.busy.batch_id))
        if kind != "capacity":
            self._world.trace.add(source, "to", target, kind, _numbers(message))

    def _on_execute(self, source: str, target: str, execute: worker_pb2.ExecuteBatch) -> None:
        for item in execute.items:
            key = target, item.input.text
            self._in_hand[key] = source, self._world.loop.now_ns, item.remaining_ns
            self._taken_back.pop(key, None)
            self._batches.setdefault(key, set()).add((source, execute.batch_id))
            self._text_of[source, target, item.item_id] = item.input.text
            require(item.remaining_ns > 0, "a member was sent without time left")

    def _on_cancel(self, source: str, target: str, cancel: worker_pb2.CancelItems) -> None:
        for item_id in cancel.item_ids:
            text = self._text_of.get((source, target, item_id))
            if text is None or self._in_hand.get((target, text), ("",))[0] != source:
                continue
            # One that left it out of its answer may still have it in that batch.
            batches = self._batches.get((target, text), set())
            batches.discard((source, cancel.batch_id))
            if not any(gateway == source for gateway, _ in batches):
                self._taken_back[target, text] = self._world.loop.now_ns

    def _on_result(self, worker: str, gateway: str, result: worker_pb2.BatchResult) -> None:
        for item in result.items:
            text = self._text_of.get((gateway, worker, item.item_id))
            if text is not None:
                self._batches.get((worker, text), set()).discard((gateway, result.batch_id))

    def on_run(self, worker: str, texts: Sequence[str]) -> None:
        """A device begins a batch."""
        self.num_executions += 1
        self._world.trace.add(worker, "runs", *(text.split(" x")[0] for text in texts))
        self._noting(self._check_run, worker, texts)

    def _check_run(self, worker: str, texts: Sequence[str]) -> None:
        now_ns = self._world.loop.now_ns
        for text in texts:
            key = worker, text
            require(key in self._in_hand, worker, "runs what nobody sent")
            # At the same instant, the batch had begun when the cancellation was read.
            taken_back_ns = self._taken_back.get(key, now_ns)
            require(taken_back_ns >= now_ns, worker, "runs what was cancelled", text[:20])
            _, received_ns, remaining_ns = self._in_hand[key]
            require(now_ns < received_ns + remaining_ns, worker, "runs what is too late", text[:20])


class WatchedRuntime:
    """A runtime that tells what it begins."""

    def __init__(self, runtime: Runtime, worker: str, watch: Watch) -> None:
        self._runtime = runtime
        self._worker = worker
        self._watch = watch
        self.load, self.card, self.close = runtime.load, runtime.card, runtime.close
        self.count_units = runtime.count_units

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        self._watch.on_run(self._worker, [item.text for item in items])
        return await self._runtime.run(items)


def check_calls(world: World, calls: Sequence[Call]) -> None:
    """Each ended once, and the gateways' records say when."""
    for call in calls:
        require(call.outcome != "", call.request_id, "never ended")
        require(call.outcome not in ("INTERNAL", "UNKNOWN"), call.request_id, call.outcome)
        for each in world.gateways:
            record = each.gateway.decisions.find(call.request_id)
            if record is None or not record.deadline_ns:
                continue
            require(record.outcome != "", call.request_id, "has no outcome at", each.name)
            late_ns = record.ended_ns - max(record.deadline_ns, record.arrived_ns)
            require(late_ns <= MS, call.request_id, "ended", late_ns / 1e6, "ms too late")
            if call.outcome == OK and call.replica:
                require(record.outcome == OK or bool(call.request.key), call.request_id, "differs")


def check_idle(each: SimulatedGateway) -> None:
    """Nothing is left of what was."""
    gateway = each.gateway
    name = each.name
    require(gateway.scheduler.num_live() == 0, name, "has requests left")
    require(gateway.scheduler.num_executing() == 0, name, "has batches left")
    require(not gateway.streams.live, name, "has outputs left")
    require(gateway.scheduler.num_outputs() == 0, name, "has outputs in its scheduler left")
    for handle in gateway.catalog.pools:
        stats = gateway.scheduler.pool_stats(handle)
        left = (stats.queued_requests, stats.queued_units, stats.queued_rows,
                stats.executing_requests, stats.executing_batches)  # fmt: skip
        require(left == (0, 0, 0, 0, 0), name, "has", left, "left")
        require(stats.inflight == (0, 0, 0), name, "has", stats.inflight, "in hand by class")
    check_counts(gateway, name)


def check_counts(gateway: Gateway, name: str) -> None:
    """Each request was counted once."""
    counted = sum(gateway.metrics.outcomes().values())
    require(counted == len(gateway.decisions), name, "counted", counted, "of",
            len(gateway.decisions))  # fmt: skip


def _numbers(message: Any) -> str:
    kind = message.WhichOneof("message")
    part = getattr(message, kind)
    if kind == "execute":
        return f"{part.batch_id} {[item.item_id for item in part.items]}"
    if kind == "result":
        return f"{part.batch_id} {[(item.item_id, item.status) for item in part.items]}"
    if kind == "cancel":
        return f"{part.batch_id} {list(part.item_ids)}"
    return str(part.batch_id) if kind == "busy" else ""


__all__ = ["LEFT", "WRITER", "Watch", "WatchedRuntime", "check_calls", "check_idle", "require"]
