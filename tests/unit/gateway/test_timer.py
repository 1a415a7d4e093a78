"""One timer for all deadlines."""

from collections.abc import Callable

from headway.gateway.timer import DeadlineTimer

MS = 1_000_000


class Loop:
    """Records what a timer asks of the event loop."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.waits: list[float] = []
        self.cancelled = 0
        self.callback: Callable[[], None] = lambda: None

    def call_later(self, delay: float, callback: Callable[[], None]) -> "Loop":
        self.waits.append(delay)
        self.callback = callback
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def timer(loop: Loop, fire: Callable[[], None] = lambda: None) -> DeadlineTimer:
    return DeadlineTimer(lambda: loop.now_ns, loop.call_later, fire)


def test_a_later_deadline_changes_nothing() -> None:
    loop = Loop()
    one = timer(loop)
    one.arm(5 * MS)
    one.arm(9 * MS)
    assert loop.waits == [0.005]


def test_an_earlier_deadline_takes_over() -> None:
    loop = Loop()
    one = timer(loop)
    one.arm(9 * MS)
    one.arm(5 * MS)
    assert loop.waits == [0.009, 0.005]
    assert loop.cancelled == 1


def test_waits_round_up_and_are_never_zero() -> None:
    # A wait rounded down fires early, finds nothing due and arms again at once, over and over.
    loop = Loop()
    loop.now_ns = 5 * MS
    for at_ns in (5 * MS + 1, 5 * MS, 0):
        one = timer(loop)
        one.arm(at_ns)
    assert loop.waits == [0.001, 0.001, 0.001]


def test_it_can_be_armed_again_while_it_fires() -> None:
    loop = Loop()
    one = DeadlineTimer(lambda: loop.now_ns, loop.call_later, lambda: one.arm(7 * MS))
    one.arm(5 * MS)
    loop.now_ns = 5 * MS
    loop.callback()
    assert loop.waits == [0.005, 0.002]
