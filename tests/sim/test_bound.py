"""The clairvoyant bound: above everything that can be done, and not far above."""

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from headway import _core
from headway.lab.bound import bound_per_s
from headway.sim import Device, Fleet, Policy, Workload, simulate

INTERCEPT_NS, SLOPE_NS, MAX_REQUESTS = 18_000_000, 22_000, 2
STEP_NS = 250_000
MOST_ABOVE = 1.001
"""The bound over the linear program: 0.02 % for knapsacks, as much for the least ambition of the
subgradient steps, and as much again for rounds that run out."""


class Request(NamedTuple):
    """One of a tiny instance."""

    at_ns: int
    due_ns: int
    units: int


class Batch(NamedTuple):
    """Requests that could run together, and when."""

    members: tuple[int, ...]
    from_ns: int
    due_ns: int
    run_ns: int


def instance(seed: int) -> list[Request]:
    """Six requests within 80 ms, each worth one or two to a batch."""
    draw = np.random.default_rng(seed)
    arrivals = sorted(int(at) for at in draw.uniform(0, 80e6, 6))
    return [
        Request(at, at + int(draw.uniform(40e6, 100e6)), int(draw.uniform(50, 1550)))
        for at in arrivals
    ]


def batches(requests: list[Request]) -> list[Batch]:
    """Every batch that has time to run."""
    found = []
    for size in range(1, MAX_REQUESTS + 1):
        for members in combinations(range(len(requests)), size):
            chosen = [requests[each] for each in members]
            run_ns = INTERCEPT_NS + SLOPE_NS * sum(each.units for each in chosen)
            from_ns = max(each.at_ns for each in chosen)
            due_ns = min(each.due_ns for each in chosen)
            if from_ns + run_ns <= due_ns:
                found.append(Batch(members, from_ns, due_ns, run_ns))
    return found


def optimum(requests: list[Request]) -> int:
    """Most requests in time, by trying every sequence of batches."""
    possible = batches(requests)

    @cache
    def most(left: frozenset[int], now_ns: int) -> int:
        best = 0
        for batch in possible:
            end_ns = max(now_ns, batch.from_ns) + batch.run_ns
            if left.issuperset(batch.members) and end_ns <= batch.due_ns:
                rest = most(left.difference(batch.members), end_ns)
                best = max(best, len(batch.members) + rest)
        return best

    return most(frozenset(range(len(requests))), 0)


def configuration_program(requests: list[Request]) -> float:
    """The linear program over all batches at all steps, solved by HiGHS.

    A unit of flow, the device, goes through the steps, by batches or idly; each request is used at
    most once. Steps are rounded as the bound rounds them.
    """
    num, end = len(requests), max(each.due_ns for each in requests) // STEP_NS + 2
    values, entries = [], []
    for batch in batches(requests):
        steps = batch.run_ns // STEP_NS
        for start in range(batch.from_ns // STEP_NS, batch.due_ns // STEP_NS - steps + 1):
            column = len(values)
            entries += [(num + start, column, 1), (num + start + steps, column, -1)]
            entries += [(member, column, 1) for member in batch.members]
            values.append(-len(batch.members))
    for step in range(end - 1):
        entries += [(num + step, len(values), 1), (num + step + 1, len(values), -1)]
        values.append(0)
    rows, columns, factors = zip(*entries, strict=True)
    matrix = coo_array((factors, (rows, columns)), shape=(num + end, len(values))).tocsr()
    flow = np.zeros(end)
    flow[0], flow[-1] = 1, -1
    found = linprog(
        values, A_ub=matrix[:num], b_ub=np.ones(num), A_eq=matrix[num:], b_eq=flow, method="highs"
    )
    return -float(found.fun)


def bound(requests: list[Request]) -> float:
    num = len(requests)
    trace = _core.Trace(
        duration_ns=80_000_000,
        at_ns=[each.at_ns for each in requests],
        units=[each.units for each in requests],
        rows=[1] * num,
        deadline_ns=[each.due_ns - each.at_ns for each in requests],
        classes=[0] * num,
        lanes=[1] * num,
        priorities=[2] * num,
        tenants=[0] * num,
        weights=[1.0] * num,
        cancel_after_ns=[2**62] * num,
    )
    return _core.clairvoyant_bound(
        trace,
        intercept_ns=INTERCEPT_NS,
        slope_ns=SLOPE_NS,
        max_requests=MAX_REQUESTS,
        max_units=0,
        search_step_ns=1_000_000,
        search_rounds=200,
        final_step_ns=STEP_NS,
        final_rounds=1500,
    )


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_configuration_program(seed: int) -> None:
    requests = instance(seed)
    program, found = configuration_program(requests), bound(requests)
    assert optimum(requests) <= program + 1e-6
    assert program * (1 - 1e-6) <= found <= program * MOST_ABOVE


@pytest.mark.parametrize("rate", [100, 260, 600])
def test_no_schedule_is_above_it(rate: float) -> None:
    quiet = Device(noise=0.0)
    trace = Workload.reference(rate, duration_s=5).draw(10001)
    bound = bound_per_s(trace, quiet)
    goodput = simulate(trace, Fleet(device=quiet), Policy(shed_early=False)).goodput_per_s()
    assert goodput <= bound
    assert goodput >= 0.88 * bound
    assert bound <= len(trace) / 5 + 1e-9


def test_an_empty_trace_is_worth_nothing() -> None:
    assert bound_per_s(Workload.reference(0, duration_s=1).draw(1), Device()) == 0.0
