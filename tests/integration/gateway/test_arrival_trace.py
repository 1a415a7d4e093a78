"""The arrivals that a live gateway records: complete, without payloads, good for what-ifs."""

import json
from pathlib import Path

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from prometheus_client import generate_latest
from tests.support.fleet import running_gateway, running_worker, text_request
from typer.testing import CliRunner

from headway.cli.lab import lab
from headway.errors import ConfigError
from headway.gateway.settings import GatewaySettings
from headway.telemetry.trace import read_trace
from headway.v1 import types_pb2

SECRET = "the tide turns at noon"


async def record_requests(path: Path, count: int) -> None:
    """Serves `count` requests, refuses one, and stops the gateway."""
    async with (
        running_gateway(arrival_trace={"path": path}) as running,
        running_worker(running),
    ):
        for _ in range(count):
            wanted = text_request(SECRET, slo=Duration(seconds=30))
            await running.inference.Infer(wanted, timeout=60)
        hopeless = text_request(SECRET, slo=Duration(nanos=1))
        with pytest.raises(grpc.aio.AioRpcError):
            await running.inference.Infer(hopeless, timeout=60)


async def test_everything_that_came_is_in_it_once_the_gateway_has_stopped(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    await record_requests(path, 20)
    arrivals = list(read_trace(path))
    outcomes = [arrival.outcome for arrival in arrivals]
    assert outcomes == ["ok"] * 20 + ["DEADLINE_UNREACHABLE"]
    served = next(arrival for arrival in arrivals if arrival.outcome == "ok")
    assert served.model == "sim"
    assert served.rows == 1
    assert served.units > 0
    assert {arrival.deadline_ns for arrival in arrivals[:-1]} == {30_000_000_000}
    assert 0 < served.ended_ns < served.deadline_ns
    assert (served.lane, served.priority) == (
        types_pb2.LANE_INTERACTIVE,
        types_pb2.PRIORITY_STANDARD,
    )


async def test_a_deadline_in_it_is_the_calls_less_the_way_back(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    settings = {"arrival_trace": {"path": path}, "transport_margin_ms": 7}
    async with running_gateway(**settings) as running, running_worker(running):
        # Handed over here: on the wire gRPC rounds what is left up, to 10 ms where it is seconds.
        caller = running.gateway.authenticate(tuple, "Infer")
        await running.gateway.path.infer(text_request(SECRET), caller, 60.0)
    (arrival,) = read_trace(path)
    assert arrival.deadline_ns == 59_993_000_000


async def test_neither_inputs_nor_tenants_are_in_it(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    await record_requests(path, 3)
    text = path.read_text(encoding="ascii")
    assert "tide" not in text
    assert "anonymous" not in text


async def test_it_answers_what_if_questions(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    await record_requests(path, 50)
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(lab, ["replay", str(path), "--set", "traffic=2"])
    assert shown.exit_code == 0
    for text in ("before", "after", "change", "goodput_per_s"):
        assert text in shown.output
    told = runner.invoke(lab, ["replay", str(path), "--set", "traffic=2", "--json"])
    offered = json.loads(told.output)["offered_per_s"]
    assert offered["after"] == pytest.approx(2 * offered["before"])


async def test_it_can_be_turned_on_and_off_while_the_gateway_runs(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.trace"
    wanted: dict[str, object] = {"path": path}

    def load() -> GatewaySettings:
        return GatewaySettings.model_validate(
            {"insecure_no_auth": True, "arrival_trace": dict(wanted)}
        )

    async with running_gateway(load) as running, running_worker(running):
        await running.inference.Infer(text_request(SECRET), timeout=60)
        running.gateway.reloader.reload()
        for _ in range(2):
            await running.inference.Infer(text_request(SECRET), timeout=60)
        wanted["path"] = None
        running.gateway.reloader.reload()
        await running.inference.Infer(text_request(SECRET), timeout=60)
    assert len(list(read_trace(path))) == 2


async def test_a_file_that_cannot_be_written_is_told_before_a_port_is_open(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError, match=r"gateway.arrival_trace.path = .*: cannot be written"):
        async with running_gateway(arrival_trace={"path": blocked / "arrivals.trace"}):
            pass


async def test_a_disk_that_fails_costs_no_request_and_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    settings = {"path": folder / "arrivals.trace", "max_file_bytes": 4096}
    async with running_gateway(arrival_trace=settings) as running, running_worker(running):
        # The next file cannot be begun: a file stands where the folder was.
        folder.rename(tmp_path / "moved")
        folder.write_text("")
        for _ in range(100):
            await running.inference.Infer(text_request(SECRET), timeout=60)
        await running.gateway.recorder.flush()
        text = generate_latest(running.gateway.registry).decode()
    assert "headway_arrival_trace_dropped_total 100.0" in text
