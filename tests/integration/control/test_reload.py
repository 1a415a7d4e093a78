"""Configuration is swapped whole while the gateway runs, or not at all."""

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.support.fleet import RunningGateway, running_gateway, running_worker, text_request
from tests.support.operating import (
    ADMIN,
    CALLER,
    CLOSED,
    FLEET_TOKEN,
    caller,
    configured_key,
    operator,
)
from tests.support.processes import FleetProcesses

from headway import errors
from headway.client import ControlClient
from headway.config import load_gateway, read_layers
from headway.gateway.settings import GatewaySettings


class File:
    """A configuration file of a closed gateway, and changes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("")

    def write(self, more: str, acme: str = "units_per_second = 1000") -> None:
        ops = configured_key(ADMIN, "admin")
        key = configured_key(CALLER)
        self.path.write_text(
            f'[gateway]\nfleet_token = "{FLEET_TOKEN}"\nport = 0\ncontrol_port = 0\n'
            f"http_port = 0\nseed = 1\n{more}\n"
            f"[gateway.tenants.acme]\n{acme}\n"
            f'[[gateway.tenants.acme.keys]]\nkey_id = "{key["key_id"]}"\n'
            f'sha256 = "{key["sha256"]}"\n'
            f'[[gateway.tenants.ops.keys]]\nkey_id = "{ops["key_id"]}"\n'
            f'sha256 = "{ops["sha256"]}"\nrole = "admin"\n'
        )

    def load(self) -> GatewaySettings:
        return load_gateway(read_layers(self.path, {"gateway.store.url": "sqlite://"}))


@contextlib.asynccontextmanager
async def from_file(file: File) -> AsyncIterator[tuple[RunningGateway, ControlClient]]:
    settings: dict[str, Any] = file.load().model_dump()
    async with (
        running_gateway(**settings, load=file.load) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        yield running, control


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "headway.toml")


async def test_a_reload_says_what_changes_and_takes_effect(file: File) -> None:
    async with from_file(file) as (running, control), caller(running, CALLER) as client:
        await client.infer(text_request("x" * 400), timeout_s=5)
        file.write("max_live_requests = 10\ndefault_deadline_ms = 500", "units_per_second = 5")
        changes = [
            "gateway.default_deadline_ms: 10000 -> 500",
            "gateway.tenants.acme.units_per_second: 1000 -> 5",
            "gateway.max_live_requests: 65536 -> 10",
        ]
        said = await control.reload(dry_run=True)
        assert (said.generation, list(said.changes)) == (1, changes)
        assert list(said.needs_restart) == ["gateway.max_live_requests: 65536 -> 10"]
        await client.infer(text_request("x" * 400), timeout_s=5)

        done = await control.reload()
        assert (done.generation, list(done.changes)) == (2, changes)
        with pytest.raises(errors.InvalidRequest, match="may use at most 10 at once"):
            await client.infer(text_request("x" * 400), timeout_s=5)
        await client.infer(text_request(request_id="mine"))
        assert (await control.explain("mine")).record.deadline.ToMilliseconds() == 500
        assert (await control.state()).gateway.config_generation == 2
        assert "headway_config_generation 2.0" in generate_latest(running.gateway.registry).decode()
        (entry,) = await control.audit()
        assert (entry.action, entry.kind, entry.key_id) == ("reload", "config", "AdminKey")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("default_deadline_ms = -1", "gateway.default_deadline_ms = -1"),
        ("no_such_setting = 1", "unknown key"),
        ("= nonsense", "is not valid TOML"),
    ],
)
async def test_a_bad_configuration_leaves_the_last_good_one(
    file: File, more: str, why: str
) -> None:
    async with from_file(file) as (running, control), caller(running, CALLER) as client:
        file.write(more, "units_per_second = 5")
        with pytest.raises(errors.FailedPrecondition, match="generation 1 stays in force") as said:
            await control.reload()
        assert why in said.value.message
        await client.infer(text_request("x" * 400), timeout_s=5)
        assert (await control.state()).gateway.config_generation == 1
        exposition = generate_latest(running.gateway.registry).decode()
        assert "headway_config_reloads_refused_total 1.0" in exposition
        file.write("")
        assert (await control.reload()).generation == 1  # nothing is different


async def test_what_cannot_work_is_taken_back(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    async with from_file(file) as (running, control):
        broken = iter([RuntimeError("hw_Ab3dEf7h_0123456789abcdef is no colour")])
        configure = running.gateway.catalog.configure

        def fail_once(settings: GatewaySettings) -> None:
            for error in broken:
                raise error
            configure(settings)

        monkeypatch.setattr(running.gateway.catalog, "configure", fail_once)
        file.write("", "units_per_second = 5")
        with pytest.raises(errors.FailedPrecondition, match="cannot work") as said:
            await control.reload()
        assert "0123456789abcdef" not in said.value.message
        assert [t.units_per_second for t in await control.tenants()] == [1000, 0]


async def test_secrets_are_not_shown(file: File) -> None:
    async with from_file(file) as (_, control):
        file.path.write_text(file.path.read_text().replace(FLEET_TOKEN, "another-secret"))
        said = await control.reload()
        assert list(said.needs_restart) == ["gateway.fleet_token: *** -> ***"]


async def test_tenants_of_the_file_come_and_go(file: File) -> None:
    async with from_file(file) as (running, control), caller(running, CALLER) as client:
        text = file.path.read_text()
        without = text[: text.index("[gateway.tenants.acme]")]
        without += text[text.index("[[gateway.tenants.ops.keys]]") :]
        file.path.write_text(without)
        await control.reload()
        with pytest.raises(errors.Unauthenticated):
            await client.infer(text_request(), timeout_s=5)
        file.path.write_text(text)
        await control.reload()
        await client.infer(text_request(), timeout_s=5)


async def test_without_a_file_there_is_nothing_to_reload() -> None:
    async with running_gateway(**CLOSED) as running, operator(running) as control:
        with pytest.raises(errors.FailedPrecondition, match="not started from a configuration"):
            await control.reload()


@pytest.mark.e2e
async def test_sighup_reloads_a_real_process(tmp_path: Path) -> None:
    file = tmp_path / "headway.toml"
    file.write_text("[gateway]\ndefault_deadline_ms = 700\n")
    fleet = FleetProcesses(tmp_path)
    try:
        fleet.start_gateway(f"--config={file}")
        async with ControlClient(f"127.0.0.1:{fleet.ports['control']}") as control:
            file.write_text("[gateway]\ndefault_deadline_ms = 800\n")
            fleet.running["gateway"].send_signal(signal.SIGHUP)
            while (await control.state()).gateway.config_generation != 2:
                pass
        assert "gateway.default_deadline_ms: 700 -> 800" in fleet.log("gateway")
    finally:
        fleet.stop_all()
