"""What a worker's configuration allows, and what it says of the rest."""

from typing import Any

import pytest
from pydantic import ValidationError

from headway.runtimes.settings import OnnxRuntimeSettings, SimulatedRuntimeSettings
from headway.worker.settings import WorkerSettings


def parse(**values: Any) -> WorkerSettings:
    return WorkerSettings.model_validate(values)


def test_the_default_serves_the_embedded_model_on_loopback() -> None:
    settings = parse()
    assert settings.host == "127.0.0.1"
    assert [(m.model, m.version, m.speed) for m in settings.models] == [("minilm", "v1", 1.0)]
    assert settings.models[0].runtime == OnnxRuntimeSettings()
    assert settings.max_outstanding_batches == 1
    assert settings.max_queued_batches == 0
    assert settings.max_message_bytes == 67_108_864
    assert settings.drain_seconds == 30
    assert settings.http_port is None


def test_the_reference_device_is_the_simulated_default() -> None:
    settings = parse(models=[{"model": "sim", "runtime": {"kind": "simulated"}}])
    device = settings.models[0].runtime
    assert isinstance(device, SimulatedRuntimeSettings)
    assert (device.intercept_ms, device.slope_ms_per_unit, device.jitter_ratio) == (18, 0.022, 0.08)
    assert not device.instant


@pytest.mark.parametrize(
    ("values", "where", "part"),
    [
        pytest.param({"worker": "w"}, ("worker",), "Extra inputs", id="unknown key"),
        pytest.param({"worker_id": "W 1"}, ("worker_id",), "match pattern", id="bad name"),
        pytest.param({"port": 70_000}, ("port",), "65535", id="no such port"),
        pytest.param({"gateways": ["nowhere"]}, ("gateways", 0), "match pattern", id="no port"),
        pytest.param({"models": []}, (), "models is empty; list at least one", id="no models"),
        pytest.param(
            {"models": [{"model": "m", "runtime": {"kind": "torch"}}]},
            ("models", 0, "runtime"),
            "'simulated', 'onnx'",
            id="unknown kind of runtime",
        ),
        pytest.param(
            {"models": [{"model": "m", "runtime": {"kind": "simulated", "threads": 2}}]},
            ("models", 0, "runtime", "simulated", "threads"),
            "Extra inputs",
            id="a key of no runtime",
        ),
        pytest.param(
            {"models": [{"model": "m", "speed": 2}]},
            ("models", 0),
            "can only be slowed; set speed to 1 or less",
            id="a real model made faster",
        ),
        pytest.param(
            {"models": [{"model": "m"}, {"model": "m"}]},
            (),
            "models lists m version v1 twice",
            id="one version twice",
        ),
        pytest.param(
            {"host": "10.0.0.7"},
            (),
            "fleet_token is not set; set fleet_token",
            id="open to others without a token",
        ),
        pytest.param(
            {"host": "0.0.0.0", "fleet_token": "s"},
            (),
            "set advertise to host:port",
            id="an address nobody can call",
        ),
        pytest.param({"max_outstanding_batches": 0}, ("max_outstanding_batches",), "1", id="none"),
        pytest.param({"drain_seconds": -1}, ("drain_seconds",), "0", id="negative time"),
    ],
)
def test_what_is_refused(values: dict[str, Any], where: tuple[object, ...], part: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse(**values)
    (error,) = caught.value.errors()
    assert error["loc"] == where
    assert part in error["msg"]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"host": "10.0.0.7", "fleet_token": "s"}, id="others, with a token"),
        pytest.param({"host": "10.0.0.7", "insecure_no_auth": True}, id="others, on purpose"),
        pytest.param(
            {"host": "0.0.0.0", "fleet_token": "s", "advertise": "w.example:7"}, id="advertised"
        ),
        pytest.param({"host": "0.0.0.0", "fleet_token": "s", "gateways": []}, id="on its own"),
        pytest.param({"host": "::1", "gateways": ["[::1]:50052"]}, id="IPv6"),
        pytest.param(
            {"models": [{"model": "m", "speed": 4, "runtime": {"kind": "simulated"}}]},
            id="a fast simulated device",
        ),
    ],
)
def test_what_is_allowed(values: dict[str, Any]) -> None:
    parse(**values)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(parse(fleet_token="hunter2"))
