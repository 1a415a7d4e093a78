"""What can go wrong, as one tree. `headway.rpc.status` maps each leaf to a gRPC status, once.

HeadwayError
├── RequestError                     a call's own failure; carries a reason and metadata
│   ├── InvalidRequest               INVALID_REQUEST       the input breaks a rule
│   ├── MessageTooLarge              MESSAGE_TOO_LARGE     beyond what one message may have
│   ├── ModelNotFound                MODEL_NOT_FOUND       no such model or version
│   ├── ModelLoading                 MODEL_LOADING         known, not ready yet
│   ├── Unauthenticated              UNAUTHENTICATED       no valid key
│   ├── PermissionDenied             PERMISSION_DENIED     the key may not do this
│   ├── QuotaExceeded                QUOTA_EXCEEDED        the tenant's share is used up
│   ├── Overloaded                   OVERLOADED            shed
│   ├── QueueFull                    QUEUE_FULL            the queue is at its bound
│   ├── NoCapacity                   NO_CAPACITY           no replica
│   ├── DeadlineUnreachable          DEADLINE_UNREACHABLE  could not finish in time
│   ├── DeadlineExpired              DEADLINE_EXPIRED      did not finish in time
│   ├── UpstreamFailure              UPSTREAM_FAILURE      the model failed
│   ├── StreamBroken                 STREAM_BROKEN         its worker was lost after a first part
│   ├── Cancelled                    CANCELLED             the client went away
│   ├── Draining                     DRAINING              the gateway is shutting down
│   ├── NotFound                     NOT_FOUND             no such thing (control calls)
│   ├── FailedPrecondition           FAILED_PRECONDITION   not in this state (control calls)
│   └── StoreUnavailable             STORE_UNAVAILABLE     the control store is away (control calls)
├── ConfigError                      bad configuration; the process ends with exit code 64
│   └── CertificateExpired           ran out while the process ran, and its files hold no better one
├── RuntimeFailure                   a model runtime failed
├── RuntimeInputError                an input that the runtime does not take
└── StartupError                     could not start (a taken port, a missing model)
"""

from collections.abc import Mapping
from typing import ClassVar


class HeadwayError(Exception):
    """Base of all."""


class RequestError(HeadwayError):
    """A call's failure.

    Attributes:
      message: what is wrong and the way out, in words.
      field: the request's field at fault, or "".
      retry_after_ns: when trying again makes sense; None where it never does.
      metadata: numbers behind it, units in the keys.
    """

    reason: ClassVar[str]

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        retry_after_ns: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_ns = retry_after_ns
        self.metadata = dict(metadata or {})


class InvalidRequest(RequestError):
    """The input breaks a rule; the same request will never succeed."""

    reason = "INVALID_REQUEST"


class MessageTooLarge(RequestError):
    """The request or its answer is larger than one message may be; the same never succeeds."""

    reason = "MESSAGE_TOO_LARGE"


class ModelNotFound(RequestError):
    """No such model or version."""

    reason = "MODEL_NOT_FOUND"


class ModelLoading(RequestError):
    """Known, not ready yet."""

    reason = "MODEL_LOADING"


class Unauthenticated(RequestError):
    """No valid key."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(RequestError):
    """The key may not do this."""

    reason = "PERMISSION_DENIED"


class QuotaExceeded(RequestError):
    """The tenant's share is used up for now."""

    reason = "QUOTA_EXCEEDED"


class Overloaded(RequestError):
    """Shed: device time is worth more elsewhere."""

    reason = "OVERLOADED"


class QueueFull(RequestError):
    """The queue is at its bound."""

    reason = "QUEUE_FULL"


class NoCapacity(RequestError):
    """No replica serves the version."""

    reason = "NO_CAPACITY"


class DeadlineUnreachable(RequestError):
    """It could not finish in time even if it ran now."""

    reason = "DEADLINE_UNREACHABLE"


class DeadlineExpired(RequestError):
    """It did not finish in time."""

    reason = "DEADLINE_EXPIRED"


class UpstreamFailure(RequestError):
    """The model failed on it."""

    reason = "UPSTREAM_FAILURE"


class StreamBroken(RequestError):
    """Its worker was lost after a part had been delivered; it is never begun anew by itself."""

    reason = "STREAM_BROKEN"


class Cancelled(RequestError):
    """The client went away or took it back."""

    reason = "CANCELLED"


class Draining(RequestError):
    """The gateway is shutting down."""

    reason = "DRAINING"


class NotFound(RequestError):
    """No such thing."""

    reason = "NOT_FOUND"


class FailedPrecondition(RequestError):
    """Not possible in the present state."""

    reason = "FAILED_PRECONDITION"


class StoreUnavailable(RequestError):
    """The control store does not answer; requests for inference do not need it."""

    reason = "STORE_UNAVAILABLE"


class ConfigError(HeadwayError):
    """Bad configuration."""


class CertificateExpired(ConfigError):
    """The certificate to show ran out, and its files hold no better one; nothing was sent."""


class RuntimeFailure(HeadwayError):
    """A model runtime failed."""


class RuntimeInputError(HeadwayError):
    """An input that the runtime does not take."""


class StartupError(HeadwayError):
    """Could not start."""
