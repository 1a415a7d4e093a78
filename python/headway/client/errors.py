"""Turns what a gateway answers back into the errors of `headway.errors`."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from headway import errors
from headway.rpc.convert import duration_ns


class GatewayUnreachable(errors.HeadwayError):
    """No connection to the gateway, or it was lost before an answer.

    Attributes:
      reason: "UNREACHABLE".
      message: what is wrong and the way out, in words.
      retry_after_ns: None; nobody was there to say.
    """

    reason = "UNREACHABLE"
    retry_after_ns: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnexpectedStatus(errors.HeadwayError):
    """A gRPC status without a reason that Headway knows: not from a gateway, or from a newer one.

    Attributes:
      reason: the reason given, else the name of the gRPC code.
      message: as received.
      retry_after_ns: when trying again makes sense, if that was said.
    """

    def __init__(self, reason: str, message: str, retry_after_ns: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after_ns = retry_after_ns


CallError = errors.RequestError | GatewayUnreachable | UnexpectedStatus
"""What a call may raise."""

_BY_REASON: Final[Mapping[str, type[errors.RequestError]]] = MappingProxyType(
    {kind.reason: kind for kind in errors.RequestError.__subclasses__()}
)
_TOO_LARGE: Final = re.compile(
    r"(CLIENT|SERVER): (Sent|Received) message larger than max \((\d+) vs\. (\d+)\)"
)
_CODE_NAMES: Final = {code.value[0]: code for code in grpc.StatusCode}


def from_status(status: status_pb2.Status) -> CallError:
    """The error behind a google.rpc.Status that is not OK."""
    reason, metadata, field, retry_after_ns = "", {}, "", None
    for packed in status.details:
        if packed.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            packed.Unpack(info)
            reason, metadata = info.reason, dict(info.metadata)
        elif packed.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            packed.Unpack(retry)
            retry_after_ns = duration_ns(retry.retry_delay)
        elif packed.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            broken = error_details_pb2.BadRequest()
            packed.Unpack(broken)
            field = broken.field_violations[0].field if broken.field_violations else ""
    kind = _BY_REASON.get(reason)
    if kind is None:
        return _without_reason(status, reason, retry_after_ns)
    return kind(status.message, field=field, retry_after_ns=retry_after_ns, metadata=metadata)


def from_call(
    error: aio.AioRpcError, address: str, certificate_problem: errors.ConfigError | None = None
) -> CallError:
    """The error behind a failed call to `address`.

    Args:
      error: as gRPC raised it.
      address: host:port that was called.
      certificate_problem: why renewed certificates are not in use; told where nobody answered,
        since it may be the reason.
    """
    status = rpc_status.from_call(cast(grpc.Call, error))
    if status is not None:
        return from_status(status)
    code = error.code()
    message = error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return GatewayUnreachable(
            f"no gateway answers at {address} ({message}); start one with `headway serve`, or "
            f"name its address with --address{_tls_hint(message)}{_blame(certificate_problem)}"
        )
    if (large := too_large(message)) is not None:
        return large
    # What this side cancels raises CancelledError: the other side took the call back, as a server
    # does with calls that arrive while it closes its port.
    if code is grpc.StatusCode.CANCELLED:
        return GatewayUnreachable(f"the gateway at {address} went away; try again")
    return _without_reason(status_pb2.Status(code=code.value[0], message=message), "", None)


# As gRPC words it where somebody answers who speaks no TLS, only TLS, or not with this certificate.
# A connection refused, a name not known and a time-out say none of it.
_MAYBE_TLS: Final = re.compile(
    r"Socket closed|[Hh]andshake|SSL|TLS|[Cc]onnection reset|recvmsg|Broken pipe|settings frame"
    r"|[Cc]ertificate|GOAWAY"
)


def _tls_hint(message: str) -> str:
    if _MAYBE_TLS.search(message) is None:
        return ""
    return (
        "; if something does answer there, see whether both sides speak TLS (--tls-ca) and whether "
        "the gateway asks for a certificate of its authority (--tls-cert, --tls-key)"
    )


def _blame(problem: errors.ConfigError | None) -> str:
    return "" if problem is None else f"; the certificate shown may be an old one: {problem}"


def too_large(message: str) -> errors.MessageTooLarge | None:
    """The error behind what gRPC says of a message beyond a limit; None if it says anything else.

    gRPC judges sizes below Headway, so that no details come with it.
    """
    found = _TOO_LARGE.search(message)
    if found is None:
        return None
    side, direction, size, limit = found.groups()
    return large_message(
        int(size), int(limit), request=(side == "CLIENT") == (direction == "Sent"),
        here=side == "CLIENT",
    )  # fmt: skip


def large_message(size: int, limit: int, *, request: bool, here: bool) -> errors.MessageTooLarge:
    """A message that one side does not take.

    Args:
      size: bytes it has.
      limit: bytes it may have.
      request: whether it is the request or the answer.
      here: whether the limit is the client's or the gateway's.
    """
    what, mend = ("request", "send fewer rows") if request else ("answer", "ask for fewer rows")
    whose = "this client's max_message_bytes" if here else "gateway.max_message_bytes"
    return errors.MessageTooLarge(
        f"the {what} has {size} bytes and at most {limit} are taken; {mend} at once, or raise "
        f"{whose}",
        field="input" if request else "",
        metadata={"size_bytes": str(size), "limit_bytes": str(limit)},
    )


def _without_reason(
    status: status_pb2.Status, reason: str, retry_after_ns: int | None
) -> CallError:
    if not reason and status.code == code_pb2.DEADLINE_EXCEEDED:
        return errors.DeadlineExpired("no answer before the call's deadline; allow more time")
    name = _CODE_NAMES[status.code].name if status.code in _CODE_NAMES else str(status.code)
    return UnexpectedStatus(reason or name, status.message, retry_after_ns)
