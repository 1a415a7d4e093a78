"""Runs one trial: fleet, load, rollout, result."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway.client import ControlClient, ManyStream
from headway.clock import Clock
from headway.errors import HeadwayError, StartupError
from headway.loadtest.driver import LoadRun
from headway.loadtest.plan import LoadPlan
from headway.loadtest.workload import DeadlineMix, FixedSize, Work, Workload
from headway.rng import SeedTree
from headway.trial.fleet import trial_fleet
from headway.trial.scenario import CANARY, MODEL, POISON, Trial
from headway.v1 import control_pb2, inference_pb2

Watch = Callable[[control_pb2.Rollout], None]

_POLL_NS: Final = 250_000_000
_JOIN_NS: Final = 60_000_000_000
_UNITS: Final = 16
_DEADLINE_NS: Final = 2_000_000_000
_SETTLE_NS: Final = 1_000_000_000
_LONGEST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How a trial ended.

    Attributes:
      as_expected: whether it ended so, and by the right test.
      seconds: from the start of the rollout to its end.
      canary_requests: requests the canary answered or failed, over all steps.
      offered, ok: requests of the whole load, and those answered.
    """

    scenario: str
    text: str
    rollout_id: str
    phase: str
    test: str
    reason: str
    expected: str
    as_expected: bool
    seconds: float
    canary_requests: int
    offered: int
    ok: int


class _Mixture(Workload):
    """Short texts, a share of them poisoned."""

    def __init__(self, seeds: SeedTree, poisoned: float) -> None:
        template = inference_pb2.InferRequest(model=MODEL)
        deadlines = DeadlineMix((_DEADLINE_NS,), (1.0,))
        super().__init__(template, size=FixedSize(_UNITS), deadlines=deadlines, seeds=seeds)
        self._poison_rng = seeds.stream("poison")
        self._poisoned = poisoned

    def next(self) -> Work:
        """The next request."""
        work = super().next()
        if self._poison_rng.uniform() < self._poisoned:
            work.request.input.text = f"{POISON} {work.request.input.text}"[: 4 * _UNITS]
        return work


async def run_trial(
    trial: Trial,
    *,
    rate_per_s: float,
    seed: int,
    folder: Path,
    clock: Clock,
    preset: str = "fast",
    max_seconds: float = 120.0,
    watch: Watch = lambda rollout: None,
) -> TrialResult:
    """Runs a trial to the end of its rollout.

    Args:
      watch: called with the rollout several times a second.

    Raises:
      StartupError: the fleet did not come up.
    """
    async with trial_fleet(trial, folder, clock) as addresses:
        control = ControlClient(addresses.control)
        streams = [ManyStream(addresses.data) for _ in range(2)]
        try:
            await _until_ready(control, trial, clock)
            seeds = SeedTree(seed)
            plan = LoadPlan(
                DeadlineMix((_DEADLINE_NS,), (1.0,)), seconds=_LONGEST_S, rate_per_s=rate_per_s
            )
            load = LoadRun(
                plan,
                _Mixture(seeds, trial.poisoned),
                streams,
                clock=clock,
                arrivals_rng=seeds.stream("arrivals"),
            )
            laying_on = asyncio.ensure_future(load.run())
            try:
                await clock.sleep(_SETTLE_NS)
                return await _roll_out(trial, control, load, preset, max_seconds, clock, watch)
            finally:
                laying_on.cancel()
                await asyncio.gather(laying_on, return_exceptions=True)
        finally:
            await asyncio.gather(control.close(), *(stream.close() for stream in streams))


async def _until_ready(control: ControlClient, trial: Trial, clock: Clock) -> None:
    wanted = len(trial.speeds) + len(trial.canary_speeds)
    give_up_ns = clock.now_ns() + _JOIN_NS
    while clock.now_ns() < give_up_ns:
        try:
            replicas = await control.replicas(MODEL)
        except HeadwayError:
            replicas = ()
        ready = [each for each in replicas if each.condition == control_pb2.REPLICA_CONDITION_READY]
        if len(ready) == wanted:
            return
        await clock.sleep(_POLL_NS)
    raise StartupError(f"{wanted} replicas were to join and did not; see the logs of the workers")


async def _roll_out(
    trial: Trial,
    control: ControlClient,
    load: LoadRun,
    preset: str,
    max_seconds: float,
    clock: Clock,
    watch: Watch,
) -> TrialResult:
    started_ns = clock.now_ns()
    settings = {"max_seconds": max_seconds}
    rollout = await control.start_rollout(MODEL, CANARY, preset=preset, settings=settings)
    while not rollout.HasField("ended_at"):
        await clock.sleep(_POLL_NS)
        rollout = await control.rollout(rollout.rollout_id)
        watch(rollout)
    seconds = (clock.now_ns() - started_ns) / 1e9
    verdicts = await control.verdicts(rollout.rollout_id)
    phase = control_pb2.RolloutPhase.Name(rollout.phase).removeprefix("ROLLOUT_PHASE_").lower()
    last = verdicts[-1]
    by_step = {verdict.step: verdict.canary.requests for verdict in verdicts}
    return TrialResult(
        scenario=trial.name,
        text=trial.text,
        rollout_id=rollout.rollout_id,
        phase=phase,
        test=last.test,
        reason=last.reason,
        expected=f"{trial.phase} by {' or '.join(sorted(trial.tests))}",
        as_expected=phase == trial.phase and last.test in trial.tests,
        seconds=round(seconds, 1),
        canary_requests=sum(by_step.values()),
        offered=load.tally.offered,
        ok=load.tally.ok,
    )
