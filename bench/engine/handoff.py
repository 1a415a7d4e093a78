"""A late host, and what it does to graph costs.

Question:  a verification round that runs unqueued because the host was late takes 61 ms of wall for
           28.5 ms of device time: does the estimate learn the host's delay, and does plain decode
           win the near-tie until the estimate is renewed?
Workload:  32 endless streams; plain decode 13.9 ms for 32 tokens, or a round of 28.5 ms for about
           74 (width 8); hosts that are late by 32 ms for a share of completions. 40 cells of 30 s:
           four hosts, ten seeds each. A cell is stuck if more than 30 % of its steps are plain.
           "wall - device" charges an exponential mean (1/6) of wall less device time over all
           executions submitted to an empty queue; "exposed" and the product charge only executions
           that had to deliver feedback. Same engine, same device, same seeds.
Machine:   any; time is virtual.
Command:   python -m bench.engine.handoff [--seeds 10]
"""

import argparse
import statistics
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway._core import StepPause
from headway.engine.frame import GraphShape
from headway.engine.request import Targets
from headway.engine.scheduling import make_selector
from headway.engine.selection import StepSelector
from headway.engine.simulated import Disturbance
from headway.engine.trace import StepRecord, Trace

from .baselines import IDLE, QUEUE_FULL, BaselineStep
from .drive import MakeSelector, S, Simulation, Work

MS = 1_000_000
STREAMS = 32
PLAIN_NS, ROUND_NS = round(13.9 * MS), round(28.5 * MS)
ACCEPTANCE = 0.585
HOSTS = {"never late": 0.0, "seldom late": 0.01, "often late": 0.03, "very often late": 0.06}
LIFETIME_NS = 30 * S
CELL_NS = 30 * S
LATE_AGAIN = 0.7
GAP = Targets(gap_ns=S)


@dataclass(frozen=True)
class RoundSurface:
    """Plain decode, one verification round, and a chunk to begin with."""

    graphs: Sequence[GraphShape] = (
        GraphShape("plain", decode_rows=STREAMS),
        GraphShape("round", decode_rows=STREAMS, width=8),
        GraphShape("chunk", prefill_tokens=64, prompt_rows=STREAMS),
    )

    def cost_ns(self, graph: GraphShape, prompt_tokens: int, rows: int) -> int:
        return {"plain": PLAIN_NS, "round": ROUND_NS, "chunk": 10 * MS}[graph.name]


@dataclass
class Estimate:
    """One graph's cost under a rule."""

    device_ns: deque[int] = field(default_factory=lambda: deque(maxlen=9))
    handoff_ns: float = 0.0
    measured_at: int = 0

    @property
    def cost_ns(self) -> float:
        return statistics.median(self.device_ns) + self.handoff_ns


class RuleSelector:
    """Takes the graph with the most expected tokens a second; costs by a rule.

    Stale graphs are measured again from the same allowance as the product's: 2 % of ordinary
    time, 5 ms at most, all of a probe's time paid.
    """

    def __init__(self, graphs: Sequence[GraphShape], *, charges_wall: bool) -> None:
        self._graphs = graphs
        self._charges_wall = charges_wall
        self._prompts: list[int] = []
        self._streams: list[int] = []
        self._chances: dict[int, Sequence[float]] = {}
        self._estimates = [Estimate() for _ in graphs]
        self._flights: deque[tuple[BaselineStep, int, bool, bool]] = deque()
        self._credit_ns = 0.0
        self._completed_at = 0
        self._num_lanes = self._num_frames = 0

    def admit(self, now_ns: int, *, acceptance: Sequence[float], **others: object) -> int:
        self._num_lanes += 1
        self._prompts.append(self._num_lanes)
        self._chances[self._num_lanes] = acceptance
        return self._num_lanes

    def cancel(self, lane: int) -> None:
        """Streams are endless here."""

    def hold(self, lane: int, held: bool) -> None:
        """Readers are quick here."""

    def set_acceptance(self, lane: int, acceptance: Sequence[float]) -> None:
        self._chances[lane] = acceptance

    def observe(self, graph: int, *, device_ns: int, **others: object) -> None:
        self._estimates[graph].device_ns.append(device_ns)

    def dispatch(self, now_ns: int) -> BaselineStep | StepPause:
        if len(self._flights) >= 2:
            return QUEUE_FULL
        if not self._prompts and not self._streams:
            return IDLE
        self._num_frames += 1
        probe = False
        if self._prompts:
            lanes, self._prompts = self._prompts, []
            step = BaselineStep(self._num_frames, 2, lanes, [8] * len(lanes), [])
            self._streams += lanes
        else:
            graph, probe = self._choose(now_ns)
            cost = round(self._estimates[graph].cost_ns)
            step = BaselineStep(self._num_frames, graph, [], [], self._streams, cost_ns=cost)
        self._flights.append((step, now_ns, not self._flights, probe))
        return step

    def complete(self, frame: int, now_ns: int, *, device_ns: int | None, **others: object) -> None:
        step, submitted_at, drained, probe = self._flights.popleft()
        wall_ns = now_ns - max(submitted_at, self._completed_at)
        self._completed_at = now_ns
        estimate = self._estimates[step.graph]
        assert device_ns is not None
        if now_ns - estimate.measured_at > LIFETIME_NS and self._charges_wall:
            estimate.handoff_ns = 0.0
        estimate.device_ns.append(device_ns)
        estimate.measured_at = now_ns
        if drained and self._charges_wall:
            estimate.handoff_ns += (wall_ns - device_ns - estimate.handoff_ns) / 6
        if probe:
            self._credit_ns -= device_ns
        else:
            self._credit_ns = min(5 * MS, self._credit_ns + device_ns * 0.02 / 0.98)

    def _choose(self, now_ns: int) -> tuple[int, bool]:
        rates = []
        for index in (0, 1):
            tokens = sum(self._tokens(lane, self._graphs[index].width) for lane in self._streams)
            rates.append(tokens / self._estimates[index].cost_ns)
        best = int(rates[1] > rates[0])
        other = 1 - best
        stale = now_ns - self._estimates[other].measured_at > LIFETIME_NS
        if stale and self._credit_ns >= 5 * MS:
            return other, True
        return best, False

    def _tokens(self, lane: int, width: int) -> float:
        total = prefix = 1.0
        for chance in self._chances[lane][: width - 1]:
            prefix *= chance
            total += prefix
        return total


def wall_rule(graphs: Sequence[GraphShape]) -> StepSelector:
    return RuleSelector(graphs, charges_wall=True)  # type: ignore[return-value]


def exposed_rule(graphs: Sequence[GraphShape]) -> StepSelector:
    return RuleSelector(graphs, charges_wall=False)  # type: ignore[return-value]


def product(graphs: Sequence[GraphShape]) -> StepSelector:
    return make_selector(graphs, max_lanes=2 * STREAMS)


RULES: dict[str, MakeSelector] = {
    "wall - device": wall_rule,
    "exposed": exposed_rule,
    "headway": product,
}


@dataclass(frozen=True)
class Cell:
    """Half a minute of one host."""

    tokens_per_s: float
    plain_share: float
    round_cost_ns: tuple[int, int]

    @property
    def stuck(self) -> bool:
        return self.plain_share > 0.3


def run_cell(make: MakeSelector, late: float, seed: int) -> Cell:
    steps: list[StepRecord] = []
    simulation = Simulation(
        RoundSurface(),
        make,
        lanes=STREAMS,
        seed=seed,
        disturbance=Disturbance(
            noise=0.01,
            host_delay_ns=MS // 5,
            late_host=late,
            late_again=LATE_AGAIN,
            late_ns=round(32.5 * MS),
        ),
        budget=1 << 24,
        trace=Trace(steps.append),
    )
    readings = [simulation.offer(Work(0, 8, 1 << 24, ACCEPTANCE, GAP)) for _ in range(STREAMS)]
    simulation.run(CELL_NS)
    counts = Counter(step.graph for step in steps)
    tokens = sum(count for reading in readings for _, count in reading.delivered)
    costs = [step.predicted_ns for step in steps if step.graph == "round" and step.predicted_ns]
    share = counts["plain"] / (counts["plain"] + counts["round"])
    return Cell(tokens / (CELL_NS / S), share, (min(costs, default=0), max(costs, default=0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(1, parser.parse_args().seeds + 1)
    print(f"{'rule':16}{'host':18}{'tok/s':>8}{'stuck':>10}{'round estimated, ms':>24}")
    for rule, make in RULES.items():
        total = 0
        for host, late in HOSTS.items():
            cells = [run_cell(make, late, seed) for seed in seeds]
            stuck = sum(cell.stuck for cell in cells)
            total += stuck
            low = min(cell.round_cost_ns[0] for cell in cells) / MS
            high = max(cell.round_cost_ns[1] for cell in cells) / MS
            rate = statistics.mean(cell.tokens_per_s for cell in cells)
            print(
                f"{rule:16}{host:18}{rate:>8.0f}{stuck:>6}/{len(cells)}{low:>16.1f} to {high:.1f}"
            )
        print(f"{rule:16}{'all':18}{'':>8}{total:>6}/{len(HOSTS) * len(seeds)}")


if __name__ == "__main__":
    main()
