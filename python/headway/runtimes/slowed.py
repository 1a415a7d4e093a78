"""Makes a replica deliberately slow, for a fleet of unlike devices on one machine."""

from collections.abc import Sequence

from headway.clock import Clock
from headway.rpc.convert import duration_from_ns, duration_ns
from headway.runtimes.base import Execution, Runtime
from headway.v1 import types_pb2


class SlowedRuntime:
    """Stretches another runtime's device time to device time / speed, by waiting out the rest."""

    def __init__(self, inner: Runtime, *, speed: float, clock: Clock) -> None:
        """`speed` in (0, 1]."""
        if not 0 < speed <= 1:
            raise ValueError(f"speed is {speed}; a runtime can only be slowed, to (0, 1]")
        self._inner = inner
        self._speed = speed
        self._clock = clock

    async def load(self) -> None:
        """Loads the inner one."""
        await self._inner.load()

    def card(self) -> types_pb2.ModelCard:
        """The inner card, with the prior stretched too."""
        card = types_pb2.ModelCard()
        card.CopyFrom(self._inner.card())
        prior = card.cost_prior
        prior.intercept.CopyFrom(
            duration_from_ns(round(duration_ns(prior.intercept) / self._speed))
        )
        prior.slope_ns_per_unit /= self._speed
        return card

    def count_units(self, item: types_pb2.Input) -> int:
        """As the inner one counts."""
        return self._inner.count_units(item)

    async def run(self, items: Sequence[types_pb2.Input]) -> Execution:
        """Runs, waits out the rest, and reports the stretched time."""
        execution = await self._inner.run(items)
        device_ns = round(execution.device_ns / self._speed)
        await self._clock.sleep(device_ns - execution.device_ns)
        return Execution(execution.outcomes, device_ns, execution.tampering)

    async def close(self) -> None:
        """Closes the inner one."""
        await self._inner.close()
