from pathlib import Path

import pytest

from headway.config import load_gateway, load_serve, load_worker, read_layers
from headway.config.layers import leaves
from headway.errors import ConfigError

OPEN = "[gateway]\ninsecure_no_auth = true\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "headway.toml"


def test_later_sources_win_over_earlier_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(OPEN + "port = 1\ncontrol_port = 2\nhttp_port = 3\n")
    monkeypatch.setenv("HEADWAY_GATEWAY__CONTROL_PORT", "20")
    monkeypatch.setenv("HEADWAY_GATEWAY__HTTP_PORT", "30")
    settings = load_gateway(read_layers(file, {"gateway.http_port": 300, "gateway.host": None}))
    assert (settings.port, settings.control_port, settings.http_port) == (1, 20, 300)
    assert settings.host == "127.0.0.1"


def test_tables_merge_over_sources_and_lists_are_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(
        OPEN
        + "[gateway.models.minilm]\nmax_queued_requests = 7\n"
        + '[[serve.replicas]]\nname = "one"\n[[serve.replicas]]\nname = "two"\n'
    )
    monkeypatch.setenv("HEADWAY_GATEWAY__MODELS__MINILM__SPLIT", '{"v1": 0.9, "v2": 0.1}')
    monkeypatch.setenv("HEADWAY_SERVE__REPLICAS", '[{"name": "three"}]')
    model = load_gateway(read_layers(file)).models["minilm"]
    assert (model.max_queued_requests, model.split) == (7, {"v1": 0.9, "v2": 0.1})
    assert [replica.name for replica in load_serve(read_layers(file)).fleet] == ["three"]


def test_another_kind_of_policy_replaces_the_whole_table(file: Path) -> None:
    file.write_text(
        '[[worker.models]]\nmodel = "m"\nruntime = { kind = "onnx", intra_op_threads = 2 }\n'
    )
    merged = read_layers(
        file, {"worker.models": [{"model": "m", "runtime": {"kind": "simulated"}}]}
    ).merged()
    assert merged["worker"]["models"][0]["runtime"] == {"kind": "simulated"}


def test_only_the_wanted_section_is_judged(file: Path) -> None:
    file.write_text("[gateway]\nport = 1\n\n[serve]\nport = 7\n")
    assert load_serve(read_layers(file)).port == 7
    with pytest.raises(ConfigError, match="fleet_token is not set"):
        load_gateway(read_layers(file))


def test_a_variable_without_the_delimiter_is_not_a_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWAY_GATEWAY_PORT", "tcp://10.0.0.1:50051")
    monkeypatch.setenv("HEADWAY_PORT_50051_TCP", "tcp://10.0.0.1:50051")
    assert load_gateway(read_layers(None, {"gateway.insecure_no_auth": True})).port == 50051


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gateway = [", "{file}: is not valid TOML: Invalid value (at end of document)"),
        (
            "[gateway]\ninsecure_no_auth = true\nprot = 1\n",
            "{file}: gateway.prot: unknown key; did you mean gateway.port?",
        ),
        (
            "[gatewai]\nport = 1\n",
            "{file}: gatewai: unknown key; did you mean gateway?",
        ),
        (
            OPEN + "port = 99999\n",
            "{file}: gateway.port = 99999: must be less than or equal to 65535 "
            "(Data port: InferenceService. 0: any free one.)",
        ),
        (
            OPEN + 'transport = "carrier-pigeon"\n',
            "{file}: gateway.transport = 'carrier-pigeon': must be 'native' or 'grpcio'",
        ),
        (
            OPEN + '[gateway.tenants.acme]\nkeys = [{ key_id = "abc", sha256 = "" }]\n',
            "{file}: gateway.tenants.acme.keys[0].key_id = 'abc': String should match pattern "
            "'^[0-9A-Za-z]{{8}}$' (The 8 characters between hw_ and the second underscore of the "
            "key.)",
        ),
        (
            OPEN + "[gateway.tenants.acme]\nunits_per_sec = 5\n",
            "{file}: gateway.tenants.acme.units_per_sec: unknown key; did you mean "
            "gateway.tenants.acme.units_per_second?",
        ),
        (
            OPEN + "[gateway.models.minilm]\nsplit = { v1 = 0.5 }\n",
            "{file}: gateway.models.minilm.split: shares add up to 0.5; they must add up to 1",
        ),
        ("[gateway]\n", "{file}: gateway: fleet_token is not set"),
    ],
)
def test_every_error_names_file_key_value_and_what_is_allowed(
    file: Path, text: str, message: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_gateway(read_layers(file))
    assert message.format(file=file) in str(caught.value)


def test_every_error_is_told_at_once(file: Path) -> None:
    file.write_text(OPEN + "prot = 1\nport = -1\nlog_level = 'loud'\n")
    with pytest.raises(ConfigError) as caught:
        load_gateway(read_layers(file))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "HEADWAY_GATEWAY__PORT",
            "many",
            "HEADWAY_GATEWAY__PORT: gateway.port = 'many': must be a valid integer",
        ),
        (
            "HEADWAY_GATEWAY__PROT",
            "1",
            "HEADWAY_GATEWAY__PROT: gateway.prot: unknown key; did you mean gateway.port?",
        ),
        (
            "HEADWAY_GATWAY__PORT",
            "1",
            "HEADWAY_GATWAY: gatway: unknown key; did you mean gateway?",
        ),
        (
            "HEADWAY_GATEWAY__MODELS",
            "{not json",
            "HEADWAY_GATEWAY__MODELS: gateway.models = '{not json': must be a valid dictionary",
        ),
    ],
)
def test_errors_in_the_environment_name_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as caught:
        load_gateway(read_layers(None, {"gateway.insecure_no_auth": True}))
    assert message in str(caught.value)


def test_errors_in_flags_name_the_option() -> None:
    with pytest.raises(ConfigError, match=r"^--http-port: gateway\.http_port = 70000: must be"):
        load_gateway(
            read_layers(None, {"gateway.insecure_no_auth": True, "gateway.http_port": 70000})
        )


def test_a_secret_is_not_shown_in_an_error(file: Path) -> None:
    file.write_text("[gateway]\nfleet_token = 12345\n")
    with pytest.raises(ConfigError) as caught:
        load_gateway(read_layers(file))
    assert f"{file}: gateway.fleet_token = ***: must be a valid string" in str(caught.value)
    assert "12345" not in str(caught.value)


def test_an_option_with_a_name_of_its_own_is_named_in_errors() -> None:
    layers = read_layers(None, {"worker.worker_id": "No!"}, {"worker.worker_id": "--id"})
    with pytest.raises(ConfigError, match=r"^--id: worker\.worker_id = 'No!': String should"):
        load_worker(layers)


def test_an_unknown_key_in_a_discriminated_table_is_named_as_in_the_file(file: Path) -> None:
    file.write_text(
        '[[worker.models]]\nmodel = "m"\nruntime = { kind = "simulated", intercept = 5 }\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_worker(read_layers(file))
    assert str(caught.value) == (
        f"{file}: worker.models[0].runtime.intercept: unknown key; "
        "did you mean worker.models[0].runtime.intercept_ms?"
    )


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: cannot be read: No such file"):
        load_gateway(read_layers(tmp_path / "nothing.toml"))


def test_origins_are_told_apart(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[gateway]\nport = 1\nhttp_port = 2\n")
    monkeypatch.setenv("HEADWAY_GATEWAY__HTTP_PORT", "3")
    layers = read_layers(file, {"gateway.host": "::1"})
    found = {
        ".".join(map(str, path)): layer.kind
        for path, _ in leaves(layers.merged())
        if (layer := layers.origin(path)) is not None
    }
    assert found == {"gateway.port": "file", "gateway.http_port": "env", "gateway.host": "flag"}
    assert layers.origin(("gateway", "control_port")) is None
