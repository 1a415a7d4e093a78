"""From descriptions to the core's simulator."""

from headway import _core
from headway.sim.fleet import Fleet
from headway.sim.policy import Policy
from headway.sim.report import Report
from headway.sim.workload import NS_PER_MS, NS_PER_S


def simulate(
    trace: _core.Trace, fleet: Fleet | None = None, policy: Policy | None = None, seed: int = 0
) -> Report:
    """Runs a policy over a trace on a fleet.

    Event-driven and deterministic: the same arguments give the same report. `seed` drives the
    devices' noise and the scheduler's own draws. Runs without the GIL, at several 100,000
    requests a second on one core.

    Raises:
      ValueError: a value that the core refuses; it names the argument.
    """
    fleet, policy = fleet or Fleet(), policy or Policy()
    device = fleet.device
    result = _core.simulate(
        trace,
        policy=policy.kind.value,
        seed=seed,
        intercept_ns=device.intercept_ms * NS_PER_MS,
        slope_ns=device.slope_ms * NS_PER_MS,
        noise=device.noise,
        max_requests=device.max_requests,
        max_rows=device.max_rows,
        max_units=device.max_units,
        speeds=fleet.speeds,
        change_at_ns=[round(change.at_s * NS_PER_S) for change in fleet.changes],
        change_replicas=[change.replica for change in fleet.changes],
        change_speeds=[change.speed for change in fleet.changes],
        linger_ns=policy.linger_ms * NS_PER_MS,
        margin_ns=policy.margin_ms * NS_PER_MS,
        quantum_ns=policy.quantum_ms * NS_PER_MS,
        prior_intercept_ns=policy.prior_intercept_ms * NS_PER_MS,
        prior_slope_ns=policy.prior_slope_ms * NS_PER_MS,
        learns=policy.learns,
        max_queued_requests=policy.max_queued_requests,
        alpha=policy.alpha,
        large_share=policy.large_share,
        bulk_share=policy.bulk_share,
        priority_weights=policy.priority_weights,
        shed_early=policy.shed_early,
        fixed_quantum_ns=policy.fixed_quantum_ms * NS_PER_MS,
    )
    return Report(trace, result, num_replicas=len(fleet.speeds))
