"""Measuring a stale graph again: when, and what pays for it."""

import pytest

from headway._core import Step, StepGraph, StepReason, StepScheduler

MS, S = 1_000_000, 1_000_000_000
PLAIN_NS, DRAFTS_NS = 10 * MS, 30 * MS


def one_stream(gap_target_ns: int | None) -> tuple[StepScheduler, int]:
    """A plain graph, and one of three times its length that drafts never pay for."""
    graphs = [
        StepGraph(name="plain", decode_rows=2),
        StepGraph(name="drafts", decode_rows=2, width=4),
    ]
    scheduler = StepScheduler(graphs, lifetime_ns=S, probe_share=0.5, credit_cap_ns=5 * MS)
    for graph, took_ns in enumerate((PLAIN_NS, DRAFTS_NS)):
        scheduler.observe(graph, device_ns=took_ns, wall_ns=took_ns, completed_at_ns=0)
    lane = scheduler.admit(
        0,
        prompt_tokens=1,
        prompt_left=0,
        output_limit=10**6,
        acceptance=[0.01] * 3,
        gap_target_ns=gap_target_ns,
    )
    return scheduler, lane


@pytest.mark.parametrize(
    ("gap_target_ns", "first_at_s"),
    [
        # 90 % of the target may pass between deliveries: 30 ms delay nobody beyond it.
        (100 * MS, 1),
        # A gap of one plain step is allowed: it waits for ten lifetimes, and no longer.
        (None, 10),
    ],
)
def test_a_stale_graph_is_measured_when_it_delays_nobody_or_was_stale_for_long(
    gap_target_ns: int | None, first_at_s: int
) -> None:
    scheduler, lane = one_stream(gap_target_ns)
    now_ns = 0
    while True:
        step = scheduler.dispatch(now_ns)
        assert isinstance(step, Step)
        if step.reason == StepReason.REFRESH:
            break
        now_ns += PLAIN_NS
        scheduler.complete(
            step.frame, now_ns, device_ns=PLAIN_NS, lanes=[lane], tokens=[1], ended=[False]
        )
    assert now_ns / S == pytest.approx(first_at_s, abs=0.05)


def test_the_allowance_earns_from_the_time_spent_not_from_a_full_graph_s() -> None:
    scheduler, lane = one_stream(None)
    step = scheduler.dispatch(0)
    assert isinstance(step, Step)
    # Half full, it took 10 ms; full it would have taken 12, which is what its cost learns.
    scheduler.complete(
        step.frame, PLAIN_NS, device_ns=12 * MS, lanes=[lane], tokens=[1], ended=[False]
    )
    _, ordinary_ns, _, _ = scheduler.allowance_ns()
    assert ordinary_ns == PLAIN_NS
