"""The devices of a simulation."""

from pydantic import Field

from headway.sim.workload import Frozen, Workload


class Device(Frozen):
    """A device whose batch takes intercept + slope * units at speed 1."""

    intercept_ms: float = Field(default=18.0, ge=0)
    """Fixed time of a batch."""
    slope_ms: float = Field(default=0.022, ge=0)
    """Time of one work unit."""
    noise: float = Field(default=0.08, ge=0, lt=1)
    """Durations vary evenly within this ratio either way."""
    max_requests: int = Field(default=32, ge=0)
    """Requests of one batch; 0 for no limit."""
    max_rows: int = Field(default=0, ge=0)
    """Rows of one batch; 0 for no limit."""
    max_units: int = Field(default=16384, ge=0)
    """Units of one batch; 0 for no limit."""

    def capacity_per_s(self, workload: Workload) -> float:
        """Requests a second that a device could serve if every batch were full: the load of 1."""
        most = self.max_requests or 1_000_000
        return 1e3 / (self.intercept_ms / most + self.slope_ms * workload.mean_units())


class SpeedChange(Frozen):
    """From an instant on, a replica has another speed."""

    at_s: float = Field(ge=0)
    """Seconds from the start."""
    replica: int = Field(ge=0)
    """Its place in `Fleet.speeds`."""
    speed: float = Field(ge=0)
    """New speed; 0 takes the replica away once its batch is done."""


class Fleet(Frozen):
    """Replicas of one device type, of like or unlike speed."""

    device: Device = Device()
    """The device at speed 1."""
    speeds: tuple[float, ...] = Field(default=(1.0,), min_length=1)
    """Speed of each replica."""
    changes: tuple[SpeedChange, ...] = ()
    """What happens to them."""
