"""The drills, by name."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from headway.drill import clients, gateways, quota, soak, workers
from headway.drill.stage import Stage


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill.

    Attributes:
      text: what goes wrong, and what must hold; the first line of its docstring.
    """

    name: str
    text: str
    run: Callable[[Stage], Awaitable[None]]


def _drills() -> Mapping[str, Drill]:
    runs = (
        workers.kill_worker,
        workers.stop_worker,
        gateways.restart_gateway,
        workers.garbage_worker,
        workers.failing_replica,
        workers.slow_replica,
        workers.all_gone,
        clients.cancels,
        clients.disconnects,
        clients.clock_step,
        gateways.two_gateways,
        gateways.rolling_restart,
        quota.quota,
        soak.soak,
    )
    drills = {}
    for run in runs:
        name = run.__name__.replace("_", "-")
        drills[name] = Drill(name, (run.__doc__ or "").splitlines()[0], run)
    return MappingProxyType(drills)


DRILLS: Final = _drills()
