"""Stated shares hold on a whole fleet under more load than it can take."""

import dataclasses
import re

import pytest
from tests.dst.draw import MS, S
from tests.dst.plan import MODEL, Plan, Request, WorkerPlan
from tests.dst.run import run_seed

INTERACTIVE, BULK = 1, 2
NUM_BULK = 40
SPAN_NS = 3 * S
BULK_SHARE = 0.05  # the policy's default
BATCH = 4
UNITS_BYTES = 400  # 10 ms of the device for each request, all alike


def flooded(plan: Plan) -> Plan:
    """One device, three to four times as much interactive work as it can do, and bulk behind it."""
    device = {
        "kind": "simulated", "intercept_ms": 15, "slope_ms_per_unit": 0.1, "max_requests": BATCH,
        "failures": {},
    }  # fmt: skip
    bulk = [request(number, 0, BULK) for number in range(NUM_BULK)]
    urgent = [request(1_000 + n, n * 4 * MS, INTERACTIVE) for n in range(SPAN_NS // (4 * MS))]
    return dataclasses.replace(
        plan,
        num_gateways=1,
        workers=[WorkerPlan(device, max_outstanding=1, max_queued=0, writes=False)],
        requests=[*bulk, *urgent],
        faults=[],
        slow_messages=0.0,
        duplicated=0.0,
        forged=0.0,
        swallowed=0.0,
    )


def request(number: int, at_ns: int, lane: int) -> Request:
    timeout_ns = SPAN_NS if lane == BULK else 400 * MS
    return Request(number, at_ns, 0, "unary", MODEL, UNITS_BYTES, timeout_ns, 2, lane, None, "")


@pytest.mark.parametrize("seed", range(8))
def test_bulk_work_gets_its_share_and_no_flood_keeps_it_out(seed: int) -> None:
    lines: list[str] = []
    report = run_seed(seed, lines.append, flooded)
    assert not report.failure
    runs = [line for line in lines if " runs " in line]
    members = [int(n) for line in runs for n in re.findall(r"request (\d+)", line)]
    counted = [number for number in members if number < 10_000]
    bulk = sum(number < NUM_BULK for number in counted)
    assert len(counted) > 150
    # The share is of device time, which is dealt out a batch at a time.
    assert bulk / len(counted) >= BULK_SHARE - BATCH / len(counted)
    assert bulk < 0.5 * len(counted)
