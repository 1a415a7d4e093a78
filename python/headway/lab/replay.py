"""What-if: a recorded trace under another configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from headway._core import Rng, Trace
from headway.errors import HeadwayError
from headway.sim import Device, Fleet, Policy, Report, SpeedChange, simulate
from headway.telemetry.trace import Arrival, read_trace

TRAFFIC: Final = "traffic"
LOSE_REPLICA: Final = "lose_replica_at_s"
REPLICAS: Final = "replicas"
MAX_CLASSES: Final = 16

Model = TypeVar("Model", Fleet, Device, Policy)


class Scenario:
    """A fleet, a policy and how the traffic is changed."""

    def __init__(self, fleet: Fleet, policy: Policy, traffic: float = 1.0) -> None:
        """`traffic`: arrivals are repeated or left out at random to reach this multiple."""
        self.fleet = fleet
        self.policy = policy
        self.traffic = traffic

    def with_settings(self, settings: Mapping[str, str]) -> "Scenario":
        """The scenario after ``--set key=value``.

        Keys: `traffic` (a factor), `replicas` (a number), `speeds` (comma-separated),
        `lose_replica_at_s` (the last replica goes at this second), and every field of
        `headway.sim.Device` and `headway.sim.Policy`.

        Raises:
          HeadwayError: an unknown key or a value out of range; it names both.
        """
        fleet, policy, traffic = self.fleet, self.policy, self.traffic
        for key, value in settings.items():
            try:
                if key == TRAFFIC:
                    traffic = _positive(value)
                elif key == LOSE_REPLICA:
                    fleet = _losing_one(fleet, float(value))
                elif key == REPLICAS:
                    fleet = _update(fleet, {"speeds": (1.0,) * int(value)})
                elif key == "speeds":
                    speeds = tuple(_positive(each) for each in value.split(","))
                    fleet = _update(fleet, {"speeds": speeds})
                elif key in Device.model_fields:
                    fleet = _update(fleet, {"device": _update(fleet.device, {key: value})})
                elif key in Policy.model_fields:
                    policy = _update(policy, {key: _listed(key, value)})
                else:
                    raise HeadwayError(f"--set {key}: unknown; known are {', '.join(known_keys())}")
            except ValueError as error:
                raise HeadwayError(f"--set {key}={value}: {error}") from error
        return Scenario(fleet, policy, traffic)

    def run(self, arrivals: Sequence[Arrival], seed: int = 0) -> Report:
        """Simulates the arrivals under this scenario."""
        trace, _ = to_trace(_scaled(arrivals, self.traffic, seed))
        return simulate(trace, self.fleet, self.policy, seed)


def known_keys() -> list[str]:
    """What `Scenario.with_settings` knows."""
    own = [TRAFFIC, REPLICAS, "speeds", LOSE_REPLICA]
    return own + sorted(set(Device.model_fields) | set(Policy.model_fields))


def load(path: Path, model: str | None = None) -> list[Arrival]:
    """The arrivals of one model, in order of time from 0.

    Raises:
      HeadwayError: not a trace, nothing in it, or several models and none chosen.
    """
    arrivals = list(read_trace(path))
    models = sorted({arrival.model for arrival in arrivals})
    if model is None and len(models) > 1:
        raise HeadwayError(f"{path}: has several models; choose one of {', '.join(models)}")
    chosen = [arrival for arrival in arrivals if model in (None, arrival.model)]
    if not chosen:
        raise HeadwayError(f"{path}: no arrivals" + (f" of {model}" if model else ""))
    chosen.sort(key=lambda arrival: arrival.at_ns)
    start_ns = chosen[0].at_ns
    return [arrival._replace(at_ns=arrival.at_ns - start_ns) for arrival in chosen]


def to_trace(arrivals: Sequence[Arrival]) -> tuple[Trace, list[int]]:
    """A trace for the simulator, and the deadline in ns that each of its classes stands for.

    Requests are classed by their deadline to the nearest power of two; at most 16 classes, the
    rest share the last one. Clients that gave up do so again at the same time.
    """
    octaves = sorted({arrival.deadline_ns.bit_length() for arrival in arrivals})[:MAX_CLASSES]
    classes = {octave: number for number, octave in enumerate(octaves)}
    tenants: dict[int, int] = {}
    trace = Trace(
        duration_ns=arrivals[-1].at_ns + 1,
        at_ns=[arrival.at_ns for arrival in arrivals],
        units=[arrival.units for arrival in arrivals],
        rows=[arrival.rows for arrival in arrivals],
        deadline_ns=[arrival.deadline_ns for arrival in arrivals],
        classes=[
            classes.get(arrival.deadline_ns.bit_length(), len(classes) - 1) for arrival in arrivals
        ],
        lanes=[arrival.lane for arrival in arrivals],
        priorities=[arrival.priority for arrival in arrivals],
        tenants=[tenants.setdefault(arrival.tenant, len(tenants)) for arrival in arrivals],
        weights=[arrival.weight for arrival in arrivals],
        cancel_after_ns=[
            arrival.ended_ns if arrival.outcome == "CANCELLED" else -1 for arrival in arrivals
        ],
    )
    return trace, [1 << octave for octave in octaves]


def difference(before: Report, after: Report) -> list[tuple[str, float, float]]:
    """Figures of two runs side by side: name, before, after."""
    rows = []
    old, new = _flat(before.summary()), _flat(after.summary())
    for name in sorted(old | new, key=list(old | new).index):
        rows.append((name, old.get(name, float("nan")), new.get(name, float("nan"))))
    return rows


def _flat(summary: Mapping[str, Any]) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, value in summary.items():
        if isinstance(value, dict):
            flat |= {f"{name} {key}": float(each) for key, each in value.items()}
        else:
            flat[name] = float(value)
    return flat


def _scaled(arrivals: Sequence[Arrival], traffic: float, seed: int) -> list[Arrival]:
    """Repeats arrivals, the copies at the time of another one, or leaves some out."""
    rng = Rng(seed)
    kept: list[Arrival] = []
    for arrival in arrivals:
        copies = int(traffic) + (rng.uniform() < traffic - int(traffic))
        for copy in range(copies):
            at_ns = arrival.at_ns
            if copy > 0:
                at_ns = arrivals[rng.below(len(arrivals))].at_ns
            kept.append(arrival._replace(at_ns=at_ns))
    kept.sort(key=lambda arrival: arrival.at_ns)
    if not kept:
        raise HeadwayError(f"traffic={traffic:g} leaves no arrivals")
    return kept


def _losing_one(fleet: Fleet, at_s: float) -> Fleet:
    last = len(fleet.speeds) - 1
    if last < 1:
        raise ValueError("needs at least two replicas: set replicas first")
    gone = SpeedChange(at_s=at_s, replica=last, speed=0)
    return fleet.model_copy(update={"changes": (*fleet.changes, gone)})


def _update(model: Model, changes: Mapping[str, Any]) -> Model:
    return type(model).model_validate({**dict(model), **changes})


def _listed(key: str, value: str) -> object:
    return tuple(value.split(",")) if key == "priority_weights" else value


def _positive(value: str) -> float:
    number = float(value)
    if not 0 < number < 1e6:
        raise ValueError("must be above 0 and below 1e6")
    return number
