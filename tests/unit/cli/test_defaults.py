"""The defaults that --help tells are those of the settings."""

import re
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from headway.cli.app import app
from headway.gateway.settings import GatewaySettings
from headway.serve.settings import ServeSettings
from headway.worker.settings import WorkerSettings

TOLD = re.compile(r"\[dim\]Default: ([^,]*?)\.?(?:,.*)?\[/dim\]")
OTHERWISE = {
    "none": None,
    "nowhere": None,
    "off": None,
    "drawn": None,
    "where it listens": None,
    "30 s": "30",
}
KEYS = {"worker_id": "worker_id", "gateway": "gateways"}
OF_THE_MODEL = {"model", "version", "runtime", "model_path", "trace_file", "speed"}


def told(command: str) -> dict[str, Any]:
    """Default that --help tells, by parameter."""
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    matches = {one.name: TOLD.search(one.help or "") for one in parameters}
    return {name: match[1] for name, match in matches.items() if match and name != "config"}


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("gateway", GatewaySettings(insecure_no_auth=True)),
        ("worker", WorkerSettings()),
        ("serve", ServeSettings()),
    ],
)
def test_defaults_in_help_are_those_of_the_settings(command: str, settings: BaseModel) -> None:
    compared = 0
    for name, text in told(command).items():
        if command == "worker" and name in OF_THE_MODEL:
            continue
        value = getattr(settings, KEYS.get(name, name))
        if isinstance(value, tuple):
            (value,) = value
        if value is None and text not in OTHERWISE:
            continue  # told in words: what stands behind it is worked out at the start
        assert str(OTHERWISE.get(text, text)) == (f"{value:g}" if _is_number(value) else str(value))
        compared += 1
    assert compared >= 4


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def test_defaults_of_the_workers_model_are_those_of_the_settings() -> None:
    (model,) = WorkerSettings().models
    shown = told("worker")
    assert shown["model"] == model.model
    assert shown["version"] == model.version
    assert shown["runtime"] == model.runtime.kind
    assert shown["speed"] == f"{model.speed:g}"
