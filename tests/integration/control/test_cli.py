"""What operators type, against a live gateway: tables, JSON, errors, completion."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.fleet import running_worker
from tests.support.operating import ADMIN, FLEET_TOKEN, VIEWER, closed_gateway
from typer.testing import CliRunner, Result

from headway.cli.app import app

Run = Callable[..., Any]


@pytest.fixture
async def run(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Run]:
    """Runs a command against a gateway with one worker, as its admin."""
    async with (
        closed_gateway() as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
    ):
        await running.until_serving()
        environment = {
            "HEADWAY_CONTROL_ADDRESS": running.addresses["control"],
            "HEADWAY_API_KEY": ADMIN,
            "COLUMNS": "160",
        }

        async def invoke(*arguments: str, **more: str) -> Result:
            return await asyncio.to_thread(
                CliRunner().invoke, app, list(arguments), env={**environment, **more}
            )

        yield invoke


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


async def test_tenants_from_the_command_line(run: Run) -> None:
    await run("tenant", "create", "globex", "--max-priority", "sheddable", "--model", "sim")
    await run("tenant", "update", "globex", "--weight", "3", "--disable")
    listed = rows(await run("tenant", "list"))
    assert listed[1][:4] == ["acme", "1000/s", "-", "1"]
    assert listed[2] == [
        "globex", "no", "limit", "-", "3", "sheddable", "sim", "disabled", "operator",
    ]  # fmt: skip
    await run("tenant", "update", "globex", "--enable", "--all-models")
    assert rows(await run("quota", "show", "globex"))[1][-2:] == ["all", "operator"]
    assert rows(await run("quota", "set", "globex", "--units-per-second", "5"))[1][1] == "5/s"
    assert rows(await run("quota", "set", "globex", "--unlimited"))[1][1:3] == ["no", "limit"]
    assert "are gone" in (await run("tenant", "delete", "globex")).stdout
    assert len(rows(await run("tenant", "list"))) == 3


async def test_keys_from_the_command_line(run: Run) -> None:
    made = json.loads((await run("key", "create", "acme", "--json", "--role", "viewer")).stdout)
    key_id = made["key"]["key_id"]
    listed = {row[0]: row for row in rows(await run("key", "list", "--tenant", "acme"))}
    assert listed[key_id][1:3] == ["acme", "viewer"]
    assert listed["CallerKy"][1:5] == ["acme", "none", "configuration", "never"]
    assert "ends in 15m" in (await run("key", "rotate", key_id, "--overlap", "15m")).stdout
    assert f"{key_id} is revoked" in (await run("key", "revoke", key_id)).stdout
    listed = {row[0]: row for row in rows(await run("key", "list"))}
    assert "revoked" in listed[key_id]


async def test_state_as_json_has_the_names_of_the_protos(run: Run) -> None:
    state = json.loads((await run("status", "--json")).stdout)
    assert state["gateway"]["config_generation"] == "1"
    assert state["replicas"][0]["condition"] == "REPLICA_CONDITION_READY"
    replicas = json.loads((await run("replicas", "list", "--json")).stdout)
    assert [replica["worker_id"] for replica in replicas] == ["w1"]
    split = json.loads((await run("split", "show", "sim", "--json")).stdout)
    assert split["shares"] == [{"version": "v1", "share": 1.0}]


ERRORS: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
    (("tenant", "create", "globex"), {"HEADWAY_API_KEY": VIEWER}, 1, "PERMISSION_DENIED"),
    (("status",), {"HEADWAY_API_KEY": ""}, 1, "UNAUTHENTICATED"),
    (("explain", "nothing"), {}, 1, "NOT_FOUND"),
    (("split", "set", "sim", "v1=0.5"), {}, 1, "INVALID_REQUEST"),
    (("split", "set", "sim", "v1=x"), {}, 2, "'v1=x' is not a share"),
    (("quota", "set", "acme"), {}, 2, "or --unlimited"),
    (("quota", "show", "nobody"), {}, 1, "no tenant 'nobody'"),
    (("key", "create", "acme", "--valid-for", "soon"), {}, 2, "'soon' is not a time"),
    (("status",), {"HEADWAY_CONTROL_ADDRESS": "127.0.0.1:1"}, 69, "no gateway answers"),
]


@pytest.mark.parametrize(("arguments", "environment", "code", "text"), ERRORS)
async def test_errors_say_why_and_leave_with_a_code(
    run: Run, arguments: tuple[str, ...], environment: dict[str, str], code: int, text: str
) -> None:
    result = await run(*arguments, **environment)
    assert (result.exit_code, text in result.output) == (code, True), result.output


async def test_errors_as_json(run: Run) -> None:
    result = await run("explain", "nothing", "--json")
    assert json.loads(result.stdout)["error"]["reason"] == "NOT_FOUND"
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("headway replicas dr", ["drain"]),
        ("headway replicas drain w", ["w1"]),
        ("headway split set s", ["sim"]),
        ("headway tenant update ", ["acme", "ops"]),
        ("headway key revoke C", ["CallerKy"]),
    ],
)
async def test_the_shell_completes_what_the_gateway_knows(
    run: Run, words: str, expected: list[str]
) -> None:
    shell = {
        "_HEADWAY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    result = await run(**shell)
    assert result.stdout.split() == expected


async def test_completion_without_a_gateway_is_silent() -> None:
    environment = {
        **os.environ,
        "HEADWAY_CONTROL_ADDRESS": "127.0.0.1:1",
        "_HEADWAY_COMPLETE": "complete_bash",
        "COMP_WORDS": "headway replicas drain w",
        "COMP_CWORD": "3",
    }
    result = await asyncio.to_thread(CliRunner().invoke, app, [], env=environment)
    assert (result.stdout.strip(), result.exit_code) == ("", 0)
