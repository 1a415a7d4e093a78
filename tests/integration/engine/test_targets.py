"""A request's own targets for first token, gap and completion, from the wire to the price."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.integration.worker import peers
from tests.support.fleet import refusal, running_gateway
from tests.support.writers import request, running_writer

from headway.v1 import types_pb2, worker_pb2

S = 1_000_000_000


def targets(**seconds: float) -> types_pb2.StreamTargets:
    wanted = types_pb2.StreamTargets()
    for name, value in seconds.items():
        getattr(wanted, name).FromNanoseconds(round(value * S))
    return wanted


@pytest.mark.parametrize("name", ["first_token", "gap", "completion"])
@pytest.mark.parametrize("seconds", [0, -1, 86_401])
async def test_a_target_that_is_no_span_of_time_is_named(name: str, seconds: float) -> None:
    async with running_gateway() as gateway, running_writer(gateway):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.inference.Infer(request(targets=targets(**{name: seconds})))
    told = refusal(caught.value)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, f"targets.{name}")
    assert f"{seconds:g} s" in told.message
    assert "24 h" in told.message


async def test_a_target_that_is_missed_ends_nothing() -> None:
    wanted = targets(first_token=0.000_001, gap=0.000_001, completion=0.000_001)
    async with running_gateway() as gateway, running_writer(gateway):
        answer = await gateway.inference.Infer(request(tokens=6, targets=wanted))
    assert answer.usage.output_units == 6


async def test_who_wants_its_first_token_soon_goes_first() -> None:
    # Straight to a worker. Two prompts of the same length on a slow device, 10 s each; the second
    # wants to begin within 13 s, which is possible only before the first.
    runtime = {"kind": "simulated-decoder", "surface": "gpu", "noise": 0, "context": 300_000,
               "kv_tokens": 900_000, "mean_output_tokens": 1000}  # fmt: skip
    models = [{"model": "writer", "runtime": runtime}]
    async with (
        peers.running_worker(models=models) as worker,
        peers.session(worker.addresses["worker"]) as gateway,
    ):
        for number, wanted in ((1, None), (2, worker_pb2.ItemTargets())):
            prompt = types_pb2.TokenIds(ids=[number] * 60_000)
            item = worker_pb2.BatchItem(
                item_id=number,
                remaining_ns=60 * S,
                input=types_pb2.Input(token_ids=prompt),
                max_output_units=1,
            )
            if wanted is not None:
                wanted.first_token_remaining_ns = int(1.2 * S)
                item.targets.CopyFrom(wanted)
            await gateway.execute(number, [item])
        order = []
        while len(order) < 2:
            message = await gateway.read()
            if message.WhichOneof("message") == "result":
                order.append(message.result.batch_id)
    assert order == [2, 1]


async def test_what_was_waited_is_taken_off_at_the_worker() -> None:
    from headway.gateway.stream_targets import remaining

    told = remaining(targets(first_token=2, gap=0.5, completion=10), 3 * S)
    assert told.first_token_remaining_ns == -1 * S
    assert told.gap_ns == S // 2
    assert told.completion_remaining_ns == 7 * S
    assert not remaining(types_pb2.StreamTargets(gap=Duration(seconds=1)), 0).HasField(
        "first_token_remaining_ns"
    )
