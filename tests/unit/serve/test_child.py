import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headway.serve.child import Child
from headway.testing import ManualClock

SECOND = 1_000_000_000
UP = '{"level": "info", "message": "up"}'
SAY_UP = f"print({UP!r}, flush=True)"
FOREVER = f"import signal; {SAY_UP}; signal.pause()"
STUBBORN = (
    f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SAY_UP}\n"
    "while True: signal.pause()"
)


class Stage:
    """A child, a clock that leaps, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.said: list[str] = []
        self.heard = asyncio.Event()
        self.starts = 0
        self._folder = folder

    def child(self, script: str, *, max_restarts: int = 2) -> Child:
        def command() -> list[str]:
            self.starts += 1
            return [sys.executable, "-c", script]

        return Child(
            "it",
            command,
            environment={"HEADWAY_TEST": "given"},
            log_path=self._folder / "it.log",
            log_bytes=10_000,
            max_restarts=max_restarts,
            clock=self.clock,
            say=self.say,
        )

    def say(self, name: str, what: str) -> None:
        self.said.append(f"{name}: {what}")
        self.heard.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await self.clock.settle()

    def logged(self, text: str) -> Callable[[], bool]:
        return lambda: text in (self._folder / "it.log").read_text()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    yield Stage(tmp_path)


async def test_a_child_that_ends_is_started_again_with_backoff_and_then_given_up(
    stage: Stage, tmp_path: Path
) -> None:
    child = stage.child(f"{SAY_UP}; raise SystemExit(3)")
    async with stage.clock.auto_jump():
        await child.keep_running()
    assert stage.said == [
        "it: ended with exit code 3; starting it again in 0.5 s (1 of 2)",
        "it: ended with exit code 3; starting it again in 1 s (2 of 2)",
        f"it: ended with exit code 3; given up, its log is {tmp_path / 'it.log'}",
    ]
    assert (stage.starts, child.is_given_up, child.pid) == (3, True, None)
    assert stage.clock.now_ns() == 1_500_000_000
    assert (tmp_path / "it.log").read_text() == f"{UP}\n" * 3


@pytest.mark.parametrize("code", [64, 69])
async def test_what_a_restart_cannot_mend_is_given_up_at_once(stage: Stage, code: int) -> None:
    child = stage.child(f"raise SystemExit({code})")
    await child.keep_running()
    assert (stage.starts, child.is_given_up) == (1, True)
    assert stage.said[0].startswith(f"it: ended with exit code {code}; given up")


async def test_once_it_was_ready_even_that_is_tried_again(stage: Stage) -> None:
    child = stage.child("raise SystemExit(69)", max_restarts=1)
    child.been_ready = True
    async with stage.clock.auto_jump():
        await child.keep_running()
    assert stage.starts == 2


async def test_a_minute_of_life_counts_as_recovered(stage: Stage) -> None:
    child = stage.child(FOREVER, max_restarts=1)
    running = asyncio.ensure_future(child.keep_running())
    for start in range(1, 4):
        await stage.until(stage.logged(f"{UP}\n" * start))
        await stage.clock.advance(60 * SECOND)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await stage.until(lambda start=start: len(stage.said) == start)
        await stage.clock.advance(SECOND // 2)
    assert stage.said == ["it: was ended by SIGKILL; starting it again in 0.5 s (1 of 1)"] * 3
    await stage.until(stage.logged(f"{UP}\n" * 4))
    await child.stop(SECOND)
    await running
    assert not child.is_given_up


async def test_stop_asks_politely_and_is_final(stage: Stage) -> None:
    child = stage.child(FOREVER)
    running = asyncio.ensure_future(child.keep_running())
    await stage.until(stage.logged(UP))
    await child.stop(10 * SECOND)
    await running
    assert (stage.said, stage.starts, child.is_given_up) == ([], 1, False)


async def test_a_child_that_does_not_listen_is_killed_after_the_grace(stage: Stage) -> None:
    child = stage.child(STUBBORN)
    running = asyncio.ensure_future(child.keep_running())
    await stage.until(stage.logged(UP))
    async with stage.clock.auto_jump():
        await child.stop(10 * SECOND)
    await running
    assert stage.said == ["it: did not end within 10 s; killed"]
    assert stage.clock.now_ns() == 10 * SECOND


async def test_warnings_are_shown_within_a_budget_and_all_is_in_the_file(
    stage: Stage, tmp_path: Path
) -> None:
    line = '{"level": "warning", "message": "no"}'
    child = stage.child(
        "import os\nassert os.environ['HEADWAY_TEST'] == 'given'\n"
        f"for _ in range(50): print({line!r})",
        max_restarts=0,
    )
    await child.keep_running()
    assert stage.said.count("it: warning: no") == 10
    assert (tmp_path / "it.log").read_text().splitlines() == [line] * 50


async def test_a_quiet_child_shows_nothing(stage: Stage) -> None:
    child = stage.child("print('Traceback')", max_restarts=0)
    child.quiet = True
    await child.keep_running()
    assert [one for one in stage.said if "Traceback" in one] == []
