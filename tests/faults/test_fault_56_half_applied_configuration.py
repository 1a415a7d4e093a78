"""Fault 56: a change of configuration needs a restart, or a bad one applies by half."""

import asyncio
import urllib.request
from pathlib import Path

import grpc
import pytest
from tests.support.fleet import RunningGateway, refusal, running_gateway, running_worker

from headway.config import load_gateway, read_layers
from headway.gateway.settings import GatewaySettings
from headway.v1 import control_pb2

GOOD = """
[gateway]
insecure_no_auth = true
port = 0
control_port = 0
http_port = 0
seed = 1
default_deadline_ms = {deadline}
store = {{ url = "sqlite://" }}
[gateway.models.sim]
split = {split}
"""


async def test_fault_56_half_applied_configuration(tmp_path: Path) -> None:
    """A good one is in force without a restart; of a bad one nothing is, and metrics say which."""
    file = tmp_path / "headway.toml"

    def load() -> GatewaySettings:
        return load_gateway(read_layers(file))

    file.write_text(GOOD.format(deadline=5000, split="{ v1 = 1.0 }"))
    async with (
        running_gateway(load, **load().model_dump()) as running,
        running_worker(running, worker_id="w1", version="v1"),
        running_worker(running, worker_id="w2", version="v2"),
    ):
        file.write_text(GOOD.format(deadline=4000, split="{ v2 = 1.0 }"))
        await running.control.ReloadConfig(control_pb2.ReloadConfigRequest(), timeout=5)
        assert await _in_force(running) == ("v2", "2.0", "0.0")
        # The split is good and the deadline is not: neither is taken.
        file.write_text(GOOD.format(deadline=-1, split="{ v1 = 1.0 }"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.control.ReloadConfig(control_pb2.ReloadConfigRequest(), timeout=5)
        assert refusal(caught.value).reason == "FAILED_PRECONDITION"
        assert "gateway.default_deadline_ms = -1" in refusal(caught.value).message
        assert await _in_force(running) == ("v2", "2.0", "1.0")


async def _in_force(running: RunningGateway) -> tuple[str, str, str]:
    """(version that gets the traffic, generation, reloads refused), as others see them."""
    split = await running.control.GetTrafficSplit(
        control_pb2.GetTrafficSplitRequest(model="sim"), timeout=5
    )

    def scrape() -> dict[str, str]:
        url = f"http://{running.addresses['http']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            rows = response.read().decode().splitlines()
        return dict(row.rsplit(" ", 1) for row in rows if not row.startswith("#"))

    metrics = await asyncio.to_thread(scrape)
    (shares,) = [share.version for share in split.split.shares if share.share == 1]
    return (
        shares,
        metrics["headway_config_generation"],
        metrics["headway_config_reloads_refused_total"],
    )
