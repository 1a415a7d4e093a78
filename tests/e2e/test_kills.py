"""Processes that die under load: the fleet comes back by itself, and no call hangs."""

import asyncio
import contextlib
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.fleet import refusal
from tests.support.processes import FleetProcesses, fleet_processes, infer, until_serving

from headway.v1 import control_pb2, control_pb2_grpc, inference_pb2

pytestmark = pytest.mark.e2e

SLOW = "intercept_ms = 20\nslope_ms_per_unit = 0"
SLOWER = "intercept_ms = 700\nslope_ms_per_unit = 0"
RETRYABLE = {grpc.StatusCode.UNAVAILABLE}


class Load:
    """Clients that send one request after the other until told to stop."""

    def __init__(self, fleet: FleetProcesses, clients: int = 16, timeout: float = 10) -> None:
        self.outcomes: list[Any] = []
        self._stopped = False
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{fleet.ports['data']}")
        self._timeout = timeout
        self._tasks = [asyncio.ensure_future(self._client()) for _ in range(clients)]

    async def until_answered(self, count: int) -> None:
        """Returns once `count` more requests were answered well."""
        wanted = self.num_answered() + count
        while self.num_answered() < wanted:
            await asyncio.wait(self._tasks, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()

    def num_answered(self) -> int:
        return sum(isinstance(o, inference_pb2.InferResponse) for o in self.outcomes)

    async def stop(self) -> Counter[str]:
        """Lets each client end its call; returns how calls ended."""
        self._stopped = True
        await asyncio.gather(*self._tasks)
        await self._channel.close()
        return Counter(
            "ok" if isinstance(o, inference_pb2.InferResponse) else o.code().name
            for o in self.outcomes
        )

    async def _client(self) -> None:
        while not self._stopped:
            outcome = await infer(self._channel, timeout=self._timeout)
            self.outcomes.append(outcome)
            if not isinstance(outcome, inference_pb2.InferResponse):
                assert outcome.code() in RETRYABLE, outcome
                # Come back when the gateway is there again, as a client with retries would.
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._channel.channel_ready(), 5)


@pytest.mark.parametrize("transport", ["native", "grpcio"])
async def test_killing_a_worker_under_load_loses_no_request(tmp_path: Path, transport: str) -> None:
    async with fleet_processes(tmp_path, "w2", "w3", transport=transport, runtime=SLOW) as fleet:
        # Slow enough that it still has the batch in hand when the signal comes.
        fleet.start_worker("w1", SLOWER)
        load = Load(fleet)
        await until_executing_on(fleet, "w1")
        fleet.kill("w1")
        await load.until_answered(100)
        fleet.start_worker("w1", SLOW)
        while "w1" not in {o.replica for o in load.outcomes[-50:] if hasattr(o, "replica")}:
            await load.until_answered(20)
        ended = await load.stop()
        assert set(ended) == {"ok"}, ended
        assert any(o.attempts > 1 for o in load.outcomes), "the kill met no batch"


async def until_executing_on(fleet: FleetProcesses, worker_id: str) -> None:
    """Returns when a worker has a batch in hand."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{fleet.ports['control']}") as channel:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        while True:
            listed = await stub.ListReplicas(control_pb2.ListReplicasRequest(), timeout=10)
            if any(
                replica.worker_id == worker_id and replica.outstanding_batches
                for replica in listed.replicas
            ):
                return


async def test_killing_the_only_worker_ends_calls_and_its_return_serves_again(
    tmp_path: Path,
) -> None:
    async with fleet_processes(tmp_path, "w1", runtime=SLOW) as fleet:
        load = Load(fleet, clients=8, timeout=3)
        await load.until_answered(20)
        fleet.kill("w1")
        fleet.start_worker("w1", SLOW)
        await load.until_answered(20)
        ended = await load.stop()
        assert set(ended) <= {"ok", "UNAVAILABLE"}, ended


@pytest.mark.parametrize("transport", ["native", "grpcio"])
async def test_killing_and_restarting_the_gateway_brings_the_fleet_back(
    tmp_path: Path, transport: str
) -> None:
    # Known fault 33: workers register again by themselves.
    async with fleet_processes(tmp_path, "w1", "w2", transport=transport, runtime=SLOW) as fleet:
        load = Load(fleet, clients=8)
        await load.until_answered(20)
        fleet.kill("gateway")
        await asyncio.to_thread(fleet.start_gateway)
        await until_serving(fleet)
        await load.until_answered(20)
        ended = await load.stop()
        assert set(ended) <= {"ok", "UNAVAILABLE"}, ended
        assert ended["ok"] >= 40


async def test_a_worker_that_drains_loses_nothing(tmp_path: Path) -> None:
    async with fleet_processes(tmp_path, "w1", "w2", runtime=SLOW) as fleet:
        load = Load(fleet)
        # Both are there: one to drain, one to take over.
        for worker in ("w1", "w2"):
            await until_executing_on(fleet, worker)
        assert await asyncio.to_thread(fleet.kill, "w1", signal.SIGTERM) == 0
        await load.until_answered(30)
        ended = await load.stop()
        assert set(ended) == {"ok"}, ended


async def test_a_gateway_that_drains_answers_what_it_has(tmp_path: Path) -> None:
    # Known fault 53.
    runtime = "intercept_ms = 400\nslope_ms_per_unit = 0"
    async with fleet_processes(tmp_path, "w1", runtime=runtime) as fleet:
        with fleet.channel() as channel:
            calls = [asyncio.ensure_future(infer(channel)) for _ in range(8)]
            assert isinstance(await calls[0], inference_pb2.InferResponse)
            more = [asyncio.ensure_future(infer(channel)) for _ in range(8)]
            while fleet_inflight(fleet) < 8:
                await asyncio.wait(more, timeout=0.01)
            code = await asyncio.to_thread(fleet.kill, "gateway", signal.SIGTERM)
            ended = await asyncio.gather(*calls, *more)
            assert code == 0
            kinds = Counter(
                "ok" if isinstance(o, inference_pb2.InferResponse) else refusal(o).reason
                for o in ended
            )
            assert kinds == {"ok": 16}


def fleet_inflight(fleet: FleetProcesses) -> int:
    import urllib.request

    url = f"http://127.0.0.1:{fleet.ports['http']}/metrics"
    with urllib.request.urlopen(url, timeout=5) as response:
        body = response.read().decode()
    (line,) = (each for each in body.splitlines() if each.startswith("headway_inflight_requests "))
    return int(float(line.split()[1]))


async def test_a_taken_port_is_named_with_the_way_out(tmp_path: Path) -> None:
    import socket
    import subprocess
    import sys

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "headway", "gateway", f"--port={port}", "--control-port=0",
             "--http-port=0", "--insecure-no-auth"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
        )  # fmt: skip
        assert ended.returncode == 69
        assert f"127.0.0.1:{port}" in ended.stderr
        assert "--port" in ended.stderr
