"""Every drill once, in its short form; `headway drill` runs the long ones."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.clock import SystemClock
from headway.drill.catalog import DRILLS
from headway.drill.run import run_drill

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

# The soak is for both servers; the others are about what stands behind them.
RUNS = [(name, "grpcio") for name in DRILLS] + [("soak", "native")]
SHORT = 0.1


@pytest.mark.parametrize(("name", "transport"), RUNS)
async def test_nothing_is_lost(name: str, transport: str, tmp_path: Path) -> None:
    result = await run_drill(
        DRILLS[name],
        transport=transport,
        folder=tmp_path,
        clock=SystemClock(),
        seed=1,
        size=SHORT,
    )
    assert result.passed, f"{result.reason}\n{result.figures}"
    assert result.figures["latest_after_deadline_ms"] <= 100
    assert result.figures["calls"] > 0


def test_all_that_is_asked_of_a_fleet_is_drilled() -> None:
    assert list(DRILLS) == [
        "kill-worker", "stop-worker", "restart-gateway", "garbage-worker", "failing-replica",
        "slow-replica", "all-gone", "cancels", "disconnects", "clock-step", "two-gateways",
        "rolling-restart", "quota", "soak",
    ]  # fmt: skip


async def test_interrupting_a_drill_stops_all_that_it_started(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    logs = tmp_path / "logs"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headway", "drill", "kill-worker", f"--logs={logs}",
        f"--json={report}", stdout=subprocess.DEVNULL,
    )  # fmt: skip
    started: set[int] = set()
    while len(started) < 2:
        started = children_of(process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), 0.05)
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 130
    assert not [pid for pid in started if is_running(pid)]
    assert json.loads(report.read_text()) == []


def children_of(pid: int) -> set[int]:
    """Processes whose parent is `pid`."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in path.read_text().split()} if path.exists() else set()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
