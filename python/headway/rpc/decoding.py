"""Messages that cannot be read end as INVALID_REQUEST, not as an unexpected error with a trace.

gRPC turns an exception of a deserializer into UNKNOWN and a traceback in the log: any client could
fill the log with them. Here the deserializer of a single request hands on what it could not read,
and the guard refuses it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from headway.errors import InvalidRequest

# What grpc.aio raises where it sends to a client that has left.
_CLIENT_LEFT = "ExecuteBatchError"

_GRPC_LOGGERS = ("grpc._cython.cygrpc", "pygrpc_native._server", "pygrpc_native.aio")


class Malformed:
    """Bytes that are no message; stands in for it until the guard sees it."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def refusal_of(why: str) -> InvalidRequest:
    """What a caller is told of bytes that are no message."""
    return InvalidRequest(
        f"the message cannot be read: {why}; encode it by proto/headway/v1", field="message"
    )


class Lenient:
    """A server to which services are added with deserializers that do not raise.

    Give it to the generated `add_..._to_server`; only the methods of a guarded servicer may be
    added, since others would be handed `Malformed`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Does nothing: the generated code adds the same methods by name, next."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Adds the methods of a service."""
        lenient = {name: _lenient(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, lenient)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_registered_method_handlers(service, lenient)


def _lenient(handler: Any) -> Any:
    # Of a stream the guard sees the exception itself, where the servicer reads.
    if handler.request_streaming:
        return handler
    return handler._replace(request_deserializer=_tolerant(handler.request_deserializer))


def _tolerant(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except DecodeError as error:
            return Malformed(str(error))

    return read


class _WithoutTraces(logging.Filter):
    """Keeps what clients sent wrongly from filling the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, DecodeError):
            record.msg, record.args = "a message that cannot be read: %s", (str(error),)
        elif type(error).__name__ == _CLIENT_LEFT:
            record.msg, record.args = "the client left while it was answered: %s", (str(error),)
        elif isinstance(error, NotImplementedError):
            # Of generated code, for methods that a standard service has and Headway does not.
            record.msg, record.args = "a method that is not implemented was called", ()
        else:
            return True
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_filter = _WithoutTraces()


def calm_logs() -> None:
    """Has gRPC's own loggers tell at debug of unreadable messages and of clients that left.

    Repeating it changes nothing.
    """
    for name in _GRPC_LOGGERS:
        logging.getLogger(name).addFilter(_filter)
