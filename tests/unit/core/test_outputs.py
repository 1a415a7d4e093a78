"""Outputs that are streamed: who begins, who gives way, who is refused, and when to come again."""

from collections import Counter, deque
from typing import Any

import pytest

from headway._core import Admission, RefusalReason, Scheduler, Verdict

MS = 1_000_000
S = 1_000 * MS
CRITICAL, STANDARD, SHEDDABLE = 1, 2, 3
NO_EVIDENCE = -1


class Writer:
    """A model version, and its tenants by name."""

    def __init__(
        self, *, max_queued: int = 1_000, limit: int | None = None, **reserved: float
    ) -> None:
        self.core = Scheduler(seed=1, max_live=2_000)
        self.pool = self.core.add_pool(
            max_queued_requests=max_queued,
            max_queued_units=1 << 62,
            prior_intercept_ns=1,
            prior_slope_ns=1,
        )
        if limit is not None:
            self.core.set_admission(
                self.pool, limit_initial=limit, limit_min=1, limit_max=1_000, **reserved
            )
        self.tenants: dict[str, int] = {}

    def add(self, name: str, **terms: Any) -> None:
        quota = {"units_per_s": 1e12, "burst_units": 1e12, **terms}
        self.tenants[name] = self.core.add_tenant(0, **quota)

    def ask(
        self,
        name: str,
        now_ns: int = 0,
        *,
        units: int = 100,
        due_ns: int = 3_600 * S,
        priority: int = STANDARD,
        lanes: int = 0,
        is_open: bool = False,
        service_ns: int = NO_EVIDENCE,
    ) -> Admission | Verdict:
        if name not in self.tenants:
            self.add(name)
        return self.core.admit_output(
            now_ns, self.tenants[name], self.pool, units, due_ns, priority, lanes, is_open,
            service_ns,
        )  # fmt: skip

    def ticket(self, name: str, now_ns: int = 0, **wishes: Any) -> int:
        admission = self.ask(name, now_ns, **wishes)
        assert isinstance(admission, Admission)
        return admission.ticket

    def refused(self, name: str, now_ns: int = 0, **wishes: Any) -> Verdict:
        verdict = self.ask(name, now_ns, **wishes)
        assert isinstance(verdict, Verdict)
        return verdict

    def begin(self, now_ns: int = 0, hold_ns: int = S) -> int:
        """The next output takes a lane."""
        ticket = self.core.next_output(self.pool)
        assert ticket is not None
        assert self.core.begin_output(now_ns, ticket, hold_ns, 4 * hold_ns, 1.0)
        return ticket

    def waiting(self, now_ns: int = 0) -> int:
        return self.core.waiting_outputs(now_ns, self.pool)[0]


def test_one_tenants_outputs_begin_by_class_then_deadline() -> None:
    writer = Writer()
    late, early = writer.ticket("a", due_ns=9 * S), writer.ticket("a", due_ns=5 * S)
    low = writer.ticket("a", due_ns=S, priority=SHEDDABLE)
    high = writer.ticket("a", due_ns=20 * S, priority=CRITICAL)
    gone = writer.ticket("a", due_ns=6 * S)
    assert writer.core.end_output(0, gone)
    assert [writer.begin() for _ in range(4)] == [high, early, late, low]
    assert writer.core.next_output(writer.pool) is None


def shares(weights: dict[str, float], lanes: int, rounds: int) -> Counter[str]:
    """Lane time of tenants, in outputs of a second, where each always has plenty waiting."""
    writer = Writer()
    names: dict[int, str] = {}
    for name, weight in weights.items():
        writer.add(name, weight=weight)
    busy: deque[int] = deque()
    had: Counter[str] = Counter()
    for now in range(rounds):
        for name in weights:
            while sum(names[t] == name for t in names if t not in busy) < lanes:
                names[writer.ticket(name, now * S)] = name
        for ticket in list(busy):
            writer.core.end_output(now * S, ticket, 1)
            had[names.pop(ticket)] += 1
        busy.clear()
        busy.extend(writer.begin(now * S) for _ in range(lanes))
    return had


def test_lanes_are_shared_by_weight() -> None:
    # The bound of SFQ(D): |one / weight - other / weight| <= (lanes + 1) (1 / weight + 1 / weight).
    had = shares({"a": 3.0, "b": 1.0}, lanes=4, rounds=200)
    assert sum(had.values()) == 4 * 199
    assert abs(had["a"] / 3 - had["b"] / 1) <= 5 * (1 / 3 + 1)
    equal = shares({"a": 1.0, "b": 1.0, "c": 1.0}, lanes=1, rounds=300)
    assert max(equal.values()) - min(equal.values()) <= 4


def test_hundreds_of_a_greedy_tenant_are_behind_the_first_of_another() -> None:
    writer = Writer()
    for _ in range(500):
        writer.ticket("greedy")
    for _ in range(8):
        writer.begin()
    mine = [writer.ticket("modest") for _ in range(3)]
    begun = [writer.begin() for _ in range(6)]
    assert begun[::2] == mine


def test_long_outputs_are_paid_for_by_the_lane_time_that_they_took() -> None:
    """One lane; one tenant's outputs take nine times as long as was expected of both."""
    writer, had, now = Writer(), {"long": 0, "short": 0}, 0
    names = {writer.ticket(name): name for name in had for _ in range(400)}
    for _ in range(400):
        ticket = writer.begin(now, hold_ns=S)
        name = names[ticket]
        took = 9 * S if name == "long" else S
        now += took
        writer.core.end_output(now, ticket, 1)
        had[name] += took
    assert had["long"] / had["short"] == pytest.approx(1, abs=0.1)


def test_what_was_given_back_is_not_charged_and_keeps_its_place() -> None:
    writer = Writer()
    mine, other = writer.ticket("a"), writer.ticket("b")
    assert writer.begin() == mine
    assert writer.core.return_output(mine)
    assert not writer.core.return_output(mine)
    assert writer.waiting() == 2
    assert [writer.begin(), writer.begin()] == [mine, other]


def test_a_full_queue_gives_way_to_whom_has_less_in_hand() -> None:
    writer = Writer(max_queued=10)
    greedy = [writer.ticket("greedy", due_ns=(100 - n) * S) for n in range(10)]
    admitted = writer.ask("modest")
    assert isinstance(admitted, Admission)
    # The one with the latest deadline, which would begin last.
    assert admitted.displaced == [greedy[0]]
    assert not writer.core.end_output(0, greedy[0])
    others = [writer.ask("modest") for _ in range(6)]
    assert [isinstance(each, Admission) for each in others] == [True] * 4 + [False] * 2
    refused = others[-1]
    assert isinstance(refused, Verdict)
    assert refused.reason == RefusalReason.QUEUE_FULL
    assert (refused.needed, refused.available) == (11, 10)
    # Equal now: neither is given up for the other.
    assert writer.refused("greedy").reason == RefusalReason.QUEUE_FULL
    assert writer.refused("greedy").reading.share_ratio == pytest.approx(1)
    displaced = writer.core.pool_stats(writer.pool).displaced
    assert displaced[STANDARD - 1] == 5


def test_a_lower_class_gives_way_first() -> None:
    writer = Writer(max_queued=2)
    low = writer.ticket("a", priority=SHEDDABLE)
    writer.ticket("a")
    admitted = writer.ask("a", priority=CRITICAL)
    assert isinstance(admitted, Admission)
    assert admitted.displaced == [low]
    assert writer.refused("b", priority=SHEDDABLE).reason == RefusalReason.QUEUE_FULL


def test_beyond_the_limit_one_is_refused_at_once_and_told_when_an_output_ends() -> None:
    writer = Writer(limit=3)
    for hold_s in (5, 2, 9):
        writer.ticket("a")
        writer.begin(hold_ns=hold_s * S)
    refused = writer.refused("b")
    assert refused.reason == RefusalReason.LIMIT_REACHED
    assert (refused.needed, refused.available) == (4, 3)
    assert (refused.reading.limit, refused.reading.inflight) == (3, 3)
    assert refused.retry_after_ns == 2 * S
    assert writer.refused("b", S).retry_after_ns == S
    # Who is written is never put out for another; who waits may be.
    assert writer.core.pool_stats(writer.pool).displaced == (0, 0, 0)


def test_the_limit_is_not_below_the_lanes_of_the_fleet() -> None:
    writer = Writer(limit=1)
    for _ in range(4):
        writer.ticket("a", lanes=4)
    assert writer.refused("a", lanes=4).reason == RefusalReason.LIMIT_REACHED


def test_a_part_of_the_limit_is_kept_for_a_class_that_asks() -> None:
    writer = Writer(limit=10, reserved_critical=0.2)
    writer.ticket("a", priority=CRITICAL)
    # One of the two that are kept is in use.
    for _ in range(8):
        writer.ticket("a")
    refused = writer.refused("a")
    assert (refused.reason, refused.reading.reserved) == (RefusalReason.LIMIT_REACHED, 1)
    writer.ticket("a", priority=CRITICAL)


def test_slow_writing_shrinks_the_limit_and_what_was_planned_does_not() -> None:
    writer = Writer(limit=100)

    def write(times: int, measured_ns: int) -> int:
        for _ in range(times):
            writer.ticket("a")
            writer.core.end_output(0, writer.begin(), 1, measured_ns, S)
        return writer.core.pool_stats(writer.pool).limit

    assert write(100, S) == 100
    assert write(30, 4 * S) < 40


def test_an_output_that_says_nothing_of_congestion_teaches_nothing() -> None:
    writer = Writer(limit=100)
    for _ in range(100):
        writer.ticket("a")
        writer.core.end_output(0, writer.begin(), 1, 100 * S, 0)
    assert writer.core.pool_stats(writer.pool).limit == 100


def test_the_wait_for_a_lane_counts_against_the_deadline() -> None:
    writer = Writer()
    for hold_s in (2, 5):
        writer.ticket("a")
        writer.begin(hold_ns=hold_s * S)
    refused = writer.refused("a", due_ns=3 * S, service_ns=1_500 * MS)
    assert refused.reason == RefusalReason.DEADLINE_UNREACHABLE
    assert (refused.needed, refused.available) == (3_500 * MS, 3 * S)
    assert refused.reading.drain_ns == 2 * S
    writer.ticket("a", due_ns=4 * S, service_ns=1_500 * MS)
    # Behind that one the second lane.
    assert writer.refused("a", due_ns=6 * S, service_ns=1_500 * MS).needed == 6_500 * MS
    # A free lane, or no evidence, is no wait.
    writer.ticket("c", due_ns=3 * S)
    assert writer.refused("a", due_ns=0).reason == RefusalReason.DEADLINE_EXPIRED


def test_a_greedy_queue_is_no_wait_for_another_tenant() -> None:
    writer = Writer()
    for _ in range(300):
        writer.ticket("greedy", due_ns=2 * S)
    for _ in range(10):
        writer.begin(hold_ns=S)
    assert writer.refused("greedy", due_ns=3 * S, service_ns=S).needed > 25 * S
    # One of the greedy tenant's goes before it at most.
    admitted = writer.ask("modest", due_ns=3 * S, service_ns=S)
    assert isinstance(admitted, Admission)
    assert admitted.reading.drain_ns == S


def test_a_lane_that_should_be_free_is_expected_anew_and_not_beyond_its_budget() -> None:
    writer = Writer()
    writer.ticket("a")
    writer.begin(hold_ns=2 * S)  # at most 8 s
    wait_s = [writer.core.waiting_outputs(at * S, writer.pool)[1] / S for at in (1, 3, 7)]
    assert wait_s == pytest.approx([1, 2, 1])


def test_quota_is_charged_with_the_expectation_and_settled_with_what_was_used() -> None:
    writer = Writer()
    writer.add("a", units_per_s=1e-3, burst_units=250)
    first = writer.ticket("a")
    assert writer.refused("a", units=151).reason == RefusalReason.QUOTA_EXCEEDED
    assert writer.refused("a", units=251).reason == RefusalReason.QUOTA_IMPOSSIBLE
    writer.begin()
    writer.core.end_output(0, first, 240)
    assert writer.refused("a", units=11).reason == RefusalReason.QUOTA_EXCEEDED
    writer.ticket("a", units=10)
    assert not writer.core.end_output(0, first, 240)


def test_a_tenants_own_queue_is_bounded_with_its_outputs() -> None:
    writer = Writer()
    writer.add("a", max_queued_requests=2)
    for _ in range(2):
        writer.ticket("a")
    assert writer.refused("a").reason == RefusalReason.TENANT_QUEUE_FULL
    writer.begin()
    writer.ticket("a")


def test_bad_numbers_are_named() -> None:
    writer = Writer()
    ticket = writer.ticket("a")
    cases = {
        "units": lambda: writer.ask("a", units=0),
        "priority": lambda: writer.ask("a", priority=4),
        "lanes": lambda: writer.ask("a", lanes=-1),
        "service_ns": lambda: writer.ask("a", service_ns=-2),
        "hold_ns": lambda: writer.core.begin_output(0, ticket, 0, 1, 1.0),
        "longest_ns": lambda: writer.core.begin_output(0, ticket, 1, 0, 1.0),
        "size": lambda: writer.core.begin_output(0, ticket, 1, 1, float("nan")),
        "used_units": lambda: writer.core.end_output(0, ticket, -1),
        "planned_ns": lambda: writer.core.end_output(0, ticket, 1, 1, -1),
    }
    for name, call in cases.items():
        with pytest.raises(ValueError, match=name):
            call()
    with pytest.raises(KeyError):
        writer.core.next_output(7)
    assert writer.begin() == ticket
