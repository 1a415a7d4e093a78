"""Runs the `headway` command with a wall clock that steps: python -m ... OFFSET_FILE COMMAND...

The file holds an offset in ns; `time.time_ns`, from which Headway has its time of day
(`headway.clock.wall_ns`), gets it added, as after a step of the machine's clock. Monotonic time is
left alone, as a step leaves it; so is `time.time`, which grpcio compares with the clock of its C
core: in a true step both move.
"""

import runpy
import sys
import time  # noqa: TID251  # it is what this program falsifies
from collections.abc import Callable
from pathlib import Path


def falsify(offset_ns: Callable[[], int]) -> None:
    """Has `time.time_ns` tell another time of day."""
    true_ns = time.time_ns
    time.time_ns = lambda: true_ns() + offset_ns()


def main() -> None:
    """Falsifies the clock, then does what `headway` does."""
    file = Path(sys.argv[1])

    def offset_ns() -> int:
        text = file.read_text()
        return int(text) if text else 0  # it is being written

    falsify(offset_ns)
    sys.argv = ["headway", *sys.argv[2:]]
    runpy.run_module("headway", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
