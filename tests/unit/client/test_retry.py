"""When a client tries again, and how long it waits."""

import asyncio

import pytest

from headway import errors
from headway._core import Rng
from headway.client import GatewayUnreachable, RetryPolicy
from headway.client.retry import with_retries
from headway.testing import ManualClock

SECOND_NS = 1_000_000_000
POLICY = RetryPolicy(max_attempts=3, initial_backoff_s=0.1, max_backoff_s=0.3)
PUSHED = errors.QueueFull("full", retry_after_ns=SECOND_NS)

ROWS = [
    ("push-back is waited out", PUSHED, 1, 0.0, SECOND_NS),
    ("a crowd spreads, later only", PUSHED, 1, 0.5, SECOND_NS * 105 // 100),
    ("attempts are bounded", PUSHED, 3, 0.0, None),
    ("no word is final", errors.QueueFull("full"), 1, 0.0, None),
    ("a bad request stays bad", errors.InvalidRequest("no"), 1, 0.0, None),
    ("nobody there", GatewayUnreachable("gone"), 1, 0.0, SECOND_NS // 20),
    ("still nobody", GatewayUnreachable("gone"), 2, 0.0, SECOND_NS // 10),
    ("the store is away", errors.StoreUnavailable("x", retry_after_ns=7), 1, 0.0, 7),
    ("a fault of ours", RuntimeError("?"), 1, 0.0, None),
]


@pytest.mark.parametrize(("name", "error", "attempt", "uniform", "expected"), ROWS,
                         ids=[row[0] for row in ROWS])  # fmt: skip
def test_waits(
    name: str, error: Exception, attempt: int, uniform: float, expected: int | None
) -> None:
    assert POLICY.wait_ns(error, attempt, uniform) == expected


class Gateway:
    """Fails so often, then answers."""

    def __init__(self, clock: ManualClock, *failures: errors.HeadwayError) -> None:
        self.clock = clock
        self.failures = list(failures)
        self.calls: list[tuple[int, float | None]] = []

    async def call(self, timeout_s: float | None) -> str:
        self.calls.append((self.clock.now_ns(), timeout_s))
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


async def tried(gateway: Gateway, timeout_s: float | None) -> str:
    attempt = asyncio.ensure_future(
        with_retries(gateway.call, POLICY, gateway.clock, Rng(1), timeout_s=timeout_s)
    )
    await gateway.clock.advance(10 * SECOND_NS)
    return await attempt


async def test_a_call_is_made_again_when_the_gateway_said() -> None:
    gateway = Gateway(ManualClock(), PUSHED, PUSHED)
    assert await tried(gateway, 5.0) == "answer"
    waits = [b[0] - a[0] for a, b in zip(gateway.calls, gateway.calls[1:], strict=False)]
    assert all(SECOND_NS <= wait <= SECOND_NS * 1.1 for wait in waits)
    # Later attempts get what is left.
    assert [timeout is not None and timeout <= 5 - number for number, (_, timeout)
            in enumerate(gateway.calls)] == [True, True, True]  # fmt: skip


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    gateway = Gateway(ManualClock(), PUSHED)
    with pytest.raises(errors.QueueFull):
        await tried(gateway, 0.9)
    assert len(gateway.calls) == 1


async def test_the_last_error_is_what_the_caller_sees() -> None:
    last = errors.Overloaded("shed", retry_after_ns=1)
    gateway = Gateway(ManualClock(), PUSHED, PUSHED, last)
    with pytest.raises(errors.Overloaded):
        await tried(gateway, None)
    assert len(gateway.calls) == 3
