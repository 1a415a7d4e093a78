"""The null baseline: a server whose Infer answers at once, on either transport.

Run by bench.load.overhead as a process of its own; prints its address.
"""

import asyncio
import sys

import uvloop

from headway.limits import ConnectionLimits
from headway.rpc.server import bind, make_server
from headway.v1 import inference_pb2, inference_pb2_grpc


class Echo(inference_pb2_grpc.InferenceServiceServicer):
    """Answers with nothing but the request's name."""

    async def Infer(
        self, request: inference_pb2.InferRequest, context: object
    ) -> inference_pb2.InferResponse:
        return inference_pb2.InferResponse(request_id=request.request_id)


async def serve(transport: str) -> None:
    server = make_server(transport, max_message_bytes=1 << 22, limits=ConnectionLimits())  # type: ignore[arg-type]
    inference_pb2_grpc.add_InferenceServiceServicer_to_server(Echo(), server)
    print(bind(server, "127.0.0.1", 0, "echo"), flush=True)
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
