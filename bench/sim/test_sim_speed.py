"""How fast is the simulator, with the production scheduler in it?

Workload: the reference at 260 requests/s, 120 s, one replica; and a null scheduler (one by one).
Command: pytest bench/sim --benchmark-only
"""

from typing import Any

import pytest

from headway.sim import Policy, PolicyKind, Workload, simulate


@pytest.mark.parametrize("kind", [PolicyKind.ONE_BY_ONE, PolicyKind.HEADWAY])
def test_simulated_requests(benchmark: Any, kind: PolicyKind) -> None:
    trace = Workload.reference(260).draw(10001)
    benchmark(simulate, trace, None, Policy(kind=kind))
    if benchmark.stats is not None:  # None where it is only run, not measured
        benchmark.extra_info["requests_per_s"] = len(trace) / benchmark.stats.stats.median
