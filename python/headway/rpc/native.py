"""The native transport's server, without a thread for each reader that is behind."""

from typing import Any

from pygrpc_native import _native

from headway.clock import SystemClock
from headway.rpc.direct import DirectServer

_FIRST_WAIT_NS = 1_000_000
_LONGEST_WAIT_NS = 50_000_000


class NativeServer(DirectServer):
    """pygrpc-native's server of asyncio, with another way to wait for a reader.

    The package's own blocks a thread of the event loop's executor until the reader makes room.
    There are six on two cores: as many readers that stand still kept every other one that fell
    behind waiting, and the server from ever stopping. The native front tells of no room made, so
    it is asked again, less and less often.
    """

    async def _send(self, call: Any, context: Any, response: Any) -> bool:
        front = self._front
        assert front is not None
        data = self._encode(call, context, response)
        if data is None:
            return False
        context._initial_sent = True
        wait_ns = _FIRST_WAIT_NS
        while (sent := front.stream_try_send(call.call_id, data)) == _native.STREAM_FULL:
            await SystemClock().sleep(wait_ns)
            wait_ns = min(2 * wait_ns, _LONGEST_WAIT_NS)
        return bool(sent != _native.STREAM_CLOSED)
