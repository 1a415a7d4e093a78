"""Several gateways want one device: who waits, who gives way, who is called."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.worker.devices import MS, Asker, HandRuntime, hosted, item

from headway.runtimes.base import RuntimeOccupied
from headway.testing import ManualClock
from headway.worker.batch import PendingBatch
from headway.worker.device import Device
from headway.worker.turns import Turns


class Shared:
    """A device that executes 20 ms of the first gateway and is wanted by others."""

    def __init__(self, num_gateways: int = 2) -> None:
        self.clock = ManualClock(1_000 * MS)
        self.runtime = HandRuntime()
        self.device = Device(self.clock, max_batches=1)
        self.askers = [Asker(self.clock, hosted(self.runtime)) for _ in range(num_gateways)]
        self._next_id = 0

    def send(self, gateway: int, *, pipelined: bool = False) -> int:
        self._next_id += 1
        asker = self.askers[gateway]
        batch = asker.batch(
            self._next_id, item(self._next_id), predicted_ms=20, pipelined=pipelined
        )
        self.device.submit(batch)
        return self._next_id

    async def finish(self) -> None:
        await self.clock.settle()
        self.runtime.finish(device_ns=20 * MS)
        await self.clock.settle()

    def turned_away(self, gateway: int) -> list[tuple[int, int]]:
        return [(busy.batch_id, busy.retry_after_ns // MS) for busy in self.askers[gateway].busy]


async def test_whoever_was_turned_away_is_called_and_goes_before_the_next_of_the_other() -> None:
    shared = Shared()
    shared.send(0)
    shared.send(1)
    assert shared.turned_away(1) == [(2, 20)]
    await shared.clock.advance(16 * MS)
    shared.send(0, pipelined=True)
    assert shared.askers[1].calls == [4 * MS]
    shared.send(1, pipelined=True)
    # It comes back once the other's batch will have ended.
    assert shared.turned_away(0) == [(3, 24)]
    await shared.clock.advance(4 * MS)
    await shared.finish()
    assert shared.runtime.given == [["text 1"], ["text 4"]]


async def test_a_batch_stays_where_nobody_who_is_called_comes() -> None:
    shared = Shared()
    shared.send(0)
    shared.send(1)
    await shared.clock.advance(16 * MS)
    shared.send(0, pipelined=True)
    await shared.clock.advance(4 * MS)
    await shared.finish()
    assert shared.runtime.given == [["text 1"], ["text 3"]]
    assert shared.turned_away(0) == []


async def test_two_gateways_take_turns() -> None:
    shared = Shared()
    shared.send(0)
    shared.send(1)
    for _ in range(10):
        await shared.clock.advance(18 * MS)
        for gateway in (0, 1, 0, 1):
            shared.send(gateway, pipelined=True)
        await shared.clock.advance(2 * MS)
        await shared.finish()
    executed = [
        next(g for g, asker in enumerate(shared.askers) if number in ids(asker))
        for number in (int(texts[0].split()[1]) for texts in shared.runtime.given[:-1])
    ]
    assert executed == [0, 1] * 5


def ids(asker: Asker) -> set[int]:
    return {result.batch_id for result in asker.results}


async def test_who_comes_after_the_end_it_was_told_of_does_not_wait_a_whole_execution() -> None:
    shared = Shared()
    shared.send(0)
    shared.send(1)
    await shared.clock.advance(20 * MS)
    await shared.finish()
    shared.send(0)
    await shared.clock.advance(1 * MS)
    late = shared.send(1, pipelined=True)
    assert shared.turned_away(1)[-1] == (late, 19)


async def test_all_in_line_hear_of_a_free_device_before_the_answer() -> None:
    shared = Shared(3)
    shared.send(0)
    shared.send(1)
    shared.send(2)
    await shared.finish()
    assert [asker.calls for asker in shared.askers] == [[], [0], [0]]


async def test_a_runtime_that_is_occupied_calls_nobody_back() -> None:
    shared = Shared()
    shared.send(0)
    await shared.clock.settle()
    shared.runtime.fail(RuntimeOccupied("no memory now", retry_after_ns=5 * MS))
    await shared.clock.settle()
    assert shared.turned_away(0) == [(1, 5)]
    assert shared.askers[0].calls == []


async def test_who_is_gone_is_not_called() -> None:
    shared = Shared()
    shared.send(0)
    shared.send(1)
    shared.device.forget(shared.askers[1].turn)
    await shared.finish()
    assert shared.askers[1].calls == []


@given(
    costs=st.lists(st.integers(1, 60), min_size=2, max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_device_time_is_shared_evenly_whatever_a_batch_takes(costs: list[int], seed: int) -> None:
    """Each gateway has a batch of its own length ready at all times.

    Start-time fair queueing keeps two within a batch of each (its theorem 1), here two and a half:
    a quarter of a batch counts as even, for each of the two.
    """
    clock = ManualClock(0)
    askers = [Asker(clock, hosted(HandRuntime())) for _ in costs]
    turns = Turns()
    served: Counter[int] = Counter()

    running: tuple[int, PendingBatch] | None = None
    for turn in range(60):
        waiting: tuple[int, PendingBatch] | None = None
        comers = sorted(range(len(costs)), key=lambda g: (seed + turn * 7_919 + g * 104_729) % 101)
        for gateway in comers:
            new = askers[gateway].batch(1, item(1))
            if waiting is None:
                waiting = gateway, new
            elif turns.displaced_by(new, [waiting[1]]) is not None:
                turns.leave(waiting[1])
                waiting = gateway, new
            else:
                continue
            turns.enter(new, costs[gateway])
        if running is not None:
            turns.leave(running[1], costs[running[0]])
            served[running[0]] += costs[running[0]]
        assert waiting is not None
        running = waiting
        turns.begin(running[1])
    spread = max(served.values()) - min(served[gateway] for gateway in range(len(costs)))
    assert spread <= 2.5 * max(costs)
