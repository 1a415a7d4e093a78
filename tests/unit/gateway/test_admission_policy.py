"""Terms of tenants, and what admission's settings refuse."""

import pytest
from pydantic import ValidationError

from headway.admission.policy import AdmissionPolicy
from headway.admission.settings import AdmissionSettings, LimitSettings, ReservedSettings
from headway.gateway.reload import is_live

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("num_gateways", "rate", "burst", "expected"),
    [
        (1, 100.0, 300.0, (100.0, 300.0, 300.0)),
        (1, 100.0, None, (100.0, 200.0, 200.0)),
        (4, 100.0, 300.0, (25.0, 75.0, 300.0)),
        (4, None, None, (INFINITE, INFINITE, INFINITE)),
    ],
)
def test_a_quota_is_divided_and_a_single_request_is_not(
    num_gateways: int,
    rate: float | None,
    burst: float | None,
    expected: tuple[float, float, float],
) -> None:
    terms = AdmissionPolicy(num_gateways=num_gateways).terms(rate, burst, 2.0)
    assert (terms["units_per_s"], terms["burst_units"], terms["largest_units"]) == expected
    assert terms["weight"] == 2.0


def test_bounds_of_the_queue_are_those_of_the_settings() -> None:
    settings = AdmissionSettings(max_queued_requests_per_tenant=7, max_queued_units_per_tenant=9)
    terms = AdmissionPolicy(settings).terms(None, None, 1.0)
    assert (terms["max_queued_requests"], terms["max_queued_units"]) == (7, 9)


def test_limits_must_not_fall() -> None:
    with pytest.raises(ValidationError, match="min is 5, initial 4 and max 10; they must not fall"):
        LimitSettings(min=5, initial=4, max=10)


def test_reservations_leave_something() -> None:
    with pytest.raises(ValidationError, match="critical and standard add up to 1; they may take"):
        ReservedSettings(critical=0.5, standard=0.5)


@pytest.mark.parametrize(
    ("key", "live"),
    [
        ("admission.limit.max", True),
        ("admission.fair_share_seconds", True),
        ("admission.reserved.critical", True),
        ("admission.max_active_tenants", False),
    ],
)
def test_what_takes_effect_without_a_restart(key: str, live: bool) -> None:
    assert is_live(key) == live
