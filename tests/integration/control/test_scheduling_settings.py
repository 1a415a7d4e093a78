"""What the configuration says of scheduling: in force at the start, per model, and reloaded."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fleet import (
    RunningGateway,
    running_gateway,
    running_worker,
    text_request,
    until_executing,
    until_live,
)

from headway.config import load_gateway, read_layers
from headway.errors import ConfigError
from headway.gateway.settings import GatewaySettings
from headway.v1 import types_pb2

OPEN = '[gateway]\ninsecure_no_auth = true\nstore = { url = "sqlite://" }\n'
PORTS = {"gateway.port": 0, "gateway.control_port": 0, "gateway.http_port": 0}


def load(file: Path) -> GatewaySettings:
    return load_gateway(read_layers(file, PORTS))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[gateway.scheduling]\nalpha = 1.5\n",
            "gateway.scheduling.alpha = 1.5: must be less than or equal to 1",
        ),
        (
            "[gateway.scheduling]\nlarge_share = 0.6\n",
            "gateway.scheduling.large_share = 0.6: must be less than or equal to 0.5",
        ),
        (
            "[gateway.scheduling.priority_weights]\nsheddable = 2\n",
            "critical 64, standard 1 and sheddable 2 must not rise from class to class",
        ),
        (
            "[gateway.models.sim.scheduling]\nalhpa = 0.5\n",
            "gateway.models.sim.scheduling.alhpa: unknown key; did you mean "
            "gateway.models.sim.scheduling.alpha?",
        ),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(OPEN + text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert message in str(caught.value)


def test_a_models_own_settings_win_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(
        OPEN + "[gateway.scheduling]\nalpha = 0.25\nlarge_share = 0.1\n"
        "[gateway.models.sim.scheduling]\nalpha = 0.6\n"
    )
    settings = load(file)
    own = settings.scheduling.with_model(settings.models["sim"].scheduling)
    assert (own.alpha, own.large_share, own.bulk_share, own.shed_early) == (0.6, 0.1, 0.05, True)


async def order_of_answers(running: RunningGateway) -> list[str]:
    """A long critical and a short sheddable request, queued behind a running one."""
    first = running.inference.Infer(text_request("x"), timeout=60)
    await until_executing(running)
    done: list[str] = []
    calls = []
    for name, text, priority in (
        ("critical", "x" * 4000, types_pb2.PRIORITY_CRITICAL),
        ("sheddable", "x" * 400, types_pb2.PRIORITY_SHEDDABLE),
    ):
        call = running.inference.Infer(text_request(text, priority=priority), timeout=60)
        call.add_done_callback(lambda _, name=name: done.append(name))
        calls.append(call)
    await until_live(running, 3)
    await asyncio.gather(first, *calls)
    return done


async def test_a_reload_changes_who_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(OPEN)
    # Time enough for all three to be there, on a busy machine too.
    slow = {"intercept_ms": 1000, "slope_ms_per_unit": 0.01, "max_requests": 1}
    async with (
        running_gateway(lambda: load(file)) as running,
        running_worker(running, runtime=slow),
    ):
        assert await order_of_answers(running) == ["critical", "sheddable"]
        file.write_text(
            OPEN + "[gateway.models.sim.scheduling]\nalpha = 0\n"
            "priority_weights = { critical = 1, standard = 1, sheddable = 1 }\n"
        )
        said = running.gateway.reloader.reload()
        assert not any("scheduling" in change for change in said.needs_restart)
        assert "gateway.models.sim.scheduling.alpha: unset -> 0" in said.changes
        assert await order_of_answers(running) == ["sheddable", "critical"]
