"""What surrounds every call: who is calling, and what an exception becomes.

A guard wraps the methods of a servicer rather than sitting in the server's interceptor chain: on
both transports the chain rebuilds a call's details and metadata for each call (3 us of the 42 us
that a call costs on the native one), which a wrapper does not need.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from google.protobuf.message import DecodeError
from grpc import aio

from headway.errors import RequestError
from headway.rpc.decoding import Malformed, refusal_of
from headway.rpc.peers import PeerStreams, peer_of
from headway.rpc.status import abort_arguments

_log = logging.getLogger(__name__)

Metadata = Iterable[Any]


NEVER_NS = (1 << 63) - 1
"""An expiry that does not come."""


@dataclass(slots=True, eq=False)
class Terms:
    """What a tenant may do.

    One object a tenant, changed in place, so that calls in progress see each change at their next
    request.

    Attributes:
      weight: value of its requests, relative to other tenants.
      max_priority: highest priority, 1 (critical) to 3.
      models: models it may use; None for all.
      restricted: False if none of the above needs a look.
    """

    weight: float = 1.0
    max_priority: int = 1
    models: frozenset[str] | None = None
    disabled: bool = False
    restricted: bool = False


@dataclass(slots=True, eq=False)
class Caller:
    """Who calls: a tenant, by a key with a role. One object a key, for as long as it is known.

    Attributes:
      ended: why the key is good no more; "" while it is.
      expires_at_ns: end of its validity on the gateway's clock.
    """

    tenant: str
    handle: int
    role: int = 0
    key_id: str = ""
    terms: Terms = field(default_factory=Terms)
    ended: str = ""
    expires_at_ns: int = NEVER_NS


class Authenticator(Protocol):
    """Turns a call's metadata into its caller."""

    def __call__(self, metadata: Callable[[], Metadata], method: str) -> Caller:
        """Raises Unauthenticated or PermissionDenied. `metadata` is fetched only if needed."""
        ...


Begin = Callable[
    [Any, Caller, float | None], "tuple[asyncio.Future[Any], Callable[[], None]] | None"
]
"""Begins what a method does for a request, its caller and the seconds left (None: no deadline).

Returns the future of the answer, and what to do if that is cancelled: the caller left. None where
it takes a coroutine; nothing has happened then.
"""

DIRECT = "__direct__"
"""A guarded method's attribute: its `DirectMethod`, if it has one."""

_caller: ContextVar[Caller] = ContextVar("caller")


def current_caller() -> Caller:
    """The caller of the call that is being served."""
    return _caller.get()


def guard(
    servicer: Any,
    service: str,
    methods: Iterable[str],
    authenticate: Authenticator,
    *,
    pushback: bool = True,
    streams: PeerStreams | None = None,
    direct: Mapping[str, Begin] | None = None,
) -> None:
    """Wraps `methods` of a servicer in place.

    Each call is authenticated first; each exception leaves through the status table, once.
    `pushback`: whether the server lets through the trailer grpc-retry-pushback-ms. `streams`:
    counts streaming calls by address; None for no bound. `direct`: by method, what begins it, for
    servers that need no coroutine for a call.
    """
    counted = streams or PeerStreams(None)
    for method in methods:
        behaviour = getattr(servicer, method)
        path = f"/{service}/{method}"
        wrapped = (
            _streaming(behaviour, path, authenticate, pushback, counted)
            if _is_stream(behaviour)
            else _unary(behaviour, path, authenticate, pushback)
        )
        if direct and method in direct:
            setattr(wrapped, DIRECT, DirectMethod(path, authenticate, pushback, direct[method]))
        setattr(servicer, method, wrapped)


@dataclass(frozen=True, slots=True, eq=False)
class DirectMethod:
    """A guarded method as a server begins it that has no coroutine for it."""

    _path: str
    _authenticate: Authenticator
    _pushback: bool
    _begin: Begin

    def begin(
        self, request: Any, metadata: Metadata, remaining_s: float | None
    ) -> "tuple[asyncio.Future[Any], Callable[[], None]] | None":
        """As the method's `Begin`, for whoever `metadata` names.

        Raises:
          Exception: for `ending`.
        """
        caller = self._authenticate(lambda: metadata, self._path)
        if type(request) is Malformed:
            raise refusal_of(request.why)
        return self._begin(request, caller, remaining_s)

    def ending(self, error: Exception) -> "Ending":
        """Code, message and trailers that tell a caller of an error."""
        return _ending(error, self._path, self._pushback)


def _is_stream(behaviour: Callable[..., Any]) -> bool:
    import inspect

    return inspect.isasyncgenfunction(behaviour)


def _unary(
    behaviour: Callable[[Any, Any], Awaitable[Any]],
    path: str,
    authenticate: Authenticator,
    pushback: bool,
) -> Callable[[Any, Any], Awaitable[Any]]:
    @functools.wraps(behaviour)
    async def call(request: Any, context: Any) -> Any:
        try:
            _caller.set(authenticate(context.invocation_metadata, path))
            if type(request) is Malformed:
                raise refusal_of(request.why)
            return await behaviour(request, context)
        except aio.AbortError:
            raise
        except Exception as error:
            refusal = _refuse(context, _ending(error, path, pushback), path)
        # `_refuse` says why this frame lets go of them.
        del request, context
        await refusal

    return call


def _streaming(
    behaviour: Callable[[Any, Any], AsyncIterator[Any]],
    path: str,
    authenticate: Authenticator,
    pushback: bool,
    streams: PeerStreams,
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    @functools.wraps(behaviour)
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        entered = ""
        try:
            _caller.set(authenticate(context.invocation_metadata, path))
            if type(request) is Malformed:
                raise refusal_of(request.why)
            entered = streams.enter(peer_of(context))
            async for response in behaviour(request, context):
                yield response
            return
        except aio.AbortError:
            raise
        except Exception as error:
            refusal = _refuse(context, _ending(error, path, pushback), path)
        finally:
            streams.leave(entered)
        # `_refuse` says why this frame lets go of them.
        del request, context
        await refusal

    return call


Ending = tuple[Any, str, tuple[tuple[str, str | bytes], ...]]
"""Code, message and trailers."""


def _ending(error: Exception, path: str, pushback: bool) -> Ending:
    """Code, message and trailers for an exception of a servicer."""
    if isinstance(error, DecodeError):
        error = refusal_of(str(error))
    if not isinstance(error, RequestError):
        _log.error("unexpected error in %s", path, exc_info=error)
    return abort_arguments(error, pushback=pushback)


async def _refuse(context: Any, ending: Ending, path: str) -> NoReturn:
    """Tells the caller, and leaves with what ends the call.

    grpc.aio keeps that exception with the call, and its traceback leads to every frame it leaves
    through. A frame with the call's context makes a cycle that lasts until a garbage collection,
    which gateways make rarely, and keeps all the frames hold: 64 MiB of a request, say. So it
    is raised where neither is held any more: here, and in the frame that awaits this.
    """
    stop: BaseException = asyncio.CancelledError()
    try:
        await context.abort(*ending)
    except aio.AbortError as aborted:
        stop = aborted.with_traceback(None)
    except Exception as late:
        # The client left while its error was on the way; grpc.aio has no better name for it.
        _log.debug("%s had no caller left to tell: %s", path, late)
    del context
    try:
        raise stop
    finally:
        del stop
