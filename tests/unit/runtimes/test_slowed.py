"""A slowed runtime takes longer and says so."""

from collections.abc import Sequence

import pytest

from headway.runtimes.base import Execution
from headway.runtimes.slowed import SlowedRuntime
from headway.testing import ManualClock
from headway.v1 import types_pb2

MS = 1_000_000


class Quick:
    """Takes 12 ms by its clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.life: list[str] = []

    async def load(self) -> None:
        self.life.append("loaded")

    def card(self) -> types_pb2.ModelCard:
        card = types_pb2.ModelCard(runtime="quick")
        card.cost_prior.intercept.FromNanoseconds(3 * MS)
        card.cost_prior.slope_ns_per_unit = 600
        return card

    def count_units(self, item: types_pb2.Input) -> int:
        return len(item.text)

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        await self.clock.sleep(12 * MS)
        return Execution([], 12 * MS)

    async def close(self) -> None:
        self.life.append("closed")


@pytest.mark.parametrize(
    ("speed", "expected_ns"), [(1.0, 12 * MS), (0.6, 20 * MS), (0.25, 48 * MS)]
)
async def test_time_is_divided_by_speed(speed: float, expected_ns: int) -> None:
    clock = ManualClock()
    runtime = SlowedRuntime(Quick(clock), speed=speed, clock=clock)
    async with clock.auto_jump():
        execution = await runtime.run([])
    assert execution.device_ns == clock.now_ns() == expected_ns


async def test_all_else_is_the_inner_ones() -> None:
    clock = ManualClock()
    quick = Quick(clock)
    runtime = SlowedRuntime(quick, speed=0.6, clock=clock)
    await runtime.load()
    card = runtime.card()
    assert card.runtime == "quick"
    assert card.cost_prior.intercept.ToNanoseconds() == 5 * MS
    assert card.cost_prior.slope_ns_per_unit == 1000
    assert runtime.count_units(types_pb2.Input(text="four")) == 4
    await runtime.close()
    assert quick.life == ["loaded", "closed"]


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5])
def test_it_only_slows(speed: float) -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="can only be slowed"):
        SlowedRuntime(Quick(clock), speed=speed, clock=clock)
