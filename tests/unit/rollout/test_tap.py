"""What counts for a version, and when one is taken for dead."""

import pytest

from headway.rollout.tap import ArmTap, OutcomeTap

MS = 1_000_000


@pytest.mark.parametrize(
    ("outcome", "attempts", "counted"),
    [
        # requests, errors, sheds, latencies
        ("ok", 1, (1, 0, 0, 1)),
        ("UPSTREAM_FAILURE", 3, (1, 1, 0, 0)),
        ("STREAM_BROKEN", 1, (1, 1, 0, 0)),
        ("DEADLINE_EXPIRED", 1, (1, 1, 0, 1)),
        ("DEADLINE_EXPIRED", 0, (1, 0, 0, 1)),
        ("OVERLOADED", 0, (0, 0, 1, 0)),
        ("QUEUE_FULL", 0, (0, 0, 1, 0)),
        ("NO_CAPACITY", 0, (0, 0, 1, 0)),
        ("INVALID_REQUEST", 1, (0, 0, 0, 0)),
        ("CANCELLED", 1, (0, 0, 0, 0)),
        ("DRAINING", 0, (0, 0, 0, 0)),
        ("QUOTA_EXCEEDED", 0, (0, 0, 0, 0)),
    ],
)
def test_an_outcome_counts(outcome: str, attempts: int, counted: tuple[int, ...]) -> None:
    tap = ArmTap()
    tap.ended(5 * MS, outcome, 3 * MS, attempts)
    counts = tap.take(0)
    assert (
        counts.requests,
        counts.errors,
        counts.sheds,
        sum(counts.latency.values()),
    ) == counted


def test_what_ends_together_is_one_group() -> None:
    tap = ArmTap()
    for now_ns in (1, 1, 1, 2, 3, 3):
        tap.ended(now_ns, "ok", MS, 1)
    tap.executed(7 * MS)
    counts = tap.take(replica_ns=11)
    assert (counts.requests, counts.groups) == (6, 3)
    assert (counts.busy_ns, counts.replica_ns) == (7 * MS, 11)
    assert tap.take(0).requests == 0


def dead_after(per_group: int, *, baseline_fails: bool = False, limit: int = 400) -> int:
    """Canary requests until it is taken for dead; the baseline ends 20 groups beside each."""
    tap = OutcomeTap(error_floor=0.005, error_tolerance=1.5)
    found: list[int] = []
    requests = 0
    tap.on_dead = lambda: found.append(requests)
    for group in range(limit // per_group):
        for beside in range(20):
            outcome = "UPSTREAM_FAILURE" if baseline_fails else "ok"
            tap.baseline.ended(1000 * group + beside, outcome, MS, 1)
        for _ in range(per_group):
            requests += 1
            tap.canary.ended(1000 * group + 500, "UPSTREAM_FAILURE", MS, 3)
        if found:
            return found[0]
    return 0


def test_a_dead_canary_is_found_within_20_requests_or_5_batches() -> None:
    assert dead_after(1) == 5
    assert dead_after(12) <= 5 * 12


def test_an_outage_of_both_is_not_the_canarys_death() -> None:
    assert dead_after(1, baseline_fails=True) == 0


def test_a_success_ends_the_run() -> None:
    tap = OutcomeTap(error_floor=0.005, error_tolerance=1.5)
    for index in range(300):
        tap.canary.ended(index, "ok" if index % 3 == 2 else "UPSTREAM_FAILURE", MS, 1)
    assert tap.take(1.0, 1, 1).dead == ""


def test_the_reason_shows_its_numbers() -> None:
    tap = OutcomeTap(error_floor=0.005, error_tolerance=1.5)
    for index in range(5):
        tap.canary.ended(index, "UPSTREAM_FAILURE", MS, 1)
    assert tap.take(1.0, 1, 1).dead == (
        "4 groups in a row failed, all 4 requests of them; at the 0.75% that the baseline's "
        "failures allow, the chance is 3e-09"
    )
