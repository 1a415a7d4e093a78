"""When a call is made again: as the gateway says, and only where that can help."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headway import errors
from headway._core import Rng
from headway.client.errors import GatewayUnreachable, UnexpectedStatus
from headway.clock import Clock
from headway.rpc.convert import NS_PER_S

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is made, and how long is waited between.

    A rejection that says when to come back (push-back) is obeyed: never earlier, up to a tenth
    later so that a crowd spreads. One that says nothing is final, but for a gateway that cannot
    be reached: that is tried again with a doubling wait of which a random part is taken. A wait
    that would outlast the deadline is not begun.

    Attributes:
      max_attempts: calls made, the first included, >= 1.
      initial_backoff_s, max_backoff_s: waits for an unreachable gateway.
    """

    max_attempts: int = 4
    initial_backoff_s: float = 0.1
    max_backoff_s: float = 5.0

    def wait_ns(self, error: Exception, attempt: int, uniform: float) -> int | None:
        """Time to wait after `attempt` failed (1 for the first); None to give up.

        `uniform`: a random number in [0, 1).
        """
        if attempt >= self.max_attempts:
            return None
        if isinstance(error, GatewayUnreachable):
            longest_s = min(self.max_backoff_s, self.initial_backoff_s * 2 ** (attempt - 1))
            return int(longest_s * NS_PER_S * (0.5 + uniform / 2))
        if isinstance(error, errors.RequestError | UnexpectedStatus):
            pushback_ns = error.retry_after_ns
            return None if pushback_ns is None else int(pushback_ns * (1 + uniform / 10))
        return None


NO_RETRY = RetryPolicy(max_attempts=1)


async def with_retries(
    call: Callable[[float | None], Awaitable[Answer]],
    policy: RetryPolicy,
    clock: Clock,
    rng: Rng,
    *,
    timeout_s: float | None,
) -> Answer:
    """Calls until it succeeds or `policy` gives up; raises the last error.

    Args:
      call: makes the call within so many seconds, None for no limit.
      timeout_s: for all attempts and waits together.
    """
    start_ns = clock.now_ns()
    attempt = 0
    while True:
        attempt += 1
        left_ns = None
        if timeout_s is not None:
            left_ns = start_ns + int(timeout_s * NS_PER_S) - clock.now_ns()
        try:
            return await call(None if left_ns is None else max(0, left_ns) / NS_PER_S)
        except errors.HeadwayError as error:
            wait_ns = policy.wait_ns(error, attempt, rng.uniform())
            if left_ns is not None:
                left_ns = start_ns + int((timeout_s or 0) * NS_PER_S) - clock.now_ns()
            if wait_ns is None or (left_ns is not None and wait_ns >= left_ns):
                raise
        await clock.sleep(wait_ns)
