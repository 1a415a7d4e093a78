"""Runs seeds of the deterministic simulation.

python -m tests.dst --seed 17 --trace          one seed, every event
python -m tests.dst --seeds 2000               seeds 0 to 1,999
python -m tests.dst --seeds 1000000 --jobs 2   a night's run
"""

import argparse
import sys
import time  # noqa: TID251  # how fast it runs on this machine, for people
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.dst.run import Report, run_seed

CHUNK = 50


def main() -> int:
    """Leaves with 1 if a seed fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.dst", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--trace", action="store_true", help="print every event of --seed")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many to run (2000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--most-failures", type=int, default=10, help="stop after so many (10)")
    given = parser.parse_args()
    if given.seed is not None:
        report = run_seed(given.seed, print if given.trace else None)
        _tell(report)
        return int(bool(report.failure))
    return _run_many(given.start, given.seeds, given.jobs, given.most_failures)


def replay(seed: int) -> str:
    """The command that runs a seed again."""
    return f"python -m tests.dst --seed {seed} --trace"


def _run_many(start: int, count: int, jobs: int, most_failures: int) -> int:
    began_s, done, failed = time.monotonic(), 0, 0
    outcomes: Counter[str] = Counter()
    virtual_ns = 0
    for report in _reports(start, count, jobs):
        done += 1
        outcomes += report.outcomes
        virtual_ns += report.virtual_ns
        if report.failure:
            failed += 1
            print(f"seed {report.seed}: {report.failure}\n  {replay(report.seed)}", flush=True)
            if failed >= most_failures:
                break
        if done % 1_000 == 0:
            rate = done / (time.monotonic() - began_s)
            print(f"{done} of {count} seeds, {failed} failed, {rate:.0f} a second", flush=True)
    took_s = time.monotonic() - began_s
    print(
        f"{done} seeds in {took_s:.1f} s ({done / took_s:.1f} a second, {jobs} jobs): {failed} "
        f"failed; {virtual_ns / 3.6e12:.1f} hours of a fleet's life, {outcomes.total()} calls: "
        f"{dict(outcomes.most_common())}"
    )
    return int(failed > 0)


def _reports(start: int, count: int, jobs: int) -> Iterator[Report]:
    seeds = range(start, start + count)
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=CHUNK)


def _tell(report: Report) -> None:
    print(
        f"seed {report.seed}: {report.virtual_ns / 1e9:.3f} s of a fleet's life, "
        f"{report.num_events} events in {report.num_turns} turns, {report.num_executions} "
        f"executions, faults {', '.join(report.faults) or 'none'}\n"
        f"  calls {dict(report.outcomes)}\n  trace {report.digest}\n  "
        + (f"FAILED: {report.failure}" if report.failure else "holds")
    )


if __name__ == "__main__":
    sys.exit(main())
