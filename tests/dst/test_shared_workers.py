"""Gateways with equal clients get equal shares of a worker that none of them has to itself."""

import dataclasses
import re
from collections import Counter

import pytest
from tests.dst.draw import MS, S
from tests.dst.plan import MODEL, Plan, Request, WorkerPlan
from tests.dst.run import run_seed

SPAN_NS = 3 * S
BATCH = 4
EVERY_NS = 4 * MS
"""Between requests of all clients: 250/s, of which a device of 4 in 55 ms serves 73/s."""
INTERACTIVE = 1


def contended(plan: Plan, *, num_gateways: int, num_workers: int) -> Plan:
    device = {
        "kind": "simulated", "intercept_ms": 15, "slope_ms_per_unit": 0.1, "max_requests": BATCH,
        "failures": {},
    }  # fmt: skip
    requests = [
        Request(
            n, n * EVERY_NS, n % num_gateways, "unary", MODEL, 400, 400 * MS, 2, INTERACTIVE, None,
            "",
        )
        for n in range(SPAN_NS // EVERY_NS)
    ]  # fmt: skip
    return dataclasses.replace(
        plan,
        num_gateways=num_gateways,
        workers=[WorkerPlan(device, max_outstanding=1, max_queued=0, writes=False)] * num_workers,
        requests=requests,
        faults=[],
        slow_messages=0.0,
        duplicated=0.0,
        forged=0.0,
        swallowed=0.0,
    )


def answered(seed: int, num_gateways: int, num_workers: int) -> Counter[int]:
    """Answers of each gateway."""
    lines: list[str] = []
    report = run_seed(
        seed,
        lines.append,
        lambda plan: contended(plan, num_gateways=num_gateways, num_workers=num_workers),
    )
    assert not report.failure
    text = "\n".join(lines)
    asked_of = dict(re.findall(r"send (r\d+) unary gateway-(\d)", text))
    ended = re.findall(r"end (r\d{1,4}) ok", text)
    return Counter(int(asked_of[request]) for request in ended)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("num_gateways", "num_workers", "least_share", "most_share"),
    [
        pytest.param(2, 1, 0.4, 0.6, id="two gateways, one worker"),
        pytest.param(2, 2, 0.4, 0.6, id="two gateways, two workers"),
        pytest.param(3, 1, 0.23, 0.43, id="three gateways, one worker"),
    ],
)
def test_equal_gateways_get_equal_shares_and_nothing_is_lost_for_it(
    seed: int, num_gateways: int, num_workers: int, least_share: float, most_share: float
) -> None:
    each = answered(seed, num_gateways, num_workers)
    alone = sum(answered(seed, 1, num_workers).values())
    total = sum(each.values())
    for gateway in range(num_gateways):
        assert least_share <= each[gateway] / total <= most_share
    # As many as one gateway that has the fleet to itself: a device never waits for a turn.
    assert total >= 0.93 * alone
