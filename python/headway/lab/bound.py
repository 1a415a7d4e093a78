"""What no scheduler can beat on a trace, even one that knows the future."""

from enum import Enum

from headway import _core
from headway.sim import Device
from headway.sim.workload import NS_PER_MS, NS_PER_S


class Effort(Enum):
    """How far the bound is brought down: (search step us, rounds, final step us, rounds).

    The bound holds at any effort. On 30 s of the reference at 260 requests a second QUICK takes
    about 6 s on one core and THOROUGH about 40 s.
    """

    QUICK = (4000, 40, 1000, 2)
    THOROUGH = (4000, 150, 500, 12)


def bound_per_s(trace: _core.Trace, device: Device, effort: Effort = Effort.QUICK) -> float:
    """Upper bound of the goodput of one device of speed 1, requests a second.

    Durations are taken without noise. The dual of the configuration program: see
    `rust_core/src/sim/bound.rs`.
    """
    search_us, search_rounds, final_us, final_rounds = effort.value
    weight = _core.clairvoyant_bound(
        trace,
        intercept_ns=device.intercept_ms * NS_PER_MS,
        slope_ns=device.slope_ms * NS_PER_MS,
        max_requests=device.max_requests,
        max_units=device.max_units,
        search_step_ns=search_us * 1000,
        search_rounds=search_rounds,
        final_step_ns=final_us * 1000,
        final_rounds=final_rounds,
    )
    return weight / (trace.duration_ns / NS_PER_S)
