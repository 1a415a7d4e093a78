"""What every test may ask for."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgresql import PostgresServer, create_database, shared_server


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


@pytest.fixture(autouse=True)
def own_state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process keeps by default, it keeps for one test only."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
