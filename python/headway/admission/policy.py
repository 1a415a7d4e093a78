"""What the settings of admission mean to the scheduler."""

from dataclasses import dataclass, field
from typing import TypedDict

from headway._core import Scheduler
from headway.admission.settings import LARGEST_WEIGHT, LEAST_RATE, LEAST_WEIGHT, AdmissionSettings

_NS_PER_S = 1_000_000_000
_INFINITE = float("inf")


class TenantTerms(TypedDict):
    """Terms as `Scheduler.add_tenant` takes them."""

    units_per_s: float
    burst_units: float
    largest_units: float
    weight: float
    max_queued_requests: int
    max_queued_units: int


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """Puts settings in force.

    Attributes:
      num_gateways: live gateways of the store, this one included, >= 1. Each lets through its
        part of every quota, so that the total is the quota.
    """

    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    num_gateways: int = 1

    def terms(
        self, units_per_second: float | None, burst_units: float | None, weight: float
    ) -> TenantTerms:
        """A tenant's terms in this gateway.

        Rate and burst are divided by the number of gateways. A single request may still be as
        large as the whole burst: it waits for a full bucket and leaves a debt.

        Args:
          units_per_second: None for no limit.
          burst_units: None for two seconds' worth.
          weight: held to its range; a store may hold one that was taken before there was one.
        """
        rate = max(units_per_second or _INFINITE, LEAST_RATE)
        burst = max(burst_units or 2 * rate, LEAST_RATE)
        return TenantTerms(
            units_per_s=rate / self.num_gateways,
            burst_units=burst / self.num_gateways,
            largest_units=burst,
            weight=min(max(weight, LEAST_WEIGHT), LARGEST_WEIGHT),
            max_queued_requests=self.settings.max_queued_requests_per_tenant or 0,
            max_queued_units=self.settings.max_queued_units_per_tenant or 0,
        )

    def apply(self, scheduler: Scheduler) -> None:
        """Puts in force what holds for all pools."""
        scheduler.set_fair_share(memory_ns=round(self.settings.fair_share_seconds * _NS_PER_S))

    def apply_to_pool(self, scheduler: Scheduler, pool: int) -> None:
        """Puts in force what holds for one pool; what its limit has learned stays."""
        limit, reserved = self.settings.limit, self.settings.reserved
        scheduler.set_admission(
            pool,
            limit_initial=limit.initial,
            limit_min=limit.min,
            limit_max=limit.max,
            reserved_critical=reserved.critical,
            reserved_standard=reserved.standard,
        )
