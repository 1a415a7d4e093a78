"""Fault 57: control and registration open to anyone; keys are looked for one by one."""

from collections.abc import Iterator, Mapping

import grpc
import pytest
from pydantic import ValidationError
from tests.support.fleet import refusal, text_request
from tests.support.operating import CALLER, closed_gateway

from headway.apikey import digest_of
from headway.clock import SystemClock
from headway.errors import Unauthenticated
from headway.gateway.authentication import KeyAuthenticator, StoredKey
from headway.gateway.settings import GatewaySettings
from headway.rpc.interceptors import Caller
from headway.v1 import control_pb2, fleet_pb2, fleet_pb2_grpc, types_pb2
from headway.worker.settings import WorkerSettings


async def test_fault_57_open_by_default() -> None:
    """Every port asks who calls, unless somebody wrote that it shall not."""
    with pytest.raises(ValidationError, match="fleet_token is not set"):
        GatewaySettings()
    with pytest.raises(ValidationError, match="fleet_token is not set"):
        WorkerSettings(host="10.0.0.1")
    async with closed_gateway() as running:
        card = types_pb2.ModelCard(model="sim", version="v1")
        worker = fleet_pb2.RegisterRequest(
            worker_id="w", instance_id="i", address="127.0.0.1:1", models=[card]
        )
        fleet = fleet_pb2_grpc.FleetServiceStub(running.control_channel)
        for call in (
            running.inference.Infer(text_request(), timeout=5),
            running.control.GetState(control_pb2.GetStateRequest(), timeout=5),
            fleet.Register(worker, timeout=5),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert refusal(caught.value).reason == "UNAUTHENTICATED"


class LookUpsOnly(Mapping[str, StoredKey]):
    """Keys that cannot be gone through."""

    def __init__(self, keys: dict[str, StoredKey]) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> StoredKey:
        return self._keys[key]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("somebody goes through all keys")

    def __len__(self) -> int:
        raise AssertionError("somebody counts all keys")


def test_fault_57_constant_work_per_request() -> None:
    stored = StoredKey(CALLER[3:11], digest_of(CALLER), Caller("acme", 0))
    check = KeyAuthenticator(LookUpsOnly({stored.key_id: stored}), {}, SystemClock())

    def call(key: str) -> Caller:
        return check(lambda: (("authorization", f"Bearer {key}"),), "/x/Infer")

    assert call(CALLER).tenant == "acme"
    for wrong in (CALLER[:-1] + "x", "hw_UnknownK_" + "u" * 43, "", "hw_"):
        with pytest.raises(Unauthenticated):
            call(wrong)
