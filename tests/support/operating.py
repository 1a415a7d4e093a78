"""Gateways that share a store, and clients of them with keys."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from tests.support.fleet import RunningGateway, running_gateway

from headway.client import Client, ControlClient
from headway.v1 import control_pb2

ADMIN = "hw_AdminKey_" + "a" * 43
OPERATOR = "hw_OperatKy_" + "o" * 43
VIEWER = "hw_ViewerKy_" + "v" * 43
CALLER = "hw_CallerKy_" + "c" * 43
FLEET_TOKEN = "fleet-secret-of-the-tests"


def configured_key(key: str, role: str = "none") -> dict[str, str]:
    return {"key_id": key[3:11], "sha256": hashlib.sha256(key.encode()).hexdigest(), "role": role}


OPS: dict[str, Any] = {
    "keys": [
        configured_key(ADMIN, "admin"),
        configured_key(OPERATOR, "operator"),
        configured_key(VIEWER, "viewer"),
    ]
}
ACME: dict[str, Any] = {"keys": [configured_key(CALLER)], "units_per_second": 1000}
CLOSED: dict[str, Any] = {
    "insecure_no_auth": False,
    "fleet_token": FLEET_TOKEN,
    "tenants": {"ops": OPS, "acme": ACME},
}


@contextlib.asynccontextmanager
async def closed_gateway(
    store_url: str = "sqlite://", *, store_timeout_s: float = 60, **changes: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway that asks for keys, on a store. A busy machine is no store that is away."""
    store = {"url": store_url, "timeout_seconds": store_timeout_s}
    async with running_gateway(**{**CLOSED, "store": store, **changes}) as running:
        yield running


@contextlib.asynccontextmanager
async def operator(
    running: RunningGateway, api_key: str | None = ADMIN, **options: Any
) -> AsyncIterator[ControlClient]:
    async with ControlClient(running.addresses["control"], api_key=api_key, **options) as control:
        yield control


@contextlib.asynccontextmanager
async def caller(running: RunningGateway, api_key: str | None) -> AsyncIterator[Client]:
    async with Client(running.addresses["data"], api_key=api_key) as client:
        yield client


async def until_store(running: RunningGateway, *, up: bool) -> control_pb2.StoreState:
    """Returns when the gateway has noticed that its store is there, or away."""
    while True:
        store = running.gateway.state.read().gateway.store
        if store.up == up:
            return store
        await asyncio.to_thread(lambda: None)
