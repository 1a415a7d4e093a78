"""One leader at a time, and another soon after it is gone."""

import asyncio
import contextlib
import fcntl
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.postgresql import PostgresServer

from headway.clock import SystemClock
from headway.store.election import LEASE_NS, Election, leader_lock
from headway.store.engine import parse
from headway.testing import ManualClock

PROCESS = Path(__file__).parents[2] / "support" / "election_process.py"
FAIL_OVER_S = 10


@contextlib.asynccontextmanager
async def campaigner(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROCESS), url, stdout=asyncio.subprocess.PIPE
    )
    assert await said(process) == "campaigns"
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@pytest.mark.e2e
async def test_when_the_leader_is_killed_another_leads_within_10_s(store_url: str) -> None:
    async with campaigner(store_url) as first:
        assert await said(first) == "leads"
        async with campaigner(store_url) as second:
            waiting = asyncio.ensure_future(said(second))
            first.kill()
            await first.wait()
            async with asyncio.timeout(FAIL_OVER_S):
                assert await waiting == "leads"


@contextlib.asynccontextmanager
async def running(election: Election) -> AsyncIterator[asyncio.Queue[bool]]:
    changes: asyncio.Queue[bool] = asyncio.Queue()
    election.on_change = changes.put_nowait
    task = asyncio.ensure_future(election.run())
    try:
        yield changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def candidate(url: str) -> Election:
    clock = SystemClock()
    return Election(leader_lock(parse(url)), clock)


async def test_a_leader_that_stops_hands_over(store_url: str) -> None:
    first, second = candidate(store_url), candidate(store_url)
    async with running(second) as seconds:
        assert await seconds.get()
        async with running(first) as firsts:
            assert (first.leads(), second.leads()) == (False, True)
            assert firsts.empty()
    async with running(first) as firsts:
        assert await firsts.get()
        assert (first.leads(), second.leads()) == (True, False)


async def test_a_leader_without_its_server_steps_down(own_postgresql: PostgresServer) -> None:
    election = candidate(own_postgresql.url())
    async with running(election) as changes:
        assert await changes.get()
        own_postgresql.stop()
        assert await changes.get() is False
        assert not election.leads()
        own_postgresql.start()
        assert await changes.get()


async def test_a_leader_whose_server_hangs_steps_down_before_another_may_lead(
    own_postgresql: PostgresServer,
) -> None:
    election = candidate(own_postgresql.url())
    async with running(election) as changes:
        assert await changes.get()
        own_postgresql.freeze()
        try:
            async with asyncio.timeout(LEASE_NS / 1e9):
                assert await changes.get() is False
        finally:
            own_postgresql.thaw()


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_leader_whose_lock_file_is_gone_does_not_lead_beside_another(
    comes_back: bool, tmp_path: Path
) -> None:
    """Whoever opens the file by its name gets a lock of its own: both led, for good."""
    url, file = f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "control.db.leader"
    first, second = (leader_lock(parse(url)) for _ in range(2))
    assert await first.hold()
    file.rename(tmp_path / "aside")
    assert await second.hold()
    assert not await first.hold()
    if comes_back:
        (tmp_path / "aside").rename(file)
    assert [await second.hold(), await first.hold()].count(True) == 1
    await first.release()
    await second.release()


async def test_a_leader_whose_lock_file_is_gone_makes_another_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'control.db'}"
    first, second = (leader_lock(parse(url)) for _ in range(2))
    assert await first.hold()
    (tmp_path / "control.db.leader").unlink()
    assert await first.hold()
    assert not await second.hold()
    await first.release()
    assert await second.hold()
    await second.release()


async def test_a_candidate_that_leaves_while_it_takes_the_lock_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread had it a moment later, and kept it until the process ended."""
    loop, taking, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    # One thread: what is asked second begins when the first thing has ended.
    loop.set_default_executor(ThreadPoolExecutor(1))
    take = fcntl.flock

    def take_later(descriptor: int, how: int) -> None:
        loop.call_soon_threadsafe(taking.set)
        go_on.wait()
        take(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", take_later)
    url = f"sqlite:///{tmp_path / 'control.db'}"
    first, second = (leader_lock(parse(url)) for _ in range(2))
    leaving = asyncio.ensure_future(Election(first, SystemClock()).run())
    await taking.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    go_on.set()
    assert await second.hold()
    # Who left may come back.
    assert not await first.hold()
    await second.release()
    assert await first.hold()
    await first.release()


class Granted:
    """A lock that says what it is told to."""

    def __init__(self) -> None:
        self.answers = asyncio.Queue[bool]()

    async def hold(self) -> bool:
        return await self.answers.get()

    async def release(self) -> None:
        pass


async def test_a_lease_that_is_not_confirmed_runs_out_by_itself() -> None:
    clock, lock = ManualClock(), Granted()
    election = Election(lock, clock)
    async with running(election) as changes:
        lock.answers.put_nowait(True)
        assert await changes.get()
        assert election.leads()
        await clock.advance(LEASE_NS)
        assert not election.leads()
