"""What reads bytes that others wrote, as one function of some bytes."""

from collections.abc import Callable

from google.protobuf.message import DecodeError

from headway.admission.units import UnitEstimator
from headway.errors import HeadwayError
from headway.gateway import registration
from headway.rpc.convert import array_from_tensor, deadline_ns, duration_from_ns, duration_ns
from headway.v1 import fleet_pb2, inference_pb2, types_pb2

_ESTIMATOR = UnitEstimator(
    types_pb2.ModelCard(
        model="m",
        unit_estimate=types_pb2.UnitEstimate(
            units_per_row=2, units_per_byte=0.25, units_per_element=1, max_units_per_row=512
        ),
    )
)


def _request(data: bytes) -> None:
    request = inference_pb2.InferRequest.FromString(data)
    units, rows = _ESTIMATOR.estimate(request.input)
    assert units >= 1
    assert rows >= 1
    for tensor in request.input.tensors.values:
        array_from_tensor(tensor)


def _registration(data: bytes) -> None:
    request = fleet_pb2.RegisterRequest.FromString(data)
    registration.check(request)
    for card in request.models:
        units, _ = UnitEstimator(card).estimate(types_pb2.Input(text="the tide turns"))
        assert units >= 1


def _tensor(data: bytes) -> None:
    tensor = types_pb2.Tensor.FromString(data)
    array = array_from_tensor(tensor)
    assert array.nbytes == len(tensor.data)


def _duration(data: bytes) -> None:
    item = inference_pb2.InferManyRequest.FromString(data)
    ns = duration_ns(item.timeout)
    if abs(ns) < 1 << 62:
        assert duration_ns(duration_from_ns(ns)) == ns
    deadline_ns(0, ns / 1e9, 86_400 * 10**9)


READERS: tuple[Callable[[bytes], None], ...] = (_request, _registration, _tensor, _duration)


def read(data: bytes) -> None:
    """Has the reader that the first byte names read the rest.

    Raises whatever is no refusal: that is a finding.
    """
    if not data:
        return
    try:
        READERS[data[0] % len(READERS)](data[1:])
    except (HeadwayError, DecodeError):
        return


def seeds() -> list[bytes]:
    """Good messages, to begin from."""
    text = types_pb2.Input(text="the tide turns")
    tensor = types_pb2.Tensor(
        name="x", dtype=types_pb2.DATA_TYPE_INT32, shape=[2, 1], data=b"12345678"
    )
    card = types_pb2.ModelCard(
        model="m", version="v1", unit_estimate=types_pb2.UnitEstimate(units_per_byte=0.25)
    )
    worker = fleet_pb2.RegisterRequest(
        worker_id="w", instance_id="i", address="127.0.0.1:1", models=[card]
    )
    many = inference_pb2.InferManyRequest(id=1, timeout=duration_from_ns(1_500_000_000))
    messages = (
        inference_pb2.InferRequest(model="m", input=text),
        worker,
        tensor,
        many,
        inference_pb2.InferRequest(
            input=types_pb2.Input(tensors=types_pb2.TensorList(values=[tensor]))
        ),
    )
    names = (0, 1, 2, 3, 0)
    return [
        bytes([name]) + message.SerializeToString()
        for name, message in zip(names, messages, strict=True)
    ]
