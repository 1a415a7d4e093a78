"""Who may do what, and what is written down of it."""

from collections.abc import Awaitable, Callable

import pytest
from google.protobuf.json_format import MessageToDict
from tests.support.fleet import running_worker
from tests.support.operating import (
    ADMIN,
    CALLER,
    FLEET_TOKEN,
    OPERATOR,
    VIEWER,
    closed_gateway,
    operator,
)

from headway import errors
from headway.client import ControlClient, UnexpectedStatus
from headway.gateway.control_servicer import METHODS, REQUIRED_ROLE
from headway.v1 import control_pb2

Act = Callable[[ControlClient], Awaitable[object]]
ACTS: dict[str, tuple[str, Act]] = {
    "state": ("viewer", lambda c: c.state()),
    "watch": ("viewer", lambda c: anext(c.watch())),
    "replicas": ("viewer", lambda c: c.replicas()),
    "tenants": ("viewer", lambda c: c.tenants()),
    "drain": ("operator", lambda c: c.drain("nobody")),
    "undrain": ("operator", lambda c: c.undrain("nobody")),
    "set_split": ("operator", lambda c: c.set_split("nothing", {})),
    "create_tenant": ("admin", lambda c: c.create_tenant(control_pb2.Tenant())),
    "create_key": ("admin", lambda c: c.create_key("nobody")),
    "rotate_key": ("admin", lambda c: c.rotate_key("NoSuchId")),
    "revoke_key": ("admin", lambda c: c.revoke_key("NoSuchId")),
    "keys": ("admin", lambda c: c.keys()),
    "reload": ("admin", lambda c: c.reload()),
    "audit": ("admin", lambda c: c.audit()),
}
KEYS = {"none": CALLER, "viewer": VIEWER, "operator": OPERATOR, "admin": ADMIN}
RANKS = list(KEYS)


@pytest.mark.parametrize("role", KEYS)
async def test_a_key_may_do_what_its_role_says_and_no_more(role: str) -> None:
    async with closed_gateway() as running, operator(running, KEYS[role]) as control:
        denied = []
        for name, (_, act) in ACTS.items():
            try:
                await act(control)
            except errors.PermissionDenied:
                denied.append(name)
            except (errors.RequestError, UnexpectedStatus):
                pass  # it got past the door
        allowed = RANKS.index(role)
        assert denied == [n for n, (least, _) in ACTS.items() if RANKS.index(least) > allowed]


def test_every_method_of_the_service_asks_for_a_role() -> None:
    methods = control_pb2.DESCRIPTOR.services_by_name["ControlService"].methods
    assert len(methods) >= 27
    assert {method.name for method in methods} == set(METHODS)
    assert min(REQUIRED_ROLE.values()) == 1


async def test_every_change_is_written_down_with_who_and_what(store_url: str) -> None:
    async with (
        closed_gateway(store_url) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        await control.create_tenant(control_pb2.Tenant(tenant="globex"))
        key = await control.create_key("globex")
        await control.update_tenant(control_pb2.Tenant(tenant="acme", weight=3))
        await control.revoke_key(key.key.key_id)
        async with operator(running, OPERATOR) as other:
            await other.set_split("sim", {"v1": 1.0})
            await other.drain("w1")
            await other.undrain("w1")
            await other.set_log_level("info", "headway.gateway.fleet")
        entries = list(reversed(await control.audit()))
        gateway = running.gateway.gateway_id
        assert [(e.key_id, e.action, e.kind, e.target) for e in entries] == [
            ("AdminKey", "create", "tenant", "globex"),
            ("AdminKey", "create", "key", key.key.key_id),
            ("AdminKey", "adopt", "tenant", "acme"),
            ("AdminKey", "update", "tenant", "acme"),
            ("AdminKey", "revoke", "key", key.key.key_id),
            ("OperatKy", "set", "split", "sim"),
            ("OperatKy", "drain", "replica", "w1"),
            ("OperatKy", "undrain", "replica", "w1"),
            ("OperatKy", "set", "log_level", gateway),
        ]
        assert {e.gateway_id for e in entries} == {gateway}
        assert {e.tenant for e in entries} == {"ops"}
        before, after = (MessageToDict(side) for side in (entries[3].before, entries[3].after))
        assert (before["weight"], before["units_per_second"]) == (1.0, 1000.0)
        assert (after["weight"], after["units_per_second"]) == (3.0, None)
        split = entries[5]
        assert MessageToDict(split.before)["shares"] == [["v1", 1.0]]
        assert MessageToDict(entries[6].before) == {"drained": False}
        assert [e.action for e in await control.audit(target="w1")] == ["undrain", "drain"]
