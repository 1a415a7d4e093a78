"""A worker as a process of its own: signals, exit codes, what it prints."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tests.integration.worker.peers import (
    Gateway,
    running_fleet,
    running_worker,
    session,
    text_item,
)

pytestmark = pytest.mark.e2e

SERVICE = Path(__file__).parents[3] / "services" / "worker"
SLOW = '{ kind = "simulated", intercept_ms = 400, jitter_ratio = 0 }'
HANGING = '{ kind = "simulated", failures = { hang = 1 } }'


class Process:
    """A running worker and what it logs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def logged(self, message: str) -> dict[str, object]:
        """The next log line with this message."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(line.decode())
            with contextlib.suppress(json.JSONDecodeError):
                entry: dict[str, object] = json.loads(line)
                if str(entry["message"]).startswith(message):
                    return entry
        raise AssertionError(f"it ended without logging {message!r}: {self.lines}")

    async def ended(self) -> tuple[int, str]:
        """Exit code and the rest of standard error."""
        _, rest = await self.process.communicate()
        return self.process.returncode or 0, "".join(self.lines) + rest.decode()


@contextlib.asynccontextmanager
async def running(config: Path) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVICE), str(config), stderr=asyncio.subprocess.PIPE
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def write_config(
    directory: Path, *, runtime: str = SLOW, gateways: tuple[str, ...] = (), extra: str = ""
) -> Path:
    path = directory / "worker.toml"
    path.write_text(
        f"""
        [worker]
        worker_id = "w1"
        gateways = {list(gateways)}
        {extra}
        [[worker.models]]
        model = "sim"
        runtime = {runtime}
        """
    )
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_batch_in_hand_is_finished_before_the_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    # Known fault 53.
    async with running_fleet() as fleet:
        config = write_config(tmp_path, gateways=(fleet.address,))
        async with running(config) as worker:
            address = str((await worker.logged("ready"))["worker"])
            await fleet.registered.get()
            async with session(address) as gateway:
                await gateway.execute(1, [text_item(1, "a"), text_item(2, "b")])
                # In order on the stream: once this one is turned away, the first is in hand.
                await gateway.execute(2, [text_item(3, "c")])
                assert (await gateway.read()).busy.batch_id == 2
                worker.process.send_signal(number)
                assert (await gateway.read()).capacity.draining
                result = await gateway.result()
                assert [item.status for item in result.items] == [1, 1]
                assert await gateway.call.read() is grpc.aio.EOF
                assert await gateway.call.code() == grpc.StatusCode.OK
            assert await fleet.deregistered.get() == "lease-1"
            assert (await worker.ended())[0] == 0


async def test_an_idle_connection_does_not_hold_it(tmp_path: Path) -> None:
    async with running(write_config(tmp_path)) as worker:
        address = str((await worker.logged("ready"))["worker"])
        async with session(address):
            worker.process.terminate()
            assert (await worker.ended())[0] == 0


async def hang(gateway: Gateway) -> None:
    """Gives a worker that hangs a batch; it has it once it turns the next away."""
    await gateway.execute(1, [text_item(1, "a")])
    await gateway.execute(2, [text_item(2, "b")])
    assert (await gateway.read()).HasField("busy")


async def test_a_hanging_batch_is_given_up_after_the_drain_time(tmp_path: Path) -> None:
    config = write_config(tmp_path, runtime=HANGING, extra="drain_seconds = 0.2")
    async with running(config) as worker:
        address = str((await worker.logged("ready"))["worker"])
        async with session(address) as gateway:
            await hang(gateway)
            worker.process.terminate()
            code, log = await worker.ended()
        assert code == 0
        assert "not finished within the drain time: 1 batches" in log


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with running(write_config(tmp_path, runtime=HANGING)) as worker:
        address = str((await worker.logged("ready"))["worker"])
        async with session(address) as gateway:
            await hang(gateway)
            worker.process.terminate()
            await worker.logged("SIGTERM: draining")
            worker.process.terminate()
            assert (await worker.ended())[0] == 128 + signal.SIGTERM


async def test_a_taken_port_ends_it_with_69(tmp_path: Path) -> None:
    async with running_worker() as other:
        port = other.addresses["worker"].rpartition(":")[2]
        async with running(write_config(tmp_path, extra=f"port = {port}")) as worker:
            code, log = await worker.ended()
    assert code == 69
    assert f"headway worker: cannot listen on 127.0.0.1:{port}" in log


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        pytest.param("prot = 1", "did you mean worker.port", id="an unknown key"),
        pytest.param('host = "0.0.0.0"', "fleet_token is not set", id="open to others"),
    ],
)
async def test_bad_configuration_ends_it_with_64(tmp_path: Path, extra: str, part: str) -> None:
    async with running(write_config(tmp_path, extra=extra)) as worker:
        code, log = await worker.ended()
    assert code == 64
    assert part in log


async def test_a_missing_model_ends_it_with_69(tmp_path: Path) -> None:
    runtime = f'{{ kind = "onnx", path = "{tmp_path}" }}'
    async with running(write_config(tmp_path, runtime=runtime)) as worker:
        code, log = await worker.ended()
    assert code == 69
    assert "model.onnx does not exist" in log


async def test_what_the_image_ships_is_valid() -> None:
    async with running(SERVICE / "worker.toml") as worker:
        assert (await worker.logged("loaded"))["message"] == "loaded minilm/v1"
        await worker.logged("ready")
        worker.process.terminate()
        assert (await worker.ended())[0] == 0
