"""Standard error of a service is what its documentation says, strangers on its ports or not."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.certificates import Authority

ROOT = Path(__file__).parents[2]
WAYS = {
    "headway": [sys.executable, "-m", "headway", "gateway", "--config"],
    "service": [sys.executable, str(ROOT / "services" / "gateway")],
}


@pytest.mark.e2e
@pytest.mark.parametrize("way", WAYS)
def test_every_line_is_json_though_handshakes_fail(way: str, tmp_path: Path) -> None:
    files = Authority(tmp_path / "pki").issue("gateway")
    config, addresses = tmp_path / "gateway.toml", tmp_path / "addresses.json"
    config.write_text(
        "[gateway]\nport = 0\ncontrol_port = 0\nhttp_port = 0\ninsecure_no_auth = true\n"
        f'address_file = "{addresses}"\n[gateway.store]\nurl = "sqlite://"\n'
        f'[gateway.tls]\ncert_file = "{files.cert_file}"\nkey_file = "{files.key_file}"\n'
    )
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with subprocess.Popen(
        [*WAYS[way], str(config)], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stderr is not None
            lines = []
            while not addresses.exists():
                assert process.poll() is None
            for name in ("data", "control"):
                host, port = json.loads(addresses.read_text())[name].rsplit(":", 1)
                with socket.create_connection((host, int(port)), timeout=30) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    while stranger.recv(4096):
                        pass
        finally:
            process.terminate()
            lines += process.stderr.readlines() if process.stderr else []
    assert process.returncode == 0
    messages = [json.loads(line)["message"] for line in lines]
    assert "gateway started" in messages
