"""What the runs found, each pinned."""

import base64
import gc
import logging
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from tests.support.fleet import refusal, running_gateway, running_worker
from tests.support.http2 import GET_STATE, INFER, INFER_MANY, http2

from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, inference_pb2, types_pb2

MIB = 1 << 20

UNREADABLE = {
    "no message": b"\xff\xff\xff",
    "text that is no UTF-8": b"\x0a\x02\xff\xfe",
}


@pytest.mark.parametrize("transport", ["grpcio", "native"])
@pytest.mark.parametrize("path", [INFER, INFER_MANY, GET_STATE])
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_cannot_be_read_is_the_callers_fault(
    path: str, body: bytes, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was UNKNOWN, and a traceback in the log for each."""
    if path != INFER:
        body = b"\xff\xff\xff"  # the first field of their messages is no text
    async with running_gateway(transport=transport) as running, running_worker(running):
        port = "control" if path == GET_STATE else "data"
        with caplog.at_level(logging.INFO):
            channel = running.channel if port == "data" else running.control_channel
            call = channel.stream_stream(path)(iter([body]), timeout=5)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in call:
                    pass
        told = refusal(caught.value)
        assert (told.code.name, told.reason) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
        assert told.message.startswith("the message cannot be read: ")
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_a_method_that_is_not_implemented_fills_no_log(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Health.List, by anybody: each call was a traceback in the log on native."""
    async with running_gateway(transport=transport) as running:
        with caplog.at_level(logging.INFO), pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.health.List(health_pb2.HealthListRequest(), timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_call_without_a_message_ends_by_its_deadline() -> None:
    async with running_gateway() as running, http2(running.addresses["data"]) as client:
        stream = client.begin(INFER, ("grpc-timeout", "100m"))
        client.h2.send_data(stream, b"", end_stream=True)
        await client.flush()
        assert (await client.end_of(stream)).get("grpc-status", "reset") != "0"


NAN = float("nan")
CARDS = {
    "units that are no number": ("unit_estimate", {"units_per_row": NAN}),
    "units without end": ("unit_estimate", {"units_per_byte": float("inf")}),
    "units below zero": ("unit_estimate", {"units_per_element": -1.0}),
    "a slope that is no number": ("cost_prior", {"slope_ns_per_unit": NAN}),
    "limits below zero": ("batch_limits", {"max_rows": -5}),
}


@pytest.mark.parametrize(("part", "values"), CARDS.values(), ids=CARDS)
async def test_a_worker_with_numbers_that_are_none_is_not_let_in(
    part: str, values: dict[str, float]
) -> None:
    """Every request for its model failed with INTERNAL."""
    card = types_pb2.ModelCard(model="m", version="v1")
    getattr(card, part).CopyFrom(type(getattr(card, part))(**values))
    await _refused(f"models[0].{part}.{next(iter(values))}", models=[card])


@pytest.mark.parametrize(
    ("field", "value"),
    [("address", "host:²"), ("address", "h:" + "1" * 400), ("worker_id", "Ü"),
     ("worker_id", "w" * 65), ("instance_id", "i" * 200), ("labels", {"k": "v" * 65})],
)  # fmt: skip
async def test_a_worker_with_an_odd_name_or_address_is_not_let_in(field: str, value: Any) -> None:
    """A digit that is none of 0 to 9 ended in INTERNAL."""
    await _refused(field, **{field: value})


async def _refused(field: str, **changes: Any) -> None:
    known: dict[str, Any] = {
        "worker_id": "w",
        "instance_id": "i",
        "address": "127.0.0.1:1",
        "models": [types_pb2.ModelCard(model="m", version="v1")],
    }
    async with running_gateway() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await fleet_pb2_grpc.FleetServiceStub(running.control_channel).Register(
                fleet_pb2.RegisterRequest(**{**known, **changes}), timeout=5
            )
        told = refusal(caught.value)
        assert (told.reason, told.field) == ("INVALID_REQUEST", field)
        assert running.gateway.fleet.workers == {}


def _packed(token: str) -> str:
    return base64.urlsafe_b64encode(token.encode()).decode()


PAGES = {
    "ListRollouts": control_pb2.ListRolloutsRequest,
    "ListVerdicts": partial(control_pb2.ListVerdictsRequest, rollout_id="r"),
    "ListAuditEntries": control_pb2.ListAuditEntriesRequest,
}


@pytest.mark.parametrize("token", ["\u00b9", "9" * 19, "9" * 20, "-1"])
@pytest.mark.parametrize("method", PAGES)
async def test_a_page_token_that_is_no_number_is_the_callers_fault(method: str, token: str) -> None:
    """A superscript digit, and a number that no store holds, ended in INTERNAL."""
    if method == "ListAuditEntries":
        token = _packed(token)
    async with running_gateway() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await getattr(running.control, method)(PAGES[method](page_token=token), timeout=5)
    told = refusal(caught.value)
    assert (told.reason, told.field) == ("INVALID_REQUEST", "page_token")


async def _infer(stub: Any, request: inference_pb2.InferRequest) -> None:
    await stub.Infer(request, timeout=60)


async def _infer_stream(stub: Any, request: inference_pb2.InferRequest) -> None:
    await stub.InferStream(inference_pb2.InferStreamRequest(request=request), timeout=60).read()


@pytest.mark.parametrize("call", [_infer, _infer_stream])
async def test_requests_that_are_refused_are_not_kept(call: Any) -> None:
    """grpc.aio keeps an abort's frames in a cycle: 60 requests of 20 MB held 1.3 GB."""
    async with running_gateway() as running, running_worker(running):
        request = inference_pb2.InferRequest(
            model="nothing", input=types_pb2.Input(text="x" * (16 * MIB))
        )
        gc.disable()  # gateways collect rarely
        try:
            before = 0
            for number in range(30):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call(running.inference, request)
                if number == 9:
                    before = _resident()
            grown = _resident() - before
        finally:
            gc.enable()
    # Twenty of 16 MiB.
    assert grown < 128 * MIB, f"{grown / MIB:.0f} MiB"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
