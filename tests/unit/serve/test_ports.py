import socket

import pytest

from headway.errors import StartupError
from headway.serve.ports import check_ports
from headway.serve.settings import ServeSettings

FREE = {"port": 0, "control_port": 0, "http_port": 0}


@pytest.mark.parametrize(
    ("key", "option", "variable"),
    [
        ("port", "--port", "PORT"),
        ("control_port", "--control-port", "CONTROL_PORT"),
        ("http_port", "--http-port", "HTTP_PORT"),
    ],
)
def test_a_taken_port_is_named_with_its_option(key: str, option: str, variable: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartupError) as caught:
            check_ports(ServeSettings.model_validate({**FREE, key: port}))
    assert str(caught.value) == (
        f"port {port} is taken by another process; choose another with {option} "
        f"(make serve {variable}=...), or 0 for any free one"
    )


def test_a_port_that_others_share_is_taken_too() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        settings = ServeSettings.model_validate({**FREE, "port": taken.getsockname()[1]})
        with pytest.raises(StartupError, match="is taken by another process"):
            check_ports(settings)


def test_one_port_for_two_uses_is_refused() -> None:
    settings = ServeSettings(port=6000, control_port=0, http_port=6000)
    with pytest.raises(StartupError, match="--port and --http-port are both 6000; choose two"):
        check_ports(settings)


def test_an_address_of_another_machine_is_told() -> None:
    settings = ServeSettings(host="192.0.2.1", port=0, control_port=0, http_port=0)
    with pytest.raises(StartupError, match=r"cannot listen on 192\.0\.2\.1:0 \(--port\): "):
        check_ports(settings)


def test_free_ports_pass() -> None:
    check_ports(ServeSettings.model_validate(FREE))
