"""No secret is in a log, an error, the audit log, the state or the database."""

import io
import logging
import sqlite3
from pathlib import Path

import pytest
from tests.support.fleet import running_worker, text_request
from tests.support.operating import ADMIN, CALLER, FLEET_TOKEN, caller, closed_gateway, operator

from headway import errors
from headway.telemetry.logging import configure
from headway.v1 import control_pb2


async def test_a_leaked_log_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure(level="debug", stream=log)
    database = tmp_path / "control.db"
    secrets = [ADMIN, CALLER, FLEET_TOKEN]
    wrong = "hw_CallerKy_" + "w" * 43
    shown: list[str] = []
    async with (
        closed_gateway(f"sqlite:///{database}", log_level="debug") as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
        caller(running, CALLER) as client,
        caller(running, wrong) as guesser,
    ):
        await running.until_serving()
        await control.set_log_level("debug")
        key = await control.create_key("acme", role=control_pb2.ROLE_ADMIN)
        rotated = await control.rotate_key(key.key.key_id)
        secrets += [wrong, key.secret, rotated.secret]
        await client.infer(text_request(request_id="mine"), timeout_s=5)
        with pytest.raises(errors.Unauthenticated) as refused:
            await guesser.infer(text_request(), timeout_s=5)
        logging.getLogger("headway.test").warning("presented %s", key.secret)
        shown += [
            str(refused.value),
            str(await control.audit()),
            str(await control.state()),
            str(await control.explain("mine")),
            str(await control.keys()),
        ]
    text = log.getvalue()
    assert "worker joined" in text
    assert f"presented hw_{key.key.key_id}_***" in text
    with sqlite3.connect(database) as connection:
        shown.append("\n".join(connection.iterdump()))
    assert "api_keys" in shown[-1]
    for where in (text, *shown):
        for secret in secrets:
            assert secret.rpartition("_")[2] not in where
    logging.getLogger("headway").setLevel(logging.NOTSET)
