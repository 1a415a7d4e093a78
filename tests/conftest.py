"""What every test may ask for."""

import asyncio
import functools
import inspect
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgresql import PostgresServer, create_database, shared_server

from headway.store.engine import parse
from headway.store.store import Store


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """URL of a real PostgreSQL server, one for the whole session, also under xdist."""
    base = tmp_path_factory.getbasetemp()
    with shared_server(base if worker_id == "master" else base.parent) as url:
        yield url


@pytest.fixture
def own_postgresql() -> Iterator[PostgresServer]:
    """A server of the test's own, to stop and start."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
async def postgresql_url(postgresql: str) -> str:
    """An empty database on the session's server."""
    name = f"test_{uuid.uuid4().hex}"
    await create_database(postgresql, name)
    return postgresql.rpartition("/")[0] + f"/{name}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A database file that is not there yet."""
    return f"sqlite:///{tmp_path / 'control.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database, of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    """A store on it, of this version's schema."""
    store = Store(parse(store_url), timeout_s=60)  # a busy machine is no store that is away
    await store.prepare()
    yield store
    await store.close()


@pytest.fixture(autouse=True)
def own_state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process keeps by default, it keeps for one test only."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# Before pytest's own timeout: that one breaks the event loop off, and the servers that grpc.aio
# still runs in it then write into memory that is another's (a segmentation fault, later).
_LONGEST_S = 100


def pytest_itemcollected(item: pytest.Item) -> None:
    """Has coroutine tests end in time by themselves, with everything that they clean up."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        longest = item.get_closest_marker("timeout")
        seconds = longest.args[0] - 20 if longest is not None else _LONGEST_S
        item.obj = _in_time(item.obj, seconds)


def _in_time(test: Any, seconds: float) -> Any:
    @functools.wraps(test)
    async def timed(*arguments: Any, **named: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(*arguments, **named)

    return timed
