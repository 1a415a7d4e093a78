"""A load generator that does not flatter: open loop, latency from the scheduled instant.

Open loop: arrivals are scheduled ahead and sent whether or not earlier ones were answered, so a
stall is measured in full (no coordinated omission). Closed loop: a fixed number of clients, each
sending its next request once the last one is answered.
"""

from headway.loadtest.driver import LoadRun
from headway.loadtest.plan import LoadPlan
from headway.loadtest.report import LoadReport, report
from headway.loadtest.tally import Tally
from headway.loadtest.workload import (
    DeadlineMix,
    SizeDistribution,
    Workload,
    parse_deadline_mix,
    parse_duration_ns,
    parse_size,
)

__all__ = [
    "DeadlineMix",
    "LoadPlan",
    "LoadReport",
    "LoadRun",
    "SizeDistribution",
    "Tally",
    "Workload",
    "parse_deadline_mix",
    "parse_duration_ns",
    "parse_size",
    "report",
]
