"""The files of an SQLite store change their names' meaning while it opens and uses them.

Whatever was confirmed is in the files of those names, and connecting makes none of them.
"""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from headway.errors import StoreUnavailable
from headway.store.engine import Address, make_private, parse
from headway.store.records import Author, TenantRecord
from headway.store.store import Store

OPS = Author("ops", "OpsKey01", "gateway-1")


@contextlib.asynccontextmanager
async def prepared(file: Path) -> AsyncIterator[Store]:
    """A store of one tenant."""
    store = Store(Address(URL.create("sqlite+aiosqlite", database=str(file)), "it"), timeout_s=60)
    try:
        await store.prepare()
        await add(store, "first")
        yield store
    finally:
        await store.close()


async def add(store: Store, tenant: str) -> None:
    async with store.change(OPS, 1) as change:
        await change.put_tenant(TenantRecord(tenant), "create")


async def tenants(store: Store) -> set[str]:
    return set((await store.read_since(-1)).tenants)


def found_at(file: Path, folder: Path) -> set[str]:
    """Tenants that a process would find if this one were killed now."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(f"{file}{suffix}", folder / f"found.db{suffix}")
    with contextlib.closing(sqlite3.connect(folder / "found.db")) as connection:
        return {row[0] for row in connection.execute("SELECT tenant FROM tenants")}


class Opening:
    """Acts once, just before SQLite opens a file, and just after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        self._connect: Any = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", self._hooked)

    def _hooked(self, *args: Any, **options: Any) -> Any:
        before, self.before = self.before, lambda: None
        after, self.after = self.after, lambda: None
        before()
        try:
            return self._connect(*args, **options)
        finally:
            after()


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Opening:
    return Opening(monkeypatch)


async def on_new_connections(store: Store, count: int = 4) -> list[set[str]]:
    """What each of so many connections sees, which the pool has to make beside one in use."""
    seen: list[set[str]] = []
    async with contextlib.AsyncExitStack() as open_transactions:
        changing = await open_transactions.enter_async_context(store.change(OPS, 1))
        assert await changing.tenant("first") is not None
        reads = await asyncio.gather(
            *(tenants(store) for _ in range(count)), return_exceptions=True
        )
    for read in reads:
        if isinstance(read, BaseException):
            raise read
        seen.append(read)
    return seen


async def test_a_file_that_goes_as_it_is_opened_is_not_made_anew(
    tmp_path: Path, opening: Opening
) -> None:
    """The empty one stayed in the pool for ever: no such table, though the file was back."""
    file, aside = tmp_path / "control.db", tmp_path / "aside.db"
    async with prepared(file) as store:
        opening.before = lambda: file.rename(aside)
        with pytest.raises(StoreUnavailable, match="was removed"):
            await on_new_connections(store)
        assert not file.exists()
        aside.rename(file)
        assert await on_new_connections(store) == [{"first"}] * 4
        await add(store, "second")
        assert found_at(file, tmp_path / "killed") == {"first", "second"}


async def test_a_file_that_goes_and_comes_as_it_is_opened_is_opened_anew(
    tmp_path: Path, opening: Opening
) -> None:
    file, aside = tmp_path / "control.db", tmp_path / "aside.db"
    async with prepared(file) as store:
        opening.before, opening.after = lambda: file.rename(aside), lambda: aside.rename(file)
        with pytest.raises(StoreUnavailable, match="OperationalError: unable to open"):
            await on_new_connections(store, 1)
        assert await on_new_connections(store) == [{"first"}] * 4


@pytest.mark.parametrize("comes_back", ["at once", "later"])
async def test_another_file_that_was_there_as_it_was_opened_is_never_used(
    comes_back: str, tmp_path: Path, opening: Opening
) -> None:
    file, aside, other = (tmp_path / name for name in ("control.db", "aside.db", "other.db"))
    async with prepared(file):
        pass
    shutil.copy(file, other)
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("UPDATE tenants SET tenant = 'other'")
        connection.commit()

    def exchange() -> None:
        file.rename(aside)
        other.rename(file)

    def put_back() -> None:
        file.rename(other)
        aside.rename(file)

    store = Store(parse(f"sqlite:///{file}"), timeout_s=60)
    await store.prepare()
    opening.before = exchange
    if comes_back == "at once":
        opening.after = put_back
        # One alone: others might look at the name just then, and find the other file there.
        assert await on_new_connections(store, 1) == [{"first"}]
    else:
        with pytest.raises(StoreUnavailable, match="was replaced by another one"):
            await on_new_connections(store)
        put_back()
    assert await on_new_connections(store) == [{"first"}] * 4
    await add(store, "second")
    assert found_at(file, tmp_path / "killed") == {"first", "second"}
    assert found_at(other, tmp_path / "not used") == {"other"}
    await store.close()


def remove(file: Path) -> None:
    file.unlink()


def move(file: Path) -> None:
    file.rename(file.with_name("moved"))


def replace_by_a_copy(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def replace_by_nothing(file: Path) -> None:
    file.with_name("nothing").touch()
    file.with_name("nothing").replace(file)


@pytest.mark.parametrize("side", ["-wal", "-shm"])
@pytest.mark.parametrize("lose", [remove, move, replace_by_a_copy, replace_by_nothing])
async def test_files_beside_it_that_are_lost_lose_no_change(
    lose: Callable[[Path], None], side: str, tmp_path: Path
) -> None:
    """SQLite goes on in those that it opened: a change was confirmed, and nowhere to be found."""
    file = tmp_path / "control.db"
    async with prepared(file) as store:
        lose(file.with_name(file.name + side))
        with pytest.raises(StoreUnavailable, match="a file beside the store's was removed or repl"):
            await add(store, "refused")
        await add(store, "second")
        assert await on_new_connections(store) == [{"first", "second"}] * 4
        assert found_at(file, tmp_path / "killed") == {"first", "second"}
    async with prepared(file) as store:
        assert await tenants(store) == {"first", "second"}


@pytest.mark.parametrize("side", ["-wal", "-shm"])
async def test_files_beside_it_that_are_lost_during_a_change_refuse_it(
    side: str, tmp_path: Path
) -> None:
    file = tmp_path / "control.db"
    async with prepared(file) as store:
        with pytest.raises(StoreUnavailable, match="a file beside the store's"):
            async with store.change(OPS, 1) as change:
                await change.put_tenant(TenantRecord("refused"), "create")
                file.with_name(file.name + side).unlink()
                # Nobody begins with new files beside one who has the old ones open.
                for _ in range(2):
                    with pytest.raises(StoreUnavailable, match="a file beside the store's"):
                        await store.revision()
        await add(store, "second")
        assert found_at(file, tmp_path / "killed") == {"first", "second"}


async def test_a_store_that_was_not_prepared_makes_no_file(tmp_path: Path) -> None:
    """It would be one that everybody may read."""
    store = Store(parse(f"sqlite:///{tmp_path / 'control.db'}"), timeout_s=60)
    with pytest.raises(StoreUnavailable):
        await store.revision()
    assert list(tmp_path.iterdir()) == []
    await store.close()


@pytest.mark.parametrize(
    "name", ["a b.db", "a?mode=memory.db", "a#b.db", "a%41.db", "a&b=c.db", "ä.db", "a'\";.db"]
)
async def test_a_file_is_called_as_it_is_named(name: str, tmp_path: Path) -> None:
    async with prepared(tmp_path / name) as store:
        assert await tenants(store) == {"first"}
        assert sorted(os.listdir(tmp_path)) == [name, f"{name}-shm", f"{name}-wal"]


async def test_a_relative_path_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with prepared(Path("folder/control.db")) as store:
        assert await tenants(store) == {"first"}
    assert (tmp_path / "folder" / "control.db").exists()


def test_preparing_a_file_drops_no_lock_that_is_held_on_it(tmp_path: Path) -> None:
    """A process's locks on a file go with the first of its descriptors that is closed."""
    file = tmp_path / "control.db"
    make_private(file)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        make_private(file)
        other = (
            "import sqlite3, sys\n"
            "try: sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')\n"
            "except sqlite3.OperationalError as error: print(error)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", other, str(file)], check=True, capture_output=True, text=True
        )
    assert told.stdout == "database is locked\n"
