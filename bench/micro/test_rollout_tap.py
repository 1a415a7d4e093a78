"""What does a rollout add to the end of a request? Null: a call that does nothing.

Workload: answers of 0.1 to 60 ms, in groups of eight. Command:
python -m pytest bench/micro/test_rollout_tap.py --benchmark-only -p no:xdist
"""

from itertools import count, cycle
from typing import Any

from headway.rollout.tap import ArmTap

LATENCIES = [100_000 + 7_919 * (n * n % 7_561) for n in range(1000)]


def test_counting_an_answer(benchmark: Any) -> None:
    tap, latencies, number = ArmTap(), cycle(LATENCIES), count()
    benchmark(lambda: tap.ended(next(number) >> 3, "ok", next(latencies), 1))


def test_the_null(benchmark: Any) -> None:
    latencies, number = cycle(LATENCIES), count()

    def nothing(now_ns: int, outcome: str, latency_ns: int, attempts: int) -> None:
        pass

    benchmark(lambda: nothing(next(number) >> 3, "ok", next(latencies), 1))
