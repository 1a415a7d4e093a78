"""The product's selector in the product's engine, on simulated devices: what bench/engine measures.

Virtual time, fixed seeds: the figures are the same on every machine.
"""

import pytest
from bench.engine.drive import POLICIES, Simulation, Work
from bench.engine.handoff import product, run_cell, wall_rule
from bench.engine.head_of_line import SURFACES, measure

from headway.engine.request import Finish
from headway.engine.surface import GpuLikeSurface

S = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize(
    ("surface", "first_token", "gap"), [("cpu-like", 1.94, 2.00), ("gpu-like", 1.98, 1.89)]
)
def test_a_long_prompt_and_eight_streams_get_along(
    surface: str, first_token: float, gap: float
) -> None:
    """At most twice of being alone, both: 2.005 is 32 tokens, the nearest chunk there is."""
    figure = measure(SURFACES[surface], POLICIES["headway"], surface, "headway")
    assert figure.first_token_ratio == pytest.approx(first_token, abs=0.01)
    assert figure.gap_ratio == pytest.approx(gap, abs=0.01)
    assert figure.first_token_ratio <= 2
    assert figure.gap_ratio <= 2.01


@pytest.mark.parametrize("policy", ["prefill-first", "decode-first 256"])
def test_baselines_let_one_of_them_wait(policy: str) -> None:
    figures = [measure(each, POLICIES[policy], name, policy) for name, each in SURFACES.items()]
    assert max(max(each.first_token_ratio, each.gap_ratio) for each in figures) > 5


def test_a_late_host_does_not_raise_the_cost_of_a_round() -> None:
    """Known from production: 61 ms of wall for 28.5 ms of device time, then plain for 20 s."""
    cell = run_cell(product, late=0.06, seed=1)
    assert 28 * MS < cell.round_cost_ns[0] <= cell.round_cost_ns[1] < 29 * MS
    assert not cell.stuck


def test_the_old_rule_gets_stuck_on_the_same_host() -> None:
    cells = [run_cell(wall_rule, late=0.06, seed=seed) for seed in (1, 2, 3, 4)]
    assert any(cell.stuck for cell in cells)


def test_every_prompt_is_served_beside_a_stream_of_shorter_ones() -> None:
    """An ageing bound holds where shortest-first would starve the long one."""
    simulation = Simulation(GpuLikeSurface(), POLICIES["headway"], lanes=64)
    long = simulation.offer(Work(S, 4000, 4))
    for number in range(3000):
        simulation.offer(Work(S + number * 20 * MS, 200, 8))
    simulation.run(20 * S)
    assert long.ending is not None
    assert long.ending.finish is Finish.STOP
    assert long.first_token_ns is not None and long.first_token_ns < 5 * S
