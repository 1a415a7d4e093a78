import pytest

from headway.lab.dispatch.fixed_value import FixedValuePolicy
from headway.lab.dispatch.head_of_line import cpu_catalog, head_of_line
from headway.lab.dispatch.production import ProductionPolicy


def test_a_3000_token_prompt_and_eight_streams_pay_about_twice_each() -> None:
    graphs = cpu_catalog()
    result = head_of_line(graphs, lambda: ProductionPolicy(graphs))
    # The feasible chunk is 31 tokens; the grid's 32 is what exceeds 2.
    assert result.p99_gap == pytest.approx(2.00, abs=0.02)
    assert result.first_token == pytest.approx(1.90, abs=0.05)
    prompt_first = head_of_line(graphs, lambda: FixedValuePolicy(graphs, 1.0))
    assert prompt_first.first_token == pytest.approx(1.01, abs=0.01)
    assert prompt_first.max_gap == pytest.approx(101, abs=1)
