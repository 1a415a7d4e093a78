"""What a request offers for device time, and what batches earned with it."""

import pytest
from tests.unit.core.fleet import MS, Fleet

from headway._core import Admission, Reading


def reading(fleet: Fleet, *, units: int = 100, priority: int = 2, weight: float = 1.0) -> Reading:
    """What admission saw of an arrival."""
    answer = fleet.core.admit(
        fleet.now, fleet.tenant, fleet.model, -1, 0, units, 1, fleet.now + 900 * MS,
        priority, 1, weight,
    )  # fmt: skip
    assert isinstance(answer, Admission)
    return answer.reading


def test_an_offer_is_value_over_its_part_of_a_full_batch() -> None:
    fleet = Fleet()
    fleet.replica(max_requests=32)
    # sqrt(100) over 18 ms / 32 + 100 * 22 us.
    assert reading(fleet).offered_per_s == pytest.approx(10 / 2.7625e-3)
    # sqrt(400) over 18 ms / 32 + 400 * 22 us: twice the value, in 3.4 times the time.
    assert reading(fleet, units=400).offered_per_s == pytest.approx(20 / 9.3625e-3)


@pytest.mark.parametrize(
    ("priority", "weight", "factor"), [(1, 1.0, 4.0), (3, 1.0, 0.25), (2, 3.0, 3.0)]
)
def test_class_and_weight_raise_or_lower_it(priority: int, weight: float, factor: float) -> None:
    fleet = Fleet()
    fleet.replica(max_requests=32)
    offered = reading(fleet, priority=priority, weight=weight).offered_per_s
    assert offered == pytest.approx(factor * 10 / 2.7625e-3)


def test_batches_earn_their_members_values_over_their_device_time() -> None:
    fleet = Fleet()
    fleet.replica(max_requests=32)
    assert reading(fleet).earned_per_s == 0
    reading(fleet)
    assert len(fleet.batch()) == 2
    # Two of value 10 in 18 ms + 200 * 22 us.
    assert reading(fleet).earned_per_s == pytest.approx(20 / 22.4e-3)
