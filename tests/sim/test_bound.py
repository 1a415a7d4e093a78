"""The clairvoyant bound: above everything that can be done, and not far above."""

import pytest

from headway.lab.bound import bound_per_s
from headway.sim import Device, Fleet, Policy, Workload, simulate


@pytest.mark.parametrize("rate", [100, 260, 600])
def test_no_schedule_is_above_it(rate: float) -> None:
    quiet = Device(noise=0.0)
    trace = Workload.reference(rate, duration_s=5).draw(10001)
    bound = bound_per_s(trace, quiet)
    goodput = simulate(trace, Fleet(device=quiet), Policy(shed_early=False)).goodput_per_s()
    assert goodput <= bound
    assert goodput >= 0.85 * bound
    assert bound <= len(trace) / 5 + 1e-9


def test_an_empty_trace_is_worth_nothing() -> None:
    assert bound_per_s(Workload.reference(0, duration_s=1).draw(1), Device()) == 0.0
