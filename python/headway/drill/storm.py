"""Makes many calls on many connections and waits to be killed.

Arguments: address, connections, calls on each. Prints "sent" once all calls are on their way.
"""

import asyncio
import sys

from grpc import aio

from headway.client import text_request
from headway.client.client import SERVICE
from headway.drill.processes import MODEL
from headway.rpc.channels import open_channel
from headway.v1 import inference_pb2


async def main(address: str, num_connections: int, num_calls: int) -> None:
    """Runs until killed."""
    channels = [open_channel(address) for _ in range(num_connections)]
    calls: list[aio.UnaryUnaryCall] = []
    for channel in channels:
        await channel.channel_ready()
        infer = channel.unary_unary(
            SERVICE + "Infer",
            request_serializer=inference_pb2.InferRequest.SerializeToString,
            response_deserializer=inference_pb2.InferResponse.FromString,
        )
        calls += [infer(text_request("storm", model=MODEL), timeout=30) for _ in range(num_calls)]
    tasks = [asyncio.ensure_future(call.wait_for_connection()) for call in calls]
    await asyncio.gather(*tasks, return_exceptions=True)
    print("sent", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
