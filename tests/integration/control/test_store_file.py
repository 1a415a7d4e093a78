"""The file of an SQLite store goes away under a running gateway: no change is lost unsaid."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from tests.support.fleet import running_worker, text_request
from tests.support.operating import (
    CALLER,
    FLEET_TOKEN,
    caller,
    closed_gateway,
    operator,
    until_store,
)

from headway import errors
from headway.client import RetryPolicy
from headway.v1 import control_pb2

ONCE = RetryPolicy(max_attempts=1)


def remove(file: Path) -> None:
    file.unlink()


def move(file: Path) -> None:
    file.rename(file.with_name("moved.db"))


def replace_by_a_copy(file: Path) -> None:
    shutil.copy(file, file.with_name("copy.db"))
    file.with_name("copy.db").replace(file)


@pytest.mark.parametrize(
    ("lose", "says"),
    [
        (remove, "was removed"),
        (move, "was removed"),
        (replace_by_a_copy, "was replaced by another one"),
    ],
)
async def test_a_change_is_refused_and_inference_goes_on(
    lose: Callable[[Path], None], says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "control.db"
    async with (
        closed_gateway(f"sqlite:///{file}") as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running, retry=ONCE) as control,
        caller(running, CALLER) as client,
    ):
        await running.until_serving()
        await until_store(running, up=True)
        with caplog.at_level(logging.WARNING, "headway.store"):
            lose(file)
            for act in (
                control.create_tenant(control_pb2.Tenant(tenant="globex")),
                control.create_key("acme"),
                control.set_split("sim", {"v1": 1.0}),
            ):
                with pytest.raises(errors.StoreUnavailable, match=says) as caught:
                    await act
                assert str(file) in caught.value.message
                assert caught.value.retry_after_ns == 300_000_000
            await until_store(running, up=False)
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{running.addresses['http']}/metrics") as response,
            ):
                assert "headway_store_up 0.0" in await response.text()
            await client.infer(text_request(), timeout_s=10)
            assert [each.tenant for each in await control.tenants()] == ["acme", "ops"]
        lost = [each for each in caplog.records if each.message == "control store lost"]
        assert [says in each.why for each in lost] == [True]


async def test_the_same_file_put_back_is_taken_up_again(tmp_path: Path) -> None:
    file, aside = tmp_path / "control.db", tmp_path / "aside.db"
    async with (
        closed_gateway(f"sqlite:///{file}") as running,
        operator(running, retry=ONCE) as control,
    ):
        await until_store(running, up=True)
        file.rename(aside)
        await until_store(running, up=False)
        aside.rename(file)
        await until_store(running, up=True)
        await control.create_tenant(control_pb2.Tenant(tenant="globex"))
    async with closed_gateway(f"sqlite:///{file}") as again, operator(again) as control:
        assert "globex" in [each.tenant for each in await control.tenants()]


async def test_a_restart_begins_with_the_file_that_is_there(tmp_path: Path) -> None:
    file, backup = tmp_path / "control.db", tmp_path / "backup.db"
    url = f"sqlite:///{file}"
    async with closed_gateway(url) as running, operator(running) as control:
        await control.create_tenant(control_pb2.Tenant(tenant="globex"))
    shutil.copy(file, backup)
    async with closed_gateway(url) as running, operator(running, retry=ONCE) as control:
        await until_store(running, up=True)
        file.unlink()
        with pytest.raises(errors.StoreUnavailable):
            await control.create_tenant(control_pb2.Tenant(tenant="initech"))
    for leftover in tmp_path.glob("control.db-*"):
        leftover.unlink()
    backup.rename(file)
    async with closed_gateway(url) as running, operator(running) as control:
        assert [each.tenant for each in await control.tenants()] == ["acme", "globex", "ops"]
