"""What settings of TLS allow, and what a process tells of its open ports."""

from typing import Any

import pytest
from pydantic import ValidationError

from headway.exposure import OpenPort, exposures
from headway.gateway.settings import GatewaySettings
from headway.worker.settings import WorkerSettings

PAIR = {"cert_file": "c.pem", "key_file": "k.pem"}
OPEN = {"insecure_no_auth": True}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**OPEN, "transport": "native", "tls": PAIR}, r'"native", which has no TLS'),
        ({**OPEN, "tls": {**PAIR, "client_certs": ["data"]}}, "client_certs is set without ca_f"),
        (
            {**OPEN, "tls": {**PAIR, "ports": ["http"], "client_certs": ["data"]}},
            "client_certs names data, which is not in ports",
        ),
        ({"tls": PAIR}, "fleet_token is not set"),
        ({**OPEN, "tls": {"cert_file": "c.pem"}}, "key_file"),
        (
            {**OPEN, "transport": "native", "limits": {"min_ping_interval_seconds": 5}},
            r'"native", which has no limits\.min_ping_interval_seconds; set',
        ),
        ({**OPEN, "max_batch_bytes": 2048}, "the largest request would fit into no batch"),
    ],
)
def test_a_gateway_refuses(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        GatewaySettings(**settings)


def test_certificates_stand_in_for_the_token() -> None:
    proving = {**PAIR, "ca_file": "ca.pem", "fleet_name": "fleet.test"}
    gateway = GatewaySettings(tls={**proving, "client_certs": ["control"]})  # type: ignore[arg-type]
    assert gateway.fleet_token is None
    worker = WorkerSettings(
        host="10.0.0.1",
        tls={**proving, "client_certs": ["worker"]},  # type: ignore[arg-type]
    )
    assert worker.fleet_token is None


def test_native_may_have_tls_beside_the_data_port() -> None:
    tls = {**PAIR, "ports": ["control", "http"]}
    GatewaySettings(insecure_no_auth=True, transport="native", tls=tls)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "encrypted", "authenticated", "told"),
    [
        ("127.0.0.1", False, False, []),
        ("0.0.0.0", True, True, []),
        (
            "0.0.0.0",
            True,
            False,
            [
                "the data port is open on 0.0.0.0 and asks nobody for a key "
                "(gateway.insecure_no_auth): whoever reaches it may use it"
            ],
        ),
        (
            "10.0.0.1",
            False,
            True,
            [
                "the data port is open on 10.0.0.1 without TLS: what is sent, keys too, can be "
                "read on the way; set gateway.tls, or end TLS in front of it"
            ],
        ),
    ],
)
def test_open_ports_are_told(
    host: str, encrypted: bool, authenticated: bool, told: list[str]
) -> None:
    assert exposures([OpenPort("data", "gateway", host, encrypted, authenticated)]) == told
