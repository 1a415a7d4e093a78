"""The one table from domain errors to gRPC statuses."""

from collections.abc import Mapping
from types import MappingProxyType

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from headway import errors
from headway.rpc.convert import duration_from_ns

DOMAIN = "headway.v1"
_PUSHBACK = "grpc-retry-pushback-ms"
_DETAILS = "grpc-status-details-bin"
_NS_PER_MS = 1_000_000

Code = grpc.StatusCode

STATUS_OF: Mapping[type[errors.RequestError], grpc.StatusCode] = MappingProxyType(
    {
        errors.InvalidRequest: Code.INVALID_ARGUMENT,
        errors.MessageTooLarge: Code.RESOURCE_EXHAUSTED,
        errors.ModelNotFound: Code.NOT_FOUND,
        errors.ModelLoading: Code.UNAVAILABLE,
        errors.Unauthenticated: Code.UNAUTHENTICATED,
        errors.PermissionDenied: Code.PERMISSION_DENIED,
        errors.QuotaExceeded: Code.RESOURCE_EXHAUSTED,
        errors.Overloaded: Code.UNAVAILABLE,
        errors.QueueFull: Code.UNAVAILABLE,
        errors.NoCapacity: Code.UNAVAILABLE,
        errors.DeadlineUnreachable: Code.DEADLINE_EXCEEDED,
        errors.DeadlineExpired: Code.DEADLINE_EXCEEDED,
        errors.UpstreamFailure: Code.INTERNAL,
        errors.StreamBroken: Code.ABORTED,
        errors.Cancelled: Code.CANCELLED,
        errors.Draining: Code.UNAVAILABLE,
        errors.NotFound: Code.NOT_FOUND,
        errors.FailedPrecondition: Code.FAILED_PRECONDITION,
        errors.StoreUnavailable: Code.UNAVAILABLE,
    }
)

# Anything that is not a RequestError: what went wrong inside is for the log, not for the caller.
INTERNAL_MESSAGE = "internal error; the gateway's log has it under this request's id"


def to_status(error: BaseException) -> status_pb2.Status:
    """The google.rpc.Status of an error, with ErrorInfo, BadRequest and RetryInfo as they apply."""
    if not isinstance(error, errors.RequestError):
        return status_pb2.Status(code=code_pb2.INTERNAL, message=INTERNAL_MESSAGE)
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    ]
    details += _specific_details(error)
    if error.retry_after_ns is not None:
        delay = duration_from_ns(error.retry_after_ns)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return status_pb2.Status(
        code=STATUS_OF[type(error)].value[0], message=error.message, details=map(_packed, details)
    )


def _specific_details(error: errors.RequestError) -> list[Message]:
    if isinstance(error, errors.InvalidRequest):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=error.message
        )
        return [error_details_pb2.BadRequest(field_violations=[violation])]
    if isinstance(error, errors.ModelNotFound | errors.NotFound):
        name = error.metadata.get("name", "")
        kind = error.metadata.get("kind", "model")
        return [error_details_pb2.ResourceInfo(resource_type=kind, resource_name=name)]
    if isinstance(error, errors.QuotaExceeded):
        subject = f"tenant:{error.metadata.get('tenant', '')}"
        broken = error_details_pb2.QuotaFailure.Violation(
            subject=subject, description=error.message
        )
        return [error_details_pb2.QuotaFailure(violations=[broken])]
    if isinstance(error, errors.FailedPrecondition):
        unmet = error_details_pb2.PreconditionFailure.Violation(
            type=error.metadata.get("type", "STATE"), description=error.message
        )
        return [error_details_pb2.PreconditionFailure(violations=[unmet])]
    return []


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def abort_arguments(
    error: BaseException, *, pushback: bool = True
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str | bytes], ...]]:
    """Code, message and trailers with which to abort a call for an error.

    `pushback`: False for a server that does not let through the trailer grpc-retry-pushback-ms;
    the delay is in RetryInfo all the same.
    """
    status = to_status(error)
    trailers: tuple[tuple[str, str | bytes], ...] = ((_DETAILS, status.SerializeToString()),)
    if isinstance(error, errors.RequestError):
        code = STATUS_OF[type(error)]
        if pushback and error.retry_after_ns is not None:
            milliseconds = -(-error.retry_after_ns // _NS_PER_MS)
            trailers = (*trailers, (_PUSHBACK, str(milliseconds)))
        return code, error.message, trailers
    return Code.INTERNAL, INTERNAL_MESSAGE, trailers
