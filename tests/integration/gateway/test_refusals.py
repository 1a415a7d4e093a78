"""Bad input: each a typed error that names the field, the value and the way out."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.support.fleet import (
    refusal,
    refused,
    running_gateway,
    running_worker,
    text_request,
)

from headway.client import ControlClient
from headway.v1 import fleet_pb2, fleet_pb2_grpc, inference_pb2, types_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def with_tensor(**fields: Any) -> inference_pb2.InferRequest:
    tensor = types_pb2.Tensor(**fields)
    value = types_pb2.Input(tensors=types_pb2.TensorList(values=[tensor]))
    return inference_pb2.InferRequest(model="sim", input=value)


FLOAT = types_pb2.DATA_TYPE_FLOAT32
ROWS = [
    ("no input", inference_pb2.InferRequest(model="sim"), "input"),
    ("empty text", text_request(""), "input.text"),
    ("blank text", text_request("  "), "input.text"),
    ("weight 0", text_request(weight=0), "weight"),
    ("weight NaN", text_request(weight=float("nan")), "weight"),
    ("weight infinite", text_request(weight=float("inf")), "weight"),
    ("priority", text_request(priority=9), "priority"),
    ("lane", text_request(lane=9), "lane"),
    ("slo 0", text_request(slo=Duration()), "slo"),
    ("slo negative", text_request(slo=Duration(seconds=-1)), "slo"),
    ("output budget", text_request(max_output_units=0), "max_output_units"),
    ("session key", text_request(session_key="k" * 257), "session_key"),
    ("session key in bytes", text_request(session_key="é" * 129), "session_key"),
    ("request id", text_request(request_id="a\nb"), "request_id"),
    ("long id", text_request(request_id="i" * 129), "request_id"),
]


@pytest.mark.parametrize(("name", "request_", "field"), ROWS, ids=[row[0] for row in ROWS])
async def test_a_bad_field_is_named(
    transport: str, name: str, request_: inference_pb2.InferRequest, field: str
) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        told = await refused(running, request_)
        assert (told.code, told.reason, told.field) == (INVALID, "INVALID_REQUEST", field)
        assert field in told.message
        assert running.gateway.scheduler.num_live() == 0


async def test_a_malformed_tensor_names_the_part_that_is_wrong(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        told = await refused(running, with_tensor(dtype=FLOAT, shape=[1, 3], data=bytes(8)))
        assert (told.code, told.reason) == (INVALID, "INVALID_REQUEST")
        assert told.field == "input.tensors.values[0].data"
        assert "needs 12" in told.message


async def test_an_unknown_model_is_named_with_the_nearest(transport: str) -> None:
    async with (
        running_gateway(transport=transport, lease_seconds=0.2) as running,
        running_worker(running),
    ):
        request = inference_pb2.InferRequest(model="simm", input=types_pb2.Input(text="x"))
        told = await refused(running, request)
        while told.reason == "MODEL_LOADING":  # the gateway has just started
            told = await refused(running, request)
        assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
        assert "did you mean sim?" in told.message


async def test_a_gateway_that_has_just_started_says_so_rather_than_not_found(
    transport: str,
) -> None:
    async with running_gateway(transport=transport, lease_seconds=300) as running:
        told = await refused(running, text_request())
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_LOADING")
        assert told.retry_ns == 1_000_000_000
        assert told.pushback_ms == "1000"


async def test_an_unknown_version_is_named_with_those_there_are(transport: str) -> None:
    async with (
        running_gateway(transport=transport, lease_seconds=0.2) as running,
        running_worker(running),
    ):
        told = await refused(running, text_request(version="v9"))
        while told.reason == "MODEL_LOADING":
            told = await refused(running, text_request(version="v9"))
        assert told.reason == "MODEL_NOT_FOUND"
        assert "there are: v1" in told.message


async def test_no_replica_is_no_capacity_with_a_time_to_come_back(transport: str) -> None:
    async with running_gateway(transport=transport) as running:
        async with running_worker(running):
            pass
        told = await refused(running, text_request())
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_CAPACITY")
        assert told.retry_ns is not None
        assert told.pushback_ms is not None


async def test_the_way_to_a_version_that_is_there_is_named(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, worker_id="high", version="v2"),
        ControlClient(running.addresses["control"]) as control,
    ):
        async with running_worker(running, worker_id="low", version="v1"):
            await running.inference.Infer(text_request(), timeout=10)
        told = await refused(running, text_request(request_id="lost"))
        assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_CAPACITY")
        assert told.metadata["version"] == "v1"
        assert told.metadata["live_versions"] == "v2"
        assert told.metadata["command"] == "headway split set sim v2=1"
        assert told.metadata["rule"] == "capacity"
        assert "without a split all requests go to the lowest version" in told.message
        assert "`headway split set sim v2=1`; retry in 1000 ms" in told.message
        explained = await control.explain("lost")
        assert any("`headway split set sim v2=1`" in text for text in explained.sentences)

        pinned = await refused(running, text_request(version="v1"))
        assert "versions with replicas: v2. Name one of them, or none" in pinned.message
        assert "command" not in pinned.metadata

        await control.set_split("sim", {"v2": 1.0})
        answer = await running.inference.Infer(text_request(), timeout=10)
        assert answer.version == "v2"


@pytest.mark.parametrize("name", ["first_token", "gap", "completion"])
async def test_a_target_for_parts_of_what_comes_whole_is_named(transport: str, name: str) -> None:
    targets = types_pb2.StreamTargets()
    getattr(targets, name).FromMilliseconds(250)
    asked = text_request(targets=targets)
    async with running_gateway(transport=transport) as running, running_worker(running):
        told = await refused(running, asked)
        assert (told.code, told.field) == (INVALID, f"targets.{name}")
        assert f"targets.{name} is 0.25 s, and sim/v1 answers whole" in told.message
        assert "leave targets out" in told.message

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            call = running.inference.InferStream(
                inference_pb2.InferStreamRequest(request=asked), timeout=10
            )
            await call.read()
        assert refusal(caught.value).field == f"targets.{name}"

        many = running.inference.InferMany(timeout=10)
        await many.write(inference_pb2.InferManyRequest(id=1, request=asked))
        await many.write(inference_pb2.InferManyRequest(id=2, request=text_request()))
        await many.done_writing()
        answers = {answer.id: answer async for answer in many}
        assert answers[1].error.code == INVALID.value[0]
        assert f"targets.{name}" in answers[1].error.message
        assert answers[2].response.version == "v1"
        # Set, but naming nothing, it asks for nothing.
        empty = text_request(targets=types_pb2.StreamTargets())
        assert (await running.inference.Infer(empty, timeout=10)).version == "v1"


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"max_output_units": 5}, "max_output_units", "max_output_units is 5, and sim/v1 answers"),
        ({"sampling": {"temperature": 0.0}}, "sampling.temperature", "leave sampling out"),
        ({"sampling": {"temperature": float("nan")}}, "sampling.temperature", "answers whole"),
        ({"sampling": {"stop": ["."]}}, "sampling.stop", "sampling.stop is set, and sim/v1"),
        ({"sampling": {"seed": 0}}, "sampling.seed", "draws nothing"),
    ],
)
async def test_how_to_write_means_nothing_to_what_comes_whole(
    transport: str, fields: dict[str, Any], field: str, says: str
) -> None:
    asked = text_request(**fields)
    async with running_gateway(transport=transport) as running, running_worker(running):
        told = await refused(running, asked)
        assert (told.code, told.field) == (INVALID, field)
        assert says in told.message

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            call = running.inference.InferStream(
                inference_pb2.InferStreamRequest(request=asked), timeout=10
            )
            await call.read()
        assert refusal(caught.value).field == field

        many = running.inference.InferMany(timeout=10)
        await many.write(inference_pb2.InferManyRequest(id=1, request=asked))
        await many.done_writing()
        answers = [answer async for answer in many]
        assert [each.error.code for each in answers] == [INVALID.value[0]]
        assert field in answers[0].error.message
        # Set, but naming nothing, it asks for nothing.
        empty = text_request(sampling=types_pb2.SamplingParameters())
        assert (await running.inference.Infer(empty, timeout=10)).version == "v1"


async def test_a_session_key_of_256_bytes_is_taken(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        asked = text_request(session_key="é" * 128)
        assert (await running.inference.Infer(asked, timeout=10)).version == "v1"


async def test_an_oversized_message_is_refused_and_the_next_one_is_served(
    transport: str,
) -> None:
    # Known fault 55.
    async with (
        running_gateway(transport=transport, max_message_bytes=10_000) as running,
        running_worker(running),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request("x" * 20_000), timeout=10)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "10000" in (caught.value.details() or "")
        await running.inference.Infer(text_request("x" * 5_000), timeout=10)


async def test_a_message_above_grpcs_default_of_4_mib_is_served(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"max_units": 0}),
    ):
        await running.inference.Infer(text_request("x" * 6_000_000), timeout=30)


async def test_a_request_larger_than_any_batch_will_never_fit(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        told = await refused(running, text_request("x" * 4 * 20_000))
        assert (told.code, told.reason) == (INVALID, "INVALID_REQUEST")
        assert "16384" in told.message
        assert told.retry_ns is None


async def test_a_deadline_that_cannot_be_met_is_refused_at_once(transport: str) -> None:
    async with (
        running_gateway(transport=transport) as running,
        running_worker(running, runtime={"intercept_ms": 200, "jitter_ratio": 0}),
    ):
        for _ in range(5):
            await running.inference.Infer(text_request(), timeout=10)
        told = await refused(running, text_request(slo=Duration(nanos=50_000_000)))
        assert told.code == grpc.StatusCode.DEADLINE_EXCEEDED
        assert told.reason == "DEADLINE_UNREACHABLE"
        assert int(told.metadata["needed_ns"]) > 150_000_000
        assert int(told.metadata["available_ns"]) <= 50_000_000


async def test_a_passed_deadline_is_told_as_such(transport: str) -> None:
    async with running_gateway(transport=transport) as running, running_worker(running):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.inference.Infer(text_request(), timeout=1e-6)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert running.gateway.scheduler.num_live() == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"worker_id": ""}, "worker_id"),
        ({"instance_id": ""}, "instance_id"),
        ({"address": "no port"}, "address"),
        ({"address": "host:0"}, "address"),
        ({"models": []}, "models"),
        ({"models": [types_pb2.ModelCard(model="m")]}, "models[0]"),
    ],
    ids=["no name", "no instance", "no port", "port 0", "no models", "no version"],
)
async def test_a_malformed_registration_names_its_field(
    changes: dict[str, Any], field: str
) -> None:
    async with running_gateway(transport="grpcio") as running:
        fields: dict[str, Any] = {
            "worker_id": "w",
            "instance_id": "1",
            "address": "127.0.0.1:1",
            "models": [types_pb2.ModelCard(model="m", version="v1")],
        }
        stub = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Register(fleet_pb2.RegisterRequest(**{**fields, **changes}), timeout=5)
        assert refusal(caught.value).field == field


async def test_what_clients_invent_is_no_metric_label(transport: str) -> None:
    # Known fault 54.
    from prometheus_client import generate_latest

    async with running_gateway(transport=transport, lease_seconds=300) as running:
        for number in range(20):
            request = inference_pb2.InferRequest(
                model=f"invented-{number}", input=types_pb2.Input(text="x")
            )
            await refused(running, request)
        exposition = generate_latest(running.gateway.registry).decode()
        assert "invented" not in exposition
        assert (
            'headway_requests_total{model="other",outcome="MODEL_LOADING",version="other"} 20.0'
            in exposition
        )
