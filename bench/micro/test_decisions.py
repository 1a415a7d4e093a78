"""What does keeping the decisions on a request cost it?

Question:  time added to one request by its record: made, filled at admission, given an attempt,
           ended, and the oldest one dropped.
Workload:  as the gateway does it, in a log of 10,000 that is full; a batch of 8 shares a trace.
           Beside it finding the oldest of 10,000 (when somebody asks), and a call that does
           nothing.
Command:   python -m pytest bench/micro/test_decisions.py --benchmark-only
"""

from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.fleet import CoreFleet
from headway.gateway.decisions import BatchTrace, DecisionLog, Record
from headway.rpc.interceptors import Caller

SIZE = 10_000
MEMBERS = 8
SHARES = (("v1", 0.9), ("v2", 0.1))


class Path:
    """The lines of the request path that keep decisions."""

    def __init__(self) -> None:
        self.log = DecisionLog(SIZE)
        fleet = CoreFleet(8)
        now, units, due = fleet.request()
        self.decision = fleet.core.admit(now, 0, 0, -1, 5, units, 1, due, 2, 1, 1.0)
        self.caller = Caller("acme", 0, key_id="Ab3dEf7h")
        self.live: dict[int, int] = {}
        for number in range(SIZE):
            self.log.add(Record(f"r-{number}", self.caller, number))

    def batch_of_requests(self) -> None:
        records = [self.request() for _ in range(MEMBERS)]
        names = tuple(record.request_id for record in records)
        trace = BatchTrace(1, "w1/sim/v1", MEMBERS, MEMBERS, 80, 1, 18_000_000, 5, names)
        for record in records:
            record.attempts.append((trace, 1_000_000, 80_000_000))
        trace.end(25_000_000, "ok", device_ns=18_000_000)
        for record in records:
            record.ended_ns, record.outcome = 25_000_000, "ok"

    def request(self) -> Record:
        record = Record("r-1", self.caller, 1)
        self.log.add(record)
        record.model, record.pinned, record.shares = None, False, SHARES
        record.priority = 2
        record.units, record.rows = 10, 1
        record.deadline_ns = 100_000_000
        record.key_hash = 12_345
        record.lane = 1
        record.weight = 1.0
        record.inflight = len(self.live) + 1
        record.pool = None
        record.reading = self.decision.reading
        return record


def test_eight_requests(benchmark: BenchmarkFixture) -> None:
    benchmark(Path().batch_of_requests)


def test_find_the_oldest_of_10_000(benchmark: BenchmarkFixture) -> None:
    log = Path().log
    assert benchmark(lambda: log.find("r-0")) is not None


def test_null_call(benchmark: BenchmarkFixture) -> None:
    benchmark(CoreFleet(8).core.num_executing)
