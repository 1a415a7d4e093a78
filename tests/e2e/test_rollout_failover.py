"""Two gateways on PostgreSQL: the one that decides is killed mid-rollout, the other goes on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client, ControlClient
from headway.clock import SystemClock
from headway.errors import HeadwayError
from headway.trial.fleet import Processes
from headway.trial.scenario import MODEL
from headway.v1 import control_pb2, inference_pb2, types_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

INSTANT = {"kind": "simulated", "intercept_ms": 2, "slope_ms_per_unit": 0}
STEP = {"min_seconds": 3, "min_requests": 20, "max_error_rate": 1.0, "max_latency_ratio": 100,
        "max_seconds": 4, "on_inconclusive": "advance_if_clean"}  # fmt: skip
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SETTINGS: dict[str, Any] = {
    "steps": [{"share": share, **STEP} for share in SHARES],
    "analysis_seconds": 0.5,
    "tick_seconds": 0.25,
    "warmup_seconds": 0,
    "latency_tolerance": 50,
    "capacity": {"forecast": False},
}
KEYS = 100


class Load:
    """Asks one gateway for each key in turn, and remembers who answered."""

    def __init__(self, address: str) -> None:
        self.client = Client(address)
        self.seen: dict[int, list[str]] = {key: [] for key in range(KEYS)}
        self.num_answered = 0
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()

    async def _run(self) -> None:
        while True:
            for start in range(0, KEYS, 10):
                await asyncio.gather(*(self._ask(key) for key in range(start, start + 10)))

    async def _ask(self, key: int) -> None:
        request = inference_pb2.InferRequest(
            model=MODEL, session_key=f"user-{key}", input=types_pb2.Input(text="tide")
        )
        try:
            answer = await self.client.infer(request, timeout_s=5)
        except HeadwayError:
            await SystemClock().sleep(50_000_000)  # its gateway was killed
            return
        self.seen[key].append(answer.version)
        self.num_answered += 1


class SplitWatch:
    """Looks at the canary's share in every gateway, all the time.

    Attributes:
      seen: the shares that each has gone through, in order.
    """

    def __init__(self, controls: dict[str, ControlClient]) -> None:
        self.seen: dict[str, list[float]] = {name: [] for name in controls}
        self._controls = controls
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until_all_at(self, share: float) -> None:
        """Returns once the last share seen of each gateway is this one."""
        while any(shares[-1:] != [share] for shares in self.seen.values()):
            await SystemClock().sleep(20_000_000)

    async def _run(self) -> None:
        while True:
            for name, control in self._controls.items():
                split = {each.version: each.share for each in (await control.split(MODEL)).shares}
                share, shares = split.get("v2", 0.0), self.seen[name]
                if shares[-1:] != [share]:
                    shares.append(share)
            await SystemClock().sleep(20_000_000)


async def until_ready(control: ControlClient) -> None:
    ready = control_pb2.REPLICA_CONDITION_READY
    while sum(each.condition == ready for each in await control.replicas(MODEL)) < 2:
        await SystemClock().sleep(100_000_000)


async def leader_of(controls: dict[str, ControlClient]) -> str:
    while True:
        for name, control in controls.items():
            if (await control.state()).gateway.store.leader:
                return name
        await SystemClock().sleep(100_000_000)


async def until_step(control: ControlClient, rollout_id: str, step: int) -> control_pb2.Rollout:
    while True:
        rollout = await control.rollout(rollout_id)
        if rollout.step >= step or rollout.HasField("ended_at"):
            return rollout
        await SystemClock().sleep(100_000_000)


def assert_both_were_judged(
    verdicts: Sequence[control_pb2.Verdict], answered: Sequence[int]
) -> None:
    """The outcomes of both gateways count, but for what is still on its way."""
    by_step = {verdict.step: verdict for verdict in verdicts}  # the last one of each
    counted = sum(v.baseline.requests + v.canary.requests for v in by_step.values())
    other, most = sorted(answered)
    assert other >= 100, "the load was not on both"
    # One gateway's own outcomes would be `most` at best; half of the other's have to be there.
    assert counted > most + 0.5 * other


def assert_no_key_went_back(load: Load) -> None:
    assert load.num_answered > 0
    for key, seen in load.seen.items():
        assert seen == sorted(seen), f"key {key} went back"


async def test_the_other_gateway_goes_on_and_no_key_goes_back(
    tmp_path: Path, postgresql_url: str
) -> None:
    processes = Processes(tmp_path, SystemClock())
    try:
        addresses = {
            name: await processes.start_gateway(name, postgresql_url) for name in ("one", "two")
        }
        joined = [each.control for each in addresses.values()]
        for version in ("v1", "v2"):
            processes.start_worker(f"w-{version}", version, INSTANT, 1.0, *joined)
        controls = {name: ControlClient(each.control) for name, each in addresses.items()}
        for control in controls.values():
            await until_ready(control)
        leader = await leader_of(controls)
        (survivor,) = set(controls) - {leader}
        loads = {name: Load(each.data) for name, each in addresses.items()}
        watch = SplitWatch(controls)

        # Started through the gateway that does not decide.
        rollout = await controls[survivor].start_rollout(MODEL, "v2", settings=SETTINGS)
        await until_step(controls[survivor], rollout.rollout_id, 2)
        # Held where it is, both have to come to it: how soon is in test_follow, in counted time.
        held = await controls[survivor].pause_rollout(rollout.rollout_id)
        assert held.step >= 2
        await watch.until_all_at(SHARES[held.step])
        await watch.stop()
        planned = [0.0, *SHARES[: held.step + 1]]
        for name, shares in watch.seen.items():
            assert shares == [each for each in planned if each in shares], name
        await controls[survivor].resume_rollout(rollout.rollout_id)
        verdicts = await controls[survivor].verdicts(rollout.rollout_id)
        answered = [load.num_answered for load in loads.values()]
        assert_both_were_judged(verdicts, answered)

        processes.kill(leader)
        killed_ns = SystemClock().now_ns()
        at_kill = await controls[survivor].rollout(rollout.rollout_id)
        await until_step(controls[survivor], rollout.rollout_id, at_kill.step + 1)
        went_on_s = (SystemClock().now_ns() - killed_ns) / 1e9
        # 10 s to fail over, and the rest of a step.
        assert went_on_s <= 10 + 4 + 2
        ended = await until_step(controls[survivor], rollout.rollout_id, 99)
        assert ended.phase == control_pb2.ROLLOUT_PHASE_PROMOTED

        for load in loads.values():
            await load.stop()
            assert_no_key_went_back(load)
        verdicts = await controls[survivor].verdicts(rollout.rollout_id)
        numbers = [verdict.sequence for verdict in verdicts]
        assert numbers == list(range(1, len(numbers) + 1))
    finally:
        await processes.stop()
