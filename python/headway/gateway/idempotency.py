"""A client's retry is not executed twice."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headway._core import hash_key
from headway.errors import DeadlineExpired, InvalidRequest
from headway.gateway.stream_request import LiveRequest
from headway.rpc.interceptors import Caller
from headway.v1 import inference_pb2

_MAX_KEY_BYTES = 128
_DAY_S = 86_400

Key = tuple[str, str]
_Future = asyncio.Future[inference_pb2.InferResponse]


@dataclass(slots=True, eq=False)
class _Execution:
    """A keyed request that is queued or executing, and how many callers wait for it."""

    fingerprint: int
    pending: LiveRequest
    waiting: int = 0


@dataclass(slots=True, eq=False)
class _Answer:
    """A keyed request that was answered."""

    fingerprint: int
    response: inference_pb2.InferResponse
    size: int
    expires_at_ns: int


class IdempotencyWindow:
    """Joins a retry with the same key to the execution in flight, or to its answer.

    Failures are not remembered, so that a retry after one is executed. Answers are kept for
    `keep_ns`, at most `max_entries` of at most `max_bytes` together, the oldest first to go;
    executions in flight are bounded by the scheduler's max_live.
    """

    def __init__(
        self,
        now_ns: Callable[[], int],
        *,
        keep_ns: int = 60_000_000_000,
        max_entries: int = 10_000,
        max_bytes: int = 64 << 20,
    ) -> None:
        self._now_ns = now_ns
        self._keep_ns = keep_ns
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._executing: dict[Key, _Execution] = {}
        self._answered: OrderedDict[Key, _Answer] = OrderedDict()
        self._num_bytes = 0

    async def once(
        self,
        request: inference_pb2.InferRequest,
        caller: Caller,
        remaining_s: float | None,
        submit: Callable[[], LiveRequest],
        cancel: Callable[[LiveRequest], None],
    ) -> inference_pb2.InferResponse:
        """The answer to a keyed request, executed at most once at a time.

        Args:
          submit: admits the request; called only if nothing is remembered of its key.
          cancel: ends an admitted request; called when its last caller has left.

        Raises:
          InvalidRequest: the key is too long, or was used for another request.
          RequestError: as the execution ended.
        """
        key, fingerprint = (caller.tenant, request.idempotency_key), _fingerprint(request)
        self._forget_old()
        answer = self._answered.get(key)
        if answer is not None:
            _check_same(answer.fingerprint, fingerprint)
            return answer.response
        execution = self._executing.get(key)
        # One that failed in this turn of the event loop is still listed: its last caller left.
        if execution is None or _has_failed(execution):
            execution = _Execution(fingerprint, submit())
            self._executing[key] = execution
            execution.pending.future.add_done_callback(partial(self._settle, key, execution))
        _check_same(execution.fingerprint, fingerprint)
        return await _join(execution, remaining_s, cancel)

    def __len__(self) -> int:
        """Answers kept and executions in flight."""
        return len(self._answered) + len(self._executing)

    def _settle(self, key: Key, execution: _Execution, future: _Future) -> None:
        if self._executing.get(key) is execution:
            del self._executing[key]
        if _has_failed(execution):
            return
        response = future.result()
        size = response.ByteSize()
        expires_at_ns = self._now_ns() + self._keep_ns
        self._answered[key] = _Answer(execution.fingerprint, response, size, expires_at_ns)
        self._num_bytes += size
        self._forget_old()

    def _forget_old(self) -> None:
        now_ns = self._now_ns()
        while self._answered:
            key, oldest = next(iter(self._answered.items()))
            full = len(self._answered) > self._max_entries or self._num_bytes > self._max_bytes
            if not full and oldest.expires_at_ns > now_ns:
                return
            self._num_bytes -= oldest.size
            del self._answered[key]


def _has_failed(execution: _Execution) -> bool:
    future = execution.pending.future
    return future.done() and (future.cancelled() or future.exception() is not None)


async def _join(
    execution: _Execution, remaining_s: float | None, cancel: Callable[[LiveRequest], None]
) -> inference_pb2.InferResponse:
    future = execution.pending.future
    if remaining_s is not None and remaining_s > _DAY_S:
        remaining_s = None  # a call without a deadline
    execution.waiting += 1
    try:
        # Shielded: one caller that leaves must not end it for the others.
        return await asyncio.wait_for(asyncio.shield(future), remaining_s)
    except TimeoutError:
        raise DeadlineExpired("its deadline passed while the first try was executed") from None
    finally:
        execution.waiting -= 1
        if execution.waiting == 0 and not future.done():
            cancel(execution.pending)


def _check_same(remembered: int, given: int) -> None:
    if remembered != given:
        raise InvalidRequest(
            "idempotency_key was used for another request; use a new key for a new request",
            field="idempotency_key",
        )


def _fingerprint(request: inference_pb2.InferRequest) -> int:
    length = len(request.idempotency_key.encode())
    if length > _MAX_KEY_BYTES:
        raise InvalidRequest(
            f"idempotency_key has {length} bytes; at most {_MAX_KEY_BYTES}",
            field="idempotency_key",
        )
    body = request.input.SerializeToString(deterministic=True)
    body += request.sampling.SerializeToString(deterministic=True)
    names = f"\0{request.model}\0{request.version}\0{request.max_output_units}"
    return hash_key(body + names.encode())
