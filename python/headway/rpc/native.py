"""The native transport's server: HTTP/2 in the core, under the same servicers."""

from typing import Any

from headway._core import Front
from headway.clock import SystemClock
from headway.errors import RequestError
from headway.limits import ConnectionLimits
from headway.rpc.direct import DirectServer
from headway.rpc.promptness import no_message, overdue
from headway.rpc.status import abort_arguments
from headway.telemetry.ports import ConnectionReading

_FIRST_WAIT_NS = 1_000_000
_LONGEST_WAIT_NS = 50_000_000
_FULL, _OVER = 1, 2
_NS_PER_S = 1e9
# What the address of a caller adds to the metadata of a call that is passed on.
_PEER_BYTES = 128
_HOP_WINDOW_BYTES = 64 << 10


class NativeServer(DirectServer):
    """pygrpc-native's server of asyncio on Headway's own front, whose connections are bounded.

    The package's front bounds neither connections nor the time of messages, holds megabytes for a
    stream that nobody reads, and waits for readers in threads of the event loop's executor. The
    front here tells of no room made, so it is asked again, less and less often.
    """

    def __init__(
        self,
        *,
        interceptors: Any = (),
        options: list[tuple[str, int]],
        max_message_bytes: int,
        limits: ConnectionLimits,
    ) -> None:
        """Not bound yet. `options`: of the server behind, as for grpcio."""
        super().__init__(interceptors=interceptors, options=options)
        # For calls of many requests. It is reached through the front alone, so that it need not
        # bound connections, and reads little ahead of its servicers.
        self._options = [
            *((name, value) for name, value in options if "max_metadata_size" not in name),
            ("grpc.max_metadata_size", limits.max_metadata_bytes + _PEER_BYTES),
            ("grpc.absolute_max_metadata_size", limits.max_metadata_bytes + _PEER_BYTES),
            ("grpc.enable_channelz", 1),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", _HOP_WINDOW_BYTES),
            ("grpc.http2.write_buffer_size", limits.write_buffer_bytes),
        ]
        self._limits = limits
        self._max_message_bytes = max_message_bytes
        self._bound: Front | None = None

    def add_insecure_port(self, address: str) -> int:
        """Binds host:port and returns the port.

        Raises:
          RuntimeError: the port is taken or not permitted, or one is bound already.
        """
        if self._bound is not None:
            raise RuntimeError("only one port is supported")
        try:
            self._bound = _front(address, self._max_message_bytes, self._limits)
        except OSError as error:
            raise RuntimeError(f"cannot bind {address}") from error
        front: Any = self._bound
        self._front = front
        return self._bound.bound_port

    def connections(self) -> ConnectionReading:
        """What the front has counted; all zero before it is bound."""
        if self._bound is None:
            return ConnectionReading()
        return ConnectionReading(*self._bound.counts())

    async def _send(self, call: Any, context: Any, response: Any) -> bool:
        front = self._bound
        assert front is not None
        data = self._encode(call, context, response)
        if data is None:
            return False
        context._initial_sent = True
        wait_ns = _FIRST_WAIT_NS
        while (sent := front.stream_try_send(call.call_id, data)) == _FULL:
            await SystemClock().sleep(wait_ns)
            wait_ns = min(2 * wait_ns, _LONGEST_WAIT_NS)
        return bool(sent != _OVER)


def _front(address: str, max_message_bytes: int, limits: ConnectionLimits) -> Front:
    age = limits.max_connection_age_seconds
    return Front(
        address=address,
        threads=2,
        max_connections=limits.max_connections,
        max_concurrent_streams=limits.max_concurrent_streams,
        max_metadata_bytes=limits.max_metadata_bytes,
        max_message_bytes=max_message_bytes,
        max_message_ns=_ns(limits.max_message_seconds),
        write_buffer_bytes=limits.write_buffer_bytes,
        keepalive_ns=_ns(limits.keepalive_seconds),
        keepalive_timeout_ns=_ns(limits.keepalive_timeout_seconds),
        max_idle_ns=_ns(limits.max_connection_idle_seconds),
        max_age_ns=None if age is None else _ns(age),
        max_age_grace_ns=_ns(limits.max_connection_age_grace_seconds),
        overdue=_told(overdue(limits.max_message_seconds)),
        no_message=_told(no_message()),
    )


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)


def _told(error: RequestError) -> tuple[int, str, list[tuple[str, str | bytes]]]:
    code, message, trailers = abort_arguments(error)
    number: int = code.value[0]
    return number, message, list(trailers)
