"""The first start of a closed gateway: one admin key, shown once, to a person and to no log."""

import re
from pathlib import Path

import pytest
from tests.support.processes import FleetProcesses

from headway import errors
from headway.client import BlockingControlClient

KEY = re.compile(r"hw_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}")


@pytest.mark.e2e
def test_a_new_store_gets_one_admin_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_GATEWAY__FLEET_TOKEN", "fleet-secret")
    fleet = FleetProcesses(tmp_path)
    try:
        fleet.start_gateway(open_to_all=False)
        while "shown only once" not in fleet.log("gateway"):
            pass
        (key,) = KEY.findall(fleet.log("gateway"))
        address = f"127.0.0.1:{fleet.ports['control']}"
        with BlockingControlClient(address, api_key=key) as control:
            assert [tenant.tenant for tenant in control.tenants()] == ["admin"]
        with BlockingControlClient(address) as stranger, pytest.raises(errors.Unauthenticated):
            stranger.state()
        assert fleet.kill("gateway", 15) == 0
        fleet.start_gateway(open_to_all=False)
        with BlockingControlClient(address, api_key=key) as control:
            assert control.state().gateway.store.up
        assert KEY.findall(fleet.log("gateway")) == [key]
    finally:
        fleet.stop_all()


@pytest.mark.e2e
def test_the_store_is_a_file_in_the_users_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fleet = FleetProcesses(tmp_path)
    try:
        fleet.start_gateway()
        assert (tmp_path / "state" / "headway" / "control.db").exists()
    finally:
        fleet.stop_all()
