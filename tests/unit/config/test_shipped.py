"""The configuration files and images that are shipped mean what they say."""

import re
from pathlib import Path
from typing import Any

import pytest

from headway.config import load_gateway, load_worker, read_layers
from headway.errors import ConfigError

ROOT = Path(__file__).parents[3]
TOKEN = "a long random text"


def image_environment(service: str) -> dict[str, str]:
    """The ENV of a service's Dockerfile."""
    text = (ROOT / "services" / service / "Dockerfile").read_text()
    found = dict(re.findall(r"\b(HEADWAY_\w+__\w+)=(\S+)", text))
    assert found, "the image sets nothing"
    return found


def compose() -> dict[str, dict[str, Any]]:
    """What the compose file's services set, by service; a reader for this file's own form."""
    services: dict[str, dict[str, Any]] = {}
    service = ""
    for line in (
        (ROOT / "deploy" / "compose.yaml").read_text().split("\nservices:\n")[1].split("\n")
    ):
        if match := re.fullmatch(r"  ([a-z-]+):", line):
            service = match[1]
            services[service] = {}
        elif match := re.fullmatch(r"      (HEADWAY_\w+): '?(.*?)'?", line):
            services[service][match[1]] = match[2]
    return services


def apply(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, TOKEN if "FLEET_TOKEN" in name else value)


def test_the_gateways_image_is_closed_until_it_has_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    apply(monkeypatch, image_environment("gateway"))
    file = ROOT / "services" / "gateway" / "gateway.toml"
    with pytest.raises(ConfigError, match="fleet_token is not set"):
        load_gateway(read_layers(file))
    monkeypatch.setenv("HEADWAY_GATEWAY__FLEET_TOKEN", TOKEN)
    settings = load_gateway(read_layers(file))
    assert (settings.host, settings.control_host, settings.http_host) == ("0.0.0.0",) * 3
    assert not settings.insecure_no_auth
    exposed = (ROOT / "services/gateway/Dockerfile").read_text()
    ports = f"EXPOSE {settings.port} {settings.control_port} {settings.http_port}"
    assert ports in exposed


def test_the_workers_image_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    apply(monkeypatch, image_environment("worker"))
    with pytest.raises(ConfigError, match="fleet_token is not set"):
        load_worker(read_layers(ROOT / "services" / "worker" / "worker.toml"))


def test_the_composed_gateway_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    apply(monkeypatch, {**image_environment("gateway"), **compose()["gateway"]})
    settings = load_gateway(read_layers(ROOT / "deploy" / "gateway.toml"))
    assert settings.fleet_token is not None
    assert settings.fleet_token.get_secret_value() == TOKEN
    assert settings.models["minilm"].split == {"v1": 0.9, "v2": 0.1}


@pytest.mark.parametrize(
    ("service", "version", "speed"),
    [("replica-a", "v1", 1.0), ("replica-b", "v1", 0.6), ("replica-c", "v2", 1.0)],
)
def test_the_composed_workers_are_valid(
    monkeypatch: pytest.MonkeyPatch, service: str, version: str, speed: float
) -> None:
    shared = {
        "HEADWAY_WORKER__FLEET_TOKEN": TOKEN,
        "HEADWAY_WORKER__GATEWAYS": '["gateway:50052"]',
    }
    apply(monkeypatch, {**image_environment("worker"), **shared, **compose()[service]})
    settings = load_worker(read_layers(ROOT / "services" / "worker" / "worker.toml"))
    (model,) = settings.models
    assert (settings.worker_id, settings.advertise) == (service, f"{service}:50061")
    assert (model.model, model.version, model.speed) == ("minilm", version, speed)
    assert settings.gateways == ("gateway:50052",)
