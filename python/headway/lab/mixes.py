"""Workloads and devices that goodput is measured on, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headway.sim import Bursts, Device, RequestClass, Sizes, Workload


class Mix(NamedTuple):
    """A workload, whose rate is set later, and the device it runs on."""

    workload: Workload
    device: Device
    says: str
    """What is special about it."""


def _classes(*shares_and_ms: tuple[float, float]) -> tuple[RequestClass, ...]:
    return tuple(RequestClass(share=share, min_deadline_ms=ms) for share, ms in shares_and_ms)


def _mix(says: str, device: Device | None = None, **changes: object) -> Mix:
    workload = Workload.reference(200.0).model_copy(update=changes)
    return Mix(workload, device or Device(), says)


MIXES: Final[Mapping[str, Mix]] = MappingProxyType(
    {
        "reference": _mix("30 % within 120 ms, 70 % within 900 ms"),
        "slow_deadlines": _mix(
            "30 % within 300 ms, 70 % within 2 s", classes=_classes((0.3, 300), (0.7, 2000))
        ),
        "single": _mix("all within 500 ms", classes=_classes((1, 500))),
        "three": _mix(
            "thirds within 80 ms, 400 ms and 3 s",
            classes=_classes((1, 80), (1, 400), (1, 3000)),
        ),
        "spread": _mix(
            "deadlines spread evenly from 100 ms to 3 s",
            classes=(RequestClass(share=1, min_deadline_ms=100, max_deadline_ms=3000),),
        ),
        "fat_tail": _mix("sizes with a fatter tail", sizes=Sizes(log_spread=1.4)),
        "bursty": _mix("busy and quiet phases of 1 s on average", bursts=Bursts(on_s=1, off_s=1)),
        "slope_device": _mix(
            "a device at 3 ms + 0.3 ms a unit", Device(intercept_ms=3, slope_ms=0.3)
        ),
    }
)
"""The reference and the seven others."""
