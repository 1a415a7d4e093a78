"""Cancellation, deadlines, lost and misbehaving workers, restarts: nothing hangs, nothing leaks."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import (
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
    until_replica,
)
from tests.support.scripted import scripted

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, types_pb2

HANG = {"failures": {"hang": 1}}


def assert_nothing_left(running: RunningGateway) -> None:
    assert running.gateway.scheduler.num_live() == 0
    assert running.gateway.dispatcher.num_flights() == running.gateway.scheduler.num_executing()


async def test_a_queued_request_that_is_cancelled_is_never_executed(transport: str) -> None:
    # Known fault 19, queued. The device holds the first one for as long as the test likes.
    async with scripted(transport=transport) as (running, worker):
        first = running.inference.Infer(text_request("first"), timeout=60)
        await until_executing(running)
        second = running.inference.Infer(text_request("second"), timeout=60)
        await until_live(running, 2)
        second.cancel()
        await until_live(running, 1)
        worker.resume()
        await first
        assert worker.executed == [["first"]]
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        assert [r.completed_batches for r in state.state.replicas] == [1]
        assert dict(state.state.gateway.requests) == {"ok": 1, "CANCELLED": 1}
        assert_nothing_left(running)


async def test_an_executing_request_that_is_cancelled_frees_the_device(transport: str) -> None:
    # Known fault 19, executing: the device would hang for ever if it were not told.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime=HANG),
    ):
        call = running.inference.Infer(text_request(), timeout=60)
        await until_executing(running)
        call.cancel()
        await until_live(running, 0)
        await until_executing(running, 0)
        assert_nothing_left(running)


async def test_a_deadline_during_execution_is_answered_at_the_deadline(transport: str) -> None:
    # Known fault 7.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime=HANG),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(slo=Duration(nanos=80_000_000)), timeout=60)
        told = refusal(caught.value)
        assert told.reason == "DEADLINE_EXPIRED"
        assert "while it ran" in told.message
        await until_executing(running, 0)
        assert_nothing_left(running)


async def test_a_deadline_in_the_queue_is_answered_at_the_deadline(transport: str) -> None:
    # Known fault 8: it waits behind a batch that does not end.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime=HANG),
    ):
        first = running.inference.Infer(text_request(), timeout=60)
        await until_executing(running)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(slo=Duration(nanos=80_000_000)), timeout=60)
        told = refusal(caught.value)
        assert told.reason == "DEADLINE_EXPIRED"
        assert "while it was queued" in told.message
        first.cancel()
        await until_executing(running, 0)
        assert_nothing_left(running)


async def test_hundreds_of_cancels_at_once_leave_nothing(transport: str) -> None:
    # Known faults 20 and 23.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime=HANG),
    ):
        calls = [running.inference.Infer(text_request(), timeout=60) for _ in range(300)]
        await until_live(running, 300)
        for call in calls:
            call.cancel()
        await until_live(running, 0)
        await until_executing(running, 0)
        assert_nothing_left(running)


async def test_a_lost_worker_s_requests_are_served_by_another(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        async with running_worker(running, worker_id="lost", runtime=HANG):
            call = running.inference.Infer(text_request(), timeout=30)
            await until_executing(running)
            async with running_worker(running, worker_id="heir", wait=False) as heir:
                await until_replica(running, "heir/sim/v1")
                # The one that hangs goes; what was on it moves.
                await _kill(running, "lost")
                answer = await call
                assert answer.replica == "heir"
                assert answer.attempts == 2
                assert heir is not None
        assert_nothing_left(running)


async def _kill(running: RunningGateway, worker_id: str) -> None:
    """Ends a worker's lease, as its silence would."""
    worker = running.gateway.fleet.workers[worker_id]
    assert running.gateway.fleet.deregister(worker.lease_id)


async def test_a_busy_worker_loses_nothing(transport: str) -> None:
    # Known faults 29 and 35.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"failures": {"busy": 0.5}}),
    ):
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(), timeout=20) for _ in range(50))
        )
        assert len(answers) == 50
        state = await running.control.GetState(control_pb2.GetStateRequest(), timeout=5)
        (replica,) = state.state.replicas
        assert replica.failed_batches == 0
        assert_nothing_left(running)


async def test_two_gateways_share_a_worker_and_lose_nothing() -> None:
    # Known fault 35: each takes the worker's one slot for its own.
    async with (
        running_gateway(transport="native", lease_seconds=60) as one,
        running_gateway(lease_seconds=60) as two,
    ):
        async with running_worker(one, two, runtime={"intercept_ms": 3}):
            answers = await asyncio.gather(
                *(
                    gateway.inference.Infer(text_request(f"{n}"), timeout=60)
                    for n in range(60)
                    for gateway in (one, two)
                )
            )
            assert len(answers) == 120
        assert_nothing_left(one)
        assert_nothing_left(two)


async def test_missing_and_extra_members_harm_nobody(transport: str) -> None:
    # Known fault 32.
    async with (
        running_gateway(transport=transport, max_attempts=10) as running,
        running_worker(running, runtime={"failures": {"garbage": 0.5}}),
    ):
        texts = [f"text {n}" for n in range(60)]
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(t), timeout=20) for t in texts),
            return_exceptions=True,
        )
        served = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert len(served) >= 55
        async with running_gateway() as clean, running_worker(clean, worker_id="clean"):
            for text, answer in zip(texts, answers, strict=True):
                if not isinstance(answer, BaseException):
                    expected = await clean.inference.Infer(text_request(text), timeout=5)
                    assert answer.output == expected.output, text
        assert_nothing_left(running)


async def test_a_poison_request_fails_alone(transport: str) -> None:
    # Known fault 15.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(
            running,
            runtime={"intercept_ms": 20, "failures": {"poison": {"marker": "poison"}}},
        ),
    ):
        texts = ["poison" if n == 3 else f"text {n}" for n in range(12)]
        answers = await asyncio.gather(
            *(running.inference.Infer(text_request(t), timeout=20) for t in texts),
            return_exceptions=True,
        )
        failed = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
        assert failed == [3]
        error = answers[3]
        assert isinstance(error, grpc.aio.AioRpcError)
        assert refusal(error).reason == "UPSTREAM_FAILURE"


async def test_a_worker_that_always_fails_is_given_up_on(transport: str) -> None:
    async with (
        running_gateway(transport=transport, max_attempts=2) as running,
        running_worker(running, runtime={"failures": {"fail": 1}}),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(), timeout=20)
        told = refusal(caught.value)
        assert (told.code, told.reason) == (grpc.StatusCode.INTERNAL, "UPSTREAM_FAILURE")
        assert "2 times" in told.message
        assert_nothing_left(running)


async def test_the_fleet_comes_back_after_a_gateway_restart(transport: str) -> None:
    # Known fault 33.
    async with running_gateway(transport=transport) as old:
        control_port = int(old.addresses["control"].rsplit(":", 1)[1])
        async with running_worker(old) as worker:
            await old.process.stop()
            async with running_gateway(transport=transport, control_port=control_port) as new:
                await until_replica(new, "w1/sim/v1")
                answer = await new.inference.Infer(text_request(), timeout=5)
                assert answer.replica == "w1"
            assert worker is not None


async def test_a_silent_worker_is_reaped_and_comes_back(transport: str) -> None:
    # Known fault 33: its lease ends on the gateway's side; its next heartbeat hears of it.
    async with (
        # Long beside any pause of a busy machine: only the test ends it. A third is a heartbeat.
        running_gateway(transport=transport, lease_seconds=9) as running,
        running_worker(running) as worker,
    ):
        (known,) = running.gateway.fleet.workers.values()
        known.expires_at_ns = 0
        running.gateway.fleet.reap()
        assert running.gateway.fleet.workers == {}
        await until_replica(running, "w1/sim/v1")
        assert (await running.inference.Infer(text_request(), timeout=60)).replica == "w1"
        assert worker is not None


def registration(worker_id: str) -> fleet_pb2.RegisterRequest:
    """A worker that is not there: nobody answers at its address."""
    return fleet_pb2.RegisterRequest(
        worker_id=worker_id,
        instance_id="another",
        address="127.0.0.1:9",
        models=[types_pb2.ModelCard(model="sim", version="v1")],
    )


async def test_a_restarted_worker_with_a_new_address_takes_over(transport: str) -> None:
    # Known fault 34: the lease of the one that died is still alive.
    async with running_gateway(transport=transport, lease_seconds=60) as running:
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        dead = await stub.Register(registration("w1"), timeout=5)
        async with running_worker(running, runtime={"max_requests": 7}) as worker:
            listed = running.gateway.catalog.models["sim"].versions["v1"].card
            assert listed.batch_limits.max_requests == 7
            assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"
            heartbeats = stub.Heartbeat()
            await heartbeats.write(fleet_pb2.HeartbeatRequest(lease_id=dead.lease_id))
            assert not (await heartbeats.read()).lease_known
            assert worker is not None


async def test_two_workers_of_one_name_do_not_throw_each_other_out(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Register(registration("w1"), timeout=5)
        told = refusal(caught.value)
        assert (told.code, told.reason) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "FAILED_PRECONDITION",
        )
        assert "give this one another worker_id" in told.message
        assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"


async def test_a_drained_replica_gets_nothing_and_comes_back(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, worker_id="w1"),
        running_worker(running, worker_id="w2"),
    ):
        drained = await running.control.DrainReplica(
            control_pb2.DrainReplicaRequest(worker_id="w1"), timeout=5
        )
        assert [r.condition for r in drained.replicas] == [control_pb2.REPLICA_CONDITION_DRAINING]
        answers = [await running.inference.Infer(text_request(), timeout=5) for _ in range(10)]
        assert {answer.replica for answer in answers} == {"w2"}
        await running.control.DrainReplica(
            control_pb2.DrainReplicaRequest(worker_id="w2"), timeout=5
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(), timeout=5)
        assert refusal(caught.value).reason == "NO_CAPACITY"
        await running.control.UndrainReplica(
            control_pb2.UndrainReplicaRequest(worker_id="w1"), timeout=5
        )
        assert (await running.inference.Infer(text_request(), timeout=5)).replica == "w1"


async def test_a_draining_gateway_finishes_what_it_has_and_refuses_new_work(
    transport: str,
) -> None:
    # Known fault 53.
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"intercept_ms": 300, "jitter_ratio": 0}),
    ):
        call = running.inference.Infer(text_request(), timeout=10)
        await until_executing(running)
        stopping = asyncio.ensure_future(running.process.stop())
        await running.until_serving(serving=False)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(), timeout=5)
        assert refusal(caught.value).reason == "DRAINING"
        assert (await call).replica == "w1"
        await stopping


async def test_a_drain_that_takes_too_long_ends_with_typed_errors(transport: str) -> None:
    async with (
        running_gateway(transport=transport, drain_seconds=0.2) as running,
        running_worker(running, runtime=HANG),
    ):
        call = running.inference.Infer(text_request(), timeout=60)
        await until_executing(running)
        await running.process.stop()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert refusal(caught.value).reason == "DRAINING"


async def _statuses(calls: list[Any]) -> list[str]:
    results = await asyncio.gather(*calls, return_exceptions=True)
    return ["ok" if not isinstance(r, BaseException) else type(r).__name__ for r in results]


async def test_losing_the_only_worker_under_load_hangs_nobody(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        # A batch is executing for certain when the worker goes.
        async with running_worker(running, runtime=HANG):
            calls = [running.inference.Infer(text_request(), timeout=2) for _ in range(64)]
            await until_executing(running)
            await _kill(running, "w1")
            ended = await _statuses(calls)
        assert len(ended) == 64
        # A caller knows its deadline by its own clock, before the gateway has let go.
        await until_live(running, 0)
        await until_executing(running, 0)
        assert_nothing_left(running)
