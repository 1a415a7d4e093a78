"""What the configuration says of scheduling: in force at the start, per model, and reloaded."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fleet import RunningGateway, ms, text_request, until_live
from tests.support.scripted import ScriptedWorker, scripted

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


async def order_of_work(running: RunningGateway, worker: ScriptedWorker) -> list[str]:
    """A large critical and a small, sooner sheddable request, queued behind a running one."""
    waiting = [
        ("running", 4, types_pb2.PRIORITY_STANDARD, 60_000),
        ("critical", 4000, types_pb2.PRIORITY_CRITICAL, 30_000),
        ("sheddable", 400, types_pb2.PRIORITY_SHEDDABLE, 20_000),
    ]
    calls = []
    for name, length, priority, slo_ms in waiting:
        request = text_request(name.ljust(length), priority=priority, slo=ms(slo_ms))
        calls.append(running.inference.Infer(request, timeout=60))
        await until_live(running, len(calls))
    begun = [await worker.batches.get()]
    for _ in waiting[1:]:
        worker.work(begun[-1])
        begun.append(await worker.batches.get())
    worker.work(begun[-1])
    await asyncio.gather(*calls)
    return [item.input.text.rstrip() for batch in begun for item in batch.items]


async def test_a_reload_changes_who_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "headway.toml"
    file.write_text(OPEN)
    async with scripted(load=lambda: load(file)) as (running, worker):
        assert await order_of_work(running, worker) == ["running", "critical", "sheddable"]
        # Only both together bring the sheddable one forward: by either alone, size or class wins.
        file.write_text(
            OPEN + "[gateway.models.sim.scheduling]\nalpha = 0\n"
            "priority_weights = { critical = 1, standard = 1, sheddable = 1 }\n"
        )
        said = running.gateway.reloader.reload()
        assert not any("scheduling" in change for change in said.needs_restart)
        assert "gateway.models.sim.scheduling.alpha: unset -> 0" in said.changes
        assert await order_of_work(running, worker) == ["running", "sheddable", "critical"]
