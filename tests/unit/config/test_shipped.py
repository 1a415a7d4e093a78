"""The configuration files and images that are shipped mean what they say."""

import asyncio
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import running_gateway

from headway.config import load_gateway, load_worker, read_layers
from headway.errors import ConfigError
from headway.gateway.settings import GatewaySettings
from headway.worker.settings import WorkerSettings

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


SERVICES = ("gateway", "worker")


def dockerfile(service: str) -> str:
    """An image's recipe, each instruction on one line."""
    return (ROOT / "services" / service / "Dockerfile").read_text().replace("\\\n", " ")


@pytest.mark.parametrize("service", SERVICES)
def test_what_an_image_copies_is_there_and_reaches_its_build(service: str) -> None:
    copies = re.findall(r"^COPY (?!--from)(.+)$", dockerfile(service), re.MULTILINE)
    sources = [source for line in copies for source in line.split()[:-1]]
    assert len(sources) == 10
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in rules, "the context would be the whole tree"
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source.split('/')[0]}" in rules, f"{source} is kept from the build"


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_installs_what_its_service_needs(service: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (extras,) = re.findall(r"\$\{wheel\}\[([\w,]+)\]", dockerfile(service))
    assert service in extras.split(",")
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    (builder,) = re.findall(r'"(maturin[^"]+)"', dockerfile(service))
    assert builder in project["build-system"]["requires"]


@pytest.mark.parametrize(("service", "port"), [("gateway", 9100), ("worker", 9101)])
async def test_an_image_asks_itself_whether_it_is_well(service: str, port: int) -> None:
    text = dockerfile(service)
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.+\])$", text, re.MULTILINE)
    asked, flag, program = json.loads(command)
    assert (asked, flag) == ("python", "-c")
    assert f"http://127.0.0.1:{port}/healthz" in program
    assert re.search(rf"^EXPOSE .*\b{port}$", text, re.MULTILINE)
    async with running_gateway() as running:
        there = program.replace(f":{port}/", f":{running.addresses['http'].rsplit(':')[-1]}/")
        process = await asyncio.create_subprocess_exec(sys.executable, flag, there)
        assert await process.wait() == 0
    process = await asyncio.create_subprocess_exec(
        sys.executable, flag, there, stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() != 0


def test_the_composed_volumes_are_declared_and_kept() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    before, _, declared = text.partition("\nvolumes:\n")
    mounts = dict(re.findall(r"^      - (\S+?):(/\S+?)(?::ro)?$", before, re.MULTILINE))
    assert mounts == {
        "./gateway.toml": "/etc/headway/gateway.toml",
        "state": "/var/lib/headway",
    }
    assert declared.split() == ["state:"]
    assert (ROOT / "deploy" / "gateway.toml").is_file()
    # The gateway's own store is inside: what is set while it runs outlives it.
    assert "XDG_STATE_HOME=/var/lib/headway" in dockerfile("gateway")


def test_containers_may_finish_what_they_have_in_hand() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    graces = [int(seconds) for seconds in re.findall(r"stop_grace_period: (\d+)s", text)]
    assert len(graces) == 2
    for settings in (GatewaySettings, WorkerSettings):
        assert min(graces) > settings.model_fields["drain_seconds"].default
