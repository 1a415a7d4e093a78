import hashlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.apikey import new_key
from headway.cli.app import app
from headway.config import load_gateway, read_layers

KEY = re.compile(r"hw_([0-9A-Za-z]{8})_[0-9A-Za-z]{43}")


def test_keys_have_the_documented_form_and_never_repeat() -> None:
    keys = [new_key() for _ in range(200)]
    for key, key_id in keys:
        match = KEY.fullmatch(key)
        assert match is not None
        assert match[1] == key_id
    assert len({key for key, _ in keys}) == 200


def test_the_printed_lines_are_configuration_that_knows_the_key(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["key", "new", "--tenant", "acme", "--role", "operator"])
    assert result.exit_code == 0
    shown, lines = result.stdout.split("For the gateway's configuration:")
    match = KEY.search(shown)
    assert match is not None
    assert match[0] not in lines
    file = tmp_path / "headway.toml"
    file.write_text("[gateway]\nfleet_token = 'x'\n" + lines)
    (key,) = load_gateway(read_layers(file)).tenants["acme"].keys
    assert key.key_id == match[1]
    assert key.sha256 == hashlib.sha256(match[0].encode()).hexdigest()
    assert key.role == "operator"


def test_the_key_as_json() -> None:
    result = CliRunner().invoke(app, ["key", "new", "--tenant", "acme", "--json"])
    made = json.loads(result.stdout)
    assert sorted(made) == ["key", "key_id", "role", "sha256"]
    assert made["sha256"] == hashlib.sha256(made["key"].encode()).hexdigest()
    assert made["role"] == "none"


def test_a_dotted_tenant_is_quoted(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["key", "new", "--tenant", "acme.example"])
    file = tmp_path / "headway.toml"
    lines = result.stdout.split("For the gateway's configuration:")[1]
    file.write_text("[gateway]\nfleet_token = 'x'\n" + lines)
    assert list(load_gateway(read_layers(file)).tenants) == ["acme.example"]


@pytest.mark.parametrize("tenant", ["", "Acme", "-acme", "a" * 65, 'a"b'])
def test_a_name_that_is_none_is_refused(tenant: str) -> None:
    result = CliRunner().invoke(app, ["key", "new", "--tenant", tenant])
    assert result.exit_code == 2
    assert "is not a name: lower-case letters, digits" in result.stderr
