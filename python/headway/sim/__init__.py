"""A simulator of gateway and fleet that drives the production scheduler.

Draw a workload (or read a recorded trace), describe a fleet, and run a policy over it::

    trace = Workload.reference(rate_per_s=260).draw(seed=1)
    report = simulate(trace, Fleet(), Policy())
    report.summary()["goodput_per_s"]
"""

from headway.sim.fleet import Device, Fleet, SpeedChange
from headway.sim.loop import Replicas, Request, SimPolicy, simulate_policy
from headway.sim.policy import Policy, PolicyKind
from headway.sim.report import Fate, Report
from headway.sim.run import simulate
from headway.sim.scheduled import ScheduledPolicy
from headway.sim.workload import Bursts, RateStep, RequestClass, Sizes, Workload

__all__ = [
    "Bursts",
    "Device",
    "Fate",
    "Fleet",
    "Policy",
    "PolicyKind",
    "RateStep",
    "Replicas",
    "Report",
    "Request",
    "RequestClass",
    "ScheduledPolicy",
    "SimPolicy",
    "Sizes",
    "SpeedChange",
    "Workload",
    "simulate",
    "simulate_policy",
]
