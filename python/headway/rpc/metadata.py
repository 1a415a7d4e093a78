"""A bound on a call's metadata that holds from the first call on, for servers of grpcio.

grpcio judges headers by the settings that the client has acknowledged. Before that, or with a
client that never does, a call may have 16 MiB of them: 256 KiB on the wire where HPACK repeats
them. Such calls are ended here, before their message is read.
"""

from typing import Any

import grpc

# What HTTP/2 counts for each header beside its name and value (RFC 9113, 6.5.2).
_HEADER_OVERHEAD = 32


class BoundedMetadata(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Takes calls with more metadata than is allowed, and ends them with RESOURCE_EXHAUSTED.

    The first of a server's generic handlers. An interceptor would see the same of each call, and
    cost two coroutines more.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: names, values, and 32 for each header."""
        self._max_bytes = max_bytes

    def service(self, handler_call_details: Any) -> Any:
        """The handler that refuses the call; None to leave it to the next one."""
        size = 0
        for name, value in handler_call_details.invocation_metadata:
            size += len(name) + len(value) + _HEADER_OVERHEAD
        return None if size <= self._max_bytes else _refusal(size, self._max_bytes)


def _refusal(size: int, limit: int) -> Any:
    async def refuse(_requests: Any, context: Any) -> None:
        # No abort: its exception would keep the call, and all of its metadata, for a while.
        context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
        context.set_details(
            f"received metadata size exceeds hard limit ({size} vs. {limit}); send less, or raise "
            "limits.max_metadata_bytes"
        )

    # Of many requests, so that none is waited for; on the wire all kinds of calls begin alike.
    return grpc.stream_stream_rpc_method_handler(refuse)
