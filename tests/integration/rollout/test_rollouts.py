"""Rollouts through a real gateway with real workers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.fleet import (
    MODEL,
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
)
from tests.support.rollout_world import QUICK, STEP

from headway.client import BlockingControlClient, ControlClient
from headway.errors import (
    FailedPrecondition,
    InvalidRequest,
    NoCapacity,
    NotFound,
    RequestError,
)
from headway.v1 import control_pb2

SLOW_STEPS = QUICK | {"steps": [{"share": 0.3, **STEP, "min_seconds": 600, "max_seconds": 900}]}


@contextlib.asynccontextmanager
async def two_versions(**changes: Any) -> AsyncIterator[tuple[RunningGateway, ControlClient]]:
    async with (
        running_gateway(**changes) as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2"),
        ControlClient(running.addresses["control"]) as control,
    ):
        yield running, control


async def versions(running: RunningGateway, keys: range) -> list[str]:
    """The version that each key gets."""
    answers = await asyncio.gather(
        *(running.inference.Infer(text_request(session_key=str(key)), timeout=10) for key in keys)
    )
    return [answer.version for answer in answers]


async def until_ended(
    running: RunningGateway, control: ControlClient, rollout_id: str
) -> control_pb2.Rollout:
    """Lays load on until a rollout ends."""
    while True:
        await versions(running, range(40))
        rollout = await control.rollout(rollout_id)
        if rollout.HasField("ended_at"):
            return rollout


async def test_a_good_canary_is_promoted_and_no_key_goes_back() -> None:
    async with two_versions() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=QUICK)
        assert (rollout.baseline_version, rollout.canary_version) == ("v1", "v2")
        assert (rollout.step, rollout.canary_share) == (0, 0.1)
        keys, rounds = range(60), [await versions(running, range(60))]
        while not (await control.rollout(rollout.rollout_id)).HasField("ended_at"):
            rounds.append(await versions(running, keys))
        # The record is stored a moment before the split is in force.
        while [s.share for s in (await control.split(MODEL)).shares] != [0, 1]:
            rounds.append(await versions(running, keys))
        rounds.append(await versions(running, keys))
        for key in keys:
            seen = [answers[key] for answers in rounds]
            assert seen == sorted(seen), f"key {key} went back: {seen}"
        assert set(rounds[-1]) == {"v2"}
        shares = [sum(v == "v2" for v in answers) for answers in rounds]
        assert shares == sorted(shares)
        ended = await control.rollout(rollout.rollout_id)
        assert ended.phase == control_pb2.ROLLOUT_PHASE_PROMOTED
        verdicts = await control.verdicts(rollout.rollout_id)
        moves = [
            (verdict.step, verdict.decision)
            for verdict in verdicts
            if verdict.decision != control_pb2.VERDICT_DECISION_HOLD
        ]
        advance, promote = (
            control_pb2.VERDICT_DECISION_ADVANCE,
            control_pb2.VERDICT_DECISION_PROMOTE,
        )
        assert moves == [(0, advance), (1, advance), (2, promote)]
        assert verdicts[-1].canary.requests > verdicts[-1].baseline.requests > 0
        split = await control.split(MODEL)
        assert split.source == control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT


async def test_what_cannot_be_started_says_why() -> None:
    async with two_versions() as (_running, control):
        rows: list[tuple[str, str, str, dict[str, Any], type[RequestError], str]] = [
            ("no such model", "nope", "v2", {}, NotFound, "no model 'nope'; there are: sim"),
            ("no such version", MODEL, "v9", {}, NotFound, "no version 'v9'; there are: v1, v2"),
            ("no model", "", "v2", {}, InvalidRequest, "model is empty"),
            ("no version", MODEL, "", {}, InvalidRequest, "canary_version is empty"),
            ("bad setting", MODEL, "v2", {"latency_tolerance": 0.5}, InvalidRequest,
             "policy.settings.latency_tolerance: Input should be greater than 1 (given: 0.5)"),
            ("unknown setting", MODEL, "v2", {"tolerance": 2}, InvalidRequest,
             "policy.settings.tolerance: Extra inputs are not permitted"),
        ]  # fmt: skip
        for name, model, version, settings, kind, said in rows:
            with pytest.raises(kind) as caught:
                await control.start_rollout(model, version, settings=settings)
            assert said in caught.value.message, name
        with pytest.raises(InvalidRequest, match="use one of: default, fast, classic"):
            await control.start_rollout(MODEL, "v2", preset="quick")
        await control.set_split(MODEL, {"v1": 0.5, "v2": 0.5})
        with pytest.raises(FailedPrecondition, match="v1 50%, v2 50%; a rollout begins where one"):
            await control.start_rollout(MODEL, "v2")
        assert await control.rollouts() == []


async def test_fault_50_equal_versions_a_second_one_and_a_late_promotion_are_refused() -> None:
    async with two_versions() as (running, control):
        with pytest.raises(InvalidRequest, match="v1, which has all traffic of sim already"):
            await control.start_rollout(MODEL, "v1")
        first = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        with pytest.raises(FailedPrecondition) as caught:
            await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        assert f"rollout {first.rollout_id} of sim (v1 to v2) is running" in caught.value.message
        with pytest.raises(FailedPrecondition, match="divides the traffic of sim"):
            await control.set_split(MODEL, {"v1": 1.0})
        aborted = await control.abort_rollout(first.rollout_id, "wrong weights")
        assert aborted.reason == "aborted by an operator: wrong weights"
        with pytest.raises(FailedPrecondition, match="is aborted and cannot be promoted"):
            await control.promote_rollout(first.rollout_id)
        with pytest.raises(FailedPrecondition, match="is aborted and cannot be resumed"):
            await control.resume_rollout(first.rollout_id)
        again = await control.abort_rollout(first.rollout_id)  # a repeated abort is no error
        assert again.phase == control_pb2.ROLLOUT_PHASE_ABORTED
        assert set(await versions(running, range(40))) == {"v1"}


async def test_fault_50_a_canary_without_replicas_is_refused() -> None:
    async with two_versions() as (_running, control):
        await control.drain("w2")
        with pytest.raises(NoCapacity, match="no replica that takes work"):
            await control.start_rollout(MODEL, "v2")


async def test_fault_51_after_a_rollback_only_stable_and_current_get_traffic() -> None:
    async with (
        two_versions() as (running, control),
        running_worker(running, worker_id="w3", version="v3"),
    ):
        first = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        assert set(await versions(running, range(60))) == {"v1", "v2"}
        await control.abort_rollout(first.rollout_id)
        await control.start_rollout(MODEL, "v3", settings=SLOW_STEPS)
        assert set(await versions(running, range(60))) == {"v1", "v3"}


async def test_a_paused_rollout_holds_and_a_resumed_one_goes_on() -> None:
    async with two_versions() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=QUICK)
        paused = await control.pause_rollout(rollout.rollout_id)
        assert paused.phase == control_pb2.ROLLOUT_PHASE_PAUSED
        seen = 0
        while seen < 8:
            await versions(running, range(40))
            seen = len(await control.verdicts(rollout.rollout_id))
        held = await control.rollout(rollout.rollout_id)
        assert held.step == paused.step
        assert held.HasField("progress")
        await control.resume_rollout(rollout.rollout_id)
        ended = await until_ended(running, control, rollout.rollout_id)
        assert ended.phase == control_pb2.ROLLOUT_PHASE_PROMOTED


async def test_an_operators_promotion_moves_everyone_at_once() -> None:
    async with two_versions() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        promoted = await control.promote_rollout(rollout.rollout_id)
        assert (promoted.canary_share, promoted.reason) == (1.0, "promoted by an operator")
        assert set(await versions(running, range(40))) == {"v2"}


async def test_a_dead_canary_is_gone_after_a_few_requests() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(
            running, worker_id="w2", version="v2", runtime={"failures": {"poison": {"marker": "t"}}}
        ),
        ControlClient(running.addresses["control"]) as control,
    ):
        rollout = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        failed = 0
        for key in range(400):
            try:
                await running.inference.Infer(text_request(session_key=str(key)), timeout=10)
            except grpc.aio.AioRpcError as error:
                assert refusal(error).reason == "UPSTREAM_FAILURE"
                failed += 1
        assert 0 < failed <= 20
        ended = await until_ended(running, control, rollout.rollout_id)
        assert ended.phase == control_pb2.ROLLOUT_PHASE_ROLLED_BACK
        assert ended.reason.startswith("dead: ")


async def test_shadow_copies_reach_nobody_and_delay_nobody() -> None:
    shadow = {"share": 1.0, "min_seconds": 600, "max_seconds": 900, "max_inflight": 4}
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2", runtime={"failures": {"hang": 1}}),
        ControlClient(running.addresses["control"]) as control,
    ):
        rollout = await control.start_rollout(MODEL, "v2", settings=QUICK | {"shadow": shadow})
        assert (rollout.step, rollout.canary_share) == (-1, 0.0)
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(session_key=str(key)), timeout=10)
              for key in range(200))
        )  # fmt: skip
        assert {answer.version for answer in answers} == {"v1"}
        # The canary hangs: four copies wait there, and no fifth was made.
        assert running.gateway.scheduler.num_live() == 4


async def test_shadow_outcomes_are_judged() -> None:
    shadow = {"share": 1.0, "min_seconds": 0.3, "min_requests": 5, "max_error_rate": 1.0,
              "max_latency_ratio": 100, "max_seconds": 1}  # fmt: skip
    async with two_versions() as (running, control):
        rollout = await control.start_rollout(MODEL, "v2", settings=QUICK | {"shadow": shadow})
        ended = await until_ended(running, control, rollout.rollout_id)
        assert ended.phase == control_pb2.ROLLOUT_PHASE_PROMOTED
        trail = await control.verdicts(rollout.rollout_id)
        shadow_trail = [verdict for verdict in trail if verdict.step == -1]
        assert trail[0].step == -1
        # An analysis may come before the first copy has ended; the step is not left before.
        assert shadow_trail[-1].canary.requests >= 5


async def test_a_rollout_survives_a_restart_of_the_gateway(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path / 'control.db'}"}
    async with two_versions(store=store) as (running, control):
        started = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        before = 0
        while before < 6:
            await versions(running, range(40))
            trail = await control.verdicts(started.rollout_id)
            before = len(trail)
        requests = trail[-1].canary.requests
    async with two_versions(store=store) as (running, control):
        found = await control.rollout(started.rollout_id)
        assert (found.phase, found.canary_share) == (control_pb2.ROLLOUT_PHASE_RUNNING, 0.3)
        assert set(await versions(running, range(60))) == {"v1", "v2"}
        verdicts = await control.verdicts(started.rollout_id)
        # The counts of the step go on from where they were.
        while len(verdicts) <= before or verdicts[-1].canary.requests <= requests:
            await versions(running, range(40))
            verdicts = await control.verdicts(started.rollout_id)
        assert [verdict.sequence for verdict in verdicts] == list(range(1, len(verdicts) + 1))
        # At most the ticks since the state was last kept are lost.
        assert verdicts[before].canary.requests > requests / 2


async def test_a_scrape_shows_the_canarys_share() -> None:
    async with two_versions() as (running, control):
        metrics = running.gateway.registry
        labels = {"model": MODEL, "version": "v2"}
        assert metrics.get_sample_value("headway_rollout_canary_share", labels) is None
        await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        assert metrics.get_sample_value("headway_rollout_canary_share", labels) == 0.3


async def test_watchers_see_a_rollout_move_and_end() -> None:
    async with two_versions() as (_running, control):
        changes = control.watch(0.1)
        assert (await anext(changes)).snapshot
        rollout = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        async for change in changes:
            if change.state.rollouts:
                assert change.state.rollouts[0].rollout_id == rollout.rollout_id
                break
        await control.abort_rollout(rollout.rollout_id)
        async for change in changes:
            if change.ended_rollouts:
                assert list(change.ended_rollouts) == [rollout.rollout_id]
                break
        await changes.aclose()


async def test_code_without_an_event_loop_runs_rollouts_too() -> None:
    def operate(address: str) -> list[str]:
        with BlockingControlClient(address) as control:
            first = control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
            phases = [
                control.pause_rollout(first.rollout_id),
                control.resume_rollout(first.rollout_id),
                control.rollout(first.rollout_id),
                control.abort_rollout(first.rollout_id, "enough"),
                *control.rollouts(MODEL),
            ]
            second = control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
            phases.append(control.promote_rollout(second.rollout_id))
            assert len(control.verdicts(second.rollout_id)) >= 0
            names = [control_pb2.RolloutPhase.Name(each.phase) for each in phases]
            return [name.removeprefix("ROLLOUT_PHASE_") for name in names]

    async with two_versions() as (running, _control):
        phases = await asyncio.to_thread(operate, running.addresses["control"])
        assert phases == ["PAUSED", "RUNNING", "RUNNING", "ABORTED", "ABORTED", "PROMOTED"]


async def test_rollouts_are_listed_by_page_and_watched() -> None:
    async with two_versions() as (running, control):
        for _ in range(3):
            rollout = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
            await control.abort_rollout(rollout.rollout_id)
        page = await running.control.ListRollouts(control_pb2.ListRolloutsRequest(page_size=2))
        assert len(page.rollouts) == 2
        assert page.rollouts[0].rollout_id == rollout.rollout_id
        rest = await running.control.ListRollouts(
            control_pb2.ListRolloutsRequest(page_size=2, page_token=page.next_page_token)
        )
        assert (len(rest.rollouts), rest.next_page_token) == (1, "")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.control.ListRollouts(control_pb2.ListRolloutsRequest(page_token="x"))
        assert refusal(caught.value).field == "page_token"
        with pytest.raises(NotFound, match="no rollout 'nope'"):
            await control.rollout("nope")
        going = await control.start_rollout(MODEL, "v2", settings=SLOW_STEPS)
        state = await control.state()
        assert [each.rollout_id for each in state.rollouts] == [going.rollout_id]
