import json
import os
import sys
from pathlib import Path

import pytest

from headway.serve.announcement import announcement
from headway.serve.commands import (
    Addresses,
    fresh_store,
    gateway_command,
    gateway_environment,
    program,
    worker_command,
)
from headway.serve.settings import ServeSettings

BOUND = Addresses("127.0.0.1:50051", "127.0.0.1:50052", "127.0.0.1:9100")
HEADWAY = [sys.executable, "-m", "headway"]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_the_gateway_asks_for_no_keys_and_ends_with_its_parent() -> None:
    command = gateway_command(ServeSettings(), None, Path("gateway.json"), None)
    assert command[:4] == [*HEADWAY, "gateway"]
    assert "--insecure-no-auth" in command
    assert option(command, "--parent-pid") == str(os.getpid())
    assert option(command, "--host") == option(command, "--control-host") == "127.0.0.1"
    assert "--config" not in command
    assert "--transport" not in command


def test_a_gateway_that_starts_again_is_found_where_it_was() -> None:
    settings = ServeSettings(port=0, control_port=0, http_port=0, transport="grpcio")
    command = gateway_command(settings, Path("headway.toml"), Path("gateway.json"), BOUND)
    ports = [option(command, name) for name in ("--port", "--control-port", "--http-port")]
    assert ports == ["50051", "50052", "9100"]
    assert option(command, "--transport") == "grpcio"
    assert option(command, "--config") == "headway.toml"


def test_split_and_default_model_are_given_unless_they_are_configured() -> None:
    given = gateway_environment(ServeSettings(), {"port": 1})
    assert json.loads(given["HEADWAY_GATEWAY__MODELS"]) == {
        "minilm": {"split": {"v1": 0.9, "v2": 0.1}}
    }
    assert given["HEADWAY_GATEWAY__DEFAULT_MODEL"] == "minilm"
    configured = {"default_model": "other", "models": {"minilm": {"split": {"v1": 1.0}}}}
    assert gateway_environment(ServeSettings(), configured) == {}
    own = ServeSettings(split={"v1": 0.5, "v2": 0.5})
    assert list(gateway_environment(own, configured)) == ["HEADWAY_GATEWAY__MODELS"]


def test_a_worker_hosts_what_its_replica_says() -> None:
    settings = ServeSettings()
    command = worker_command(settings, None, settings.fleet[1], "127.0.0.1:50052")
    assert command[:4] == [*HEADWAY, "worker"]
    found = {
        name: option(command, name)
        for name in ("--id", "--gateway", "--model", "--version", "--runtime", "--speed", "--port")
    }
    assert found == {
        "--id": "replica-b",
        "--gateway": "127.0.0.1:50052",
        "--model": "minilm",
        "--version": "v1",
        "--runtime": "onnx",
        "--speed": "0.6",
        "--port": "0",
    }


def test_addresses_are_read_once_they_are_there(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    assert Addresses.read(file) is None
    file.write_text('{"data": "0.0.0.0:1", "control": "0.0.0.0:2", "http": "0.0.0.0:3"}')
    addresses = Addresses.read(file)
    assert addresses is not None
    assert addresses.reached_by("::1") == Addresses("[::1]:1", "[::1]:2", "[::1]:3")


@pytest.mark.parametrize(
    ("settings", "address", "lines"),
    [
        (
            ServeSettings(),
            BOUND,
            [
                "  model    minilm (onnx); traffic: v1 90%, v2 10%",
                "  fleet    replica-a v1, replica-b v1 at 0.6 of the speed, replica-c v2",
                f'  {program("headway")} infer "the tide turns"',
                f"  {program('headway')} loadtest --clients 32 --seconds 20",
                f"  {program('headway')} status",
                f"  {program('grpcurl')} -plaintext -d "
                '\'{"input": {"text": "the tide turns"}}\' 127.0.0.1:50051 '
                "headway.v1.InferenceService/Infer",
            ],
        ),
        (
            ServeSettings(host="0.0.0.0", runtime="simulated"),
            Addresses("0.0.0.0:7", "0.0.0.0:8", "0.0.0.0:9"),
            [
                "  data     127.0.0.1:7",
                "  model    simulated (simulated); traffic: v1 100%",
                "They are open to the network, on 0.0.0.0.",
                f'  {program("headway")} infer --address 127.0.0.1:7 "the tide turns"',
                f"  {program('headway')} status --address 127.0.0.1:8",
            ],
        ),
    ],
)
def test_the_announcement_tells_what_is_there_and_what_to_try(
    settings: ServeSettings, address: Addresses, lines: list[str]
) -> None:
    told = announcement(settings, address, Path("state"))
    assert told[0] == "ready"
    assert any("No API keys are asked for (--insecure-no-auth)" in line for line in told)
    for line in lines:
        assert line in told


def test_a_trial_begins_with_an_empty_store_of_its_own(tmp_path: Path) -> None:
    for name in ("control.db", "control.db-wal", "gateway.log"):
        (tmp_path / name).write_text("from last time")
    url = f"sqlite:///{tmp_path / 'control.db'}"
    assert fresh_store(tmp_path, {}) == {"HEADWAY_GATEWAY__STORE__URL": url}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["gateway.log"]


def test_a_store_that_is_configured_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "control.db").write_text("somebody's")
    assert fresh_store(tmp_path, {"store": {"url": "postgresql://h/d"}}) == {}
    assert (tmp_path / "control.db").exists()
