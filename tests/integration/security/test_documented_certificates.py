"""The commands in docs/security.md make certificates with which a fleet runs, mTLS and all."""

import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from tests.support.certificates import Files
from tests.support.fleet import running_gateway, running_worker, text_request

from headway.client import Client, ClientTls, ControlClient

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
FLEET = "fleet.headway.internal"


def documented_commands() -> str:
    (commands,) = (
        block.partition("```")[0]
        for block in DOCUMENT.read_text().split("```sh\n")[1:]
        if block.startswith("ec=")
    )
    return commands


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_a_fleet_runs_on_what_the_documented_commands_make(tmp_path: Path) -> None:
    subprocess.run(
        ["sh", "-ec", documented_commands()], cwd=tmp_path, check=True, capture_output=True
    )
    ca_file = tmp_path / "ca.pem"
    gateway, worker, ops = (
        Files(tmp_path / f"{name}.pem", tmp_path / f"{name}.key", ca_file)
        for name in ("gateway", "worker", "ops")
    )
    ours = gateway.settings(client_certs=["control"], fleet_name=FLEET)
    theirs = worker.settings(client_certs=["worker"], fleet_name=FLEET)
    trusted = grpc.ssl_channel_credentials(ca_file.read_bytes())
    async with (
        running_gateway(tls=ours, credentials=trusted) as running,
        running_worker(running, wait=False, tls=theirs),
    ):
        await running.until_serving()
        async with Client(running.addresses["data"], tls=ClientTls(ca_file)) as client:
            assert (await client.infer(text_request(), timeout_s=30)).replica == "w1"
        shown = ClientTls(ca_file, ops.cert_file, ops.key_file)
        async with ControlClient(running.addresses["control"], tls=shown) as control:
            assert [each.worker_id for each in (await control.state()).replicas] == ["w1"]
