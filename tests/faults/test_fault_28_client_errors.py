"""Known fault 28: a burst of the client's own errors opens breakers."""

import asyncio

import grpc
from tests.support.fleet import refusal, running_gateway, running_worker, text_request

from headway.v1 import control_pb2, inference_pb2, types_pb2


def unlike_tensors() -> inference_pb2.InferRequest:
    """Two tensors that differ in their number of rows: only the model can tell."""
    tensors = [
        types_pb2.Tensor(dtype=types_pb2.DATA_TYPE_INT32, shape=(rows, 1), data=b"abcd" * rows)
        for rows in (1, 2)
    ]
    given = types_pb2.Input(tensors=types_pb2.TensorList(values=tensors))
    return inference_pb2.InferRequest(model="sim", input=given)


async def test_fault_28_client_errors() -> None:
    async with (
        running_gateway() as running,
        running_worker(running, worker_id="w1"),
        running_worker(running, worker_id="w2"),
    ):
        answers = await asyncio.gather(
            *(running.inference.Infer(unlike_tensors(), timeout=20) for _ in range(300)),
            return_exceptions=True,
        )
        for answer in answers:
            assert isinstance(answer, grpc.aio.AioRpcError)
            assert refusal(answer).reason == "INVALID_REQUEST"
        listed = await running.control.ListReplicas(control_pb2.ListReplicasRequest(), timeout=5)
        assert len(listed.replicas) == 2
        for replica in listed.replicas:
            assert replica.breaker == control_pb2.BREAKER_STATE_CLOSED
            assert replica.recent_outcomes == 0
            assert not replica.HasField("latency"), "what was not executed is no latency"
        assert (await running.inference.Infer(text_request(), timeout=5)).replica in ("w1", "w2")
