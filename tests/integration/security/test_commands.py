"""The command line over TLS, and what it says of files that cannot be used."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest
from tests.integration.security.test_tls import secure_fleet
from tests.support.certificates import DAY, Authority
from typer.testing import CliRunner

from headway.cli.app import app


async def invoke(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headway", *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_commands_reach_a_gateway_over_tls(authority: Authority) -> None:
    ca = ["--tls-ca", str(authority.ca_file)]
    async with secure_fleet(authority) as running:
        data, control = running.addresses["data"], running.addresses["control"]
        code, said = await invoke("infer", "--address", data, *ca, "--model", "sim", "the tide")
        assert (code, "replica    w1" in said) == (0, True), said
        code, said = await invoke("status", "--address", control, *ca)
        assert (code, "w1/sim/v1" in said) == (0, True), said
        code, said = await invoke("rollout", "list", "--address", control, *ca)
        assert code == 0, said
        code, said = await invoke(
            "loadtest", "--address", data, *ca, "--model", "sim", "--clients", "2",
            "--seconds", "1", "--warmup", "0",
        )  # fmt: skip
        assert code == 0, said


async def test_a_certificate_is_shown_where_one_is_asked_for(authority: Authority) -> None:
    shown = authority.issue("operator")
    async with secure_fleet(authority, client_certs=["control"]) as running:
        reach = ["status", "--address", running.addresses["control"], "--tls-ca",
                 str(authority.ca_file)]  # fmt: skip
        code, _ = await invoke(*reach)
        assert code == 69
        code, said = await invoke(
            *reach, "--tls-cert", str(shown.cert_file), "--tls-key", str(shown.key_file)
        )
        assert code == 0, said


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--tls-ca", None, "--tls-ca: "),
        ("--tls-ca", "rubbish", "holds no PEM certificate"),
        ("--tls-cert", None, "--tls-cert is set without --tls-key"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    option: str, content: str | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    result = CliRunner().invoke(app, ["infer", option, str(file), "the tide"])
    assert result.exit_code == 64
    assert said in result.output


@pytest.mark.parametrize("process", ["gateway", "worker"])
async def test_an_expired_certificate_ends_a_process_with_64(
    process: str, authority: Authority
) -> None:
    old = authority.issue("old", valid_for=-DAY)
    code, said = await invoke(
        process, "--insecure-no-auth", "--tls-cert", str(old.cert_file), "--tls-key",
        str(old.key_file),
    )  # fmt: skip
    assert code == 64
    assert f"{process}.tls.cert_file: the certificate in {old.cert_file} expired" in said


async def test_no_key_is_ever_logged(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with secure_fleet(authority) as running:
            await invoke("infer", "--address", running.addresses["data"], "--model", "sim", "tide")
    assert "PRIVATE KEY" not in caplog.text
    for key_file in authority.ca_file.parent.glob("*.key"):
        for line in key_file.read_text().splitlines()[1:-1]:
            assert line not in caplog.text
