"""Tenants and keys: made, changed and ended while the gateway runs."""

from typing import Any

import pytest
from tests.support.fleet import running_worker, text_request
from tests.support.operating import ADMIN, CALLER, FLEET_TOKEN, caller, closed_gateway, operator

from headway import errors
from headway.client import ManyStream
from headway.v1 import control_pb2, types_pb2

Tenant = control_pb2.Tenant


async def test_a_tenant_is_made_used_changed_and_removed(store_url: str) -> None:
    async with (
        closed_gateway(store_url) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        made = await control.create_tenant(
            Tenant(tenant="globex", units_per_second=10, burst_units=20, max_priority=2)
        )
        assert made == Tenant(
            tenant="globex", units_per_second=10, burst_units=20, weight=1, max_priority=2,
            source=control_pb2.TENANT_SOURCE_OPERATOR,
        )  # fmt: skip
        key = await control.create_key("globex", description="their first")
        assert key.secret.startswith(f"hw_{key.key.key_id}_")
        assert (key.key.tenant, key.key.role, key.key.description) == ("globex", 0, "their first")
        async with caller(running, key.secret) as client:
            await client.infer(text_request("x" * 80), timeout_s=5)
            with pytest.raises(errors.QuotaExceeded):
                await client.infer(text_request("x" * 80), timeout_s=5)
            await control.update_tenant(Tenant(tenant="globex", max_priority=2))
            await client.infer(text_request("x" * 80), timeout_s=5)

            critical = text_request(priority=types_pb2.PRIORITY_CRITICAL)
            with pytest.raises(errors.PermissionDenied, match="PRIORITY_STANDARD at most"):
                await client.infer(critical, timeout_s=5)
            await control.update_tenant(Tenant(tenant="globex", models=["other"]))
            with pytest.raises(errors.PermissionDenied, match="may not use model sim"):
                await client.infer(text_request(), timeout_s=5)
            await control.update_tenant(Tenant(tenant="globex", disabled=True))
            with pytest.raises(errors.PermissionDenied, match="globex is disabled"):
                await client.infer(text_request(), timeout_s=5)
            await control.update_tenant(Tenant(tenant="globex"))
            await client.infer(critical, timeout_s=5)

            await control.delete_tenant("globex")
            with pytest.raises(errors.Unauthenticated):
                await client.infer(text_request(), timeout_s=5)
        assert [t.tenant for t in await control.tenants()] == ["acme", "ops"]


async def test_a_lower_ceiling_is_the_default_priority_of_its_tenant() -> None:
    async with (
        closed_gateway() as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
        caller(running, CALLER) as client,
    ):
        await running.until_serving()
        await control.update_tenant(Tenant(tenant="acme", max_priority=3))
        await client.infer(text_request(request_id="low"), timeout_s=5)
        told = await control.explain("low")
        assert told.record.priority == types_pb2.PRIORITY_SHEDDABLE


async def test_keys_are_rotated_revoked_and_run_out(store_url: str) -> None:
    async with (
        closed_gateway(store_url) as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        first = await control.create_key("acme", role=control_pb2.ROLE_VIEWER)
        second = await control.rotate_key(first.key.key_id, overlap_s=3600)
        assert (second.key.tenant, second.key.role) == ("acme", control_pb2.ROLE_VIEWER)
        third = await control.rotate_key(second.key.key_id, overlap_s=0)
        brief = await control.create_key("acme", valid_for_s=0.000001)
        for secret, valid in (
            (first.secret, True), (second.secret, False), (third.secret, True),
            (brief.secret, False),
        ):  # fmt: skip
            async with caller(running, secret) as client:
                if valid:
                    await client.infer(text_request(), timeout_s=5)
                else:
                    with pytest.raises(errors.Unauthenticated):
                        await client.infer(text_request(), timeout_s=5)
        await control.revoke_key(third.key.key_id)
        await control.revoke_key(third.key.key_id)
        async with caller(running, third.secret) as client:
            with pytest.raises(errors.Unauthenticated):
                await client.infer(text_request(), timeout_s=5)
        with pytest.raises(errors.FailedPrecondition, match="was revoked"):
            await control.rotate_key(third.key.key_id)
        shown = {key.key_id: key for key in await control.keys("acme")}
        assert len(shown) == 5
        assert shown[third.key.key_id].HasField("revoked_at")
        assert shown[first.key.key_id].HasField("expires_at")


async def test_a_stream_that_is_open_ends_with_its_key() -> None:
    async with (
        closed_gateway() as running,
        running_worker(running, fleet_token=FLEET_TOKEN, wait=False),
        operator(running) as control,
    ):
        await running.until_serving()
        key = await control.create_key("acme", role=control_pb2.ROLE_VIEWER)
        many = ManyStream(running.addresses["data"], api_key=key.secret)
        await many.infer(text_request(), timeout_s=5)
        async with operator(running, key.secret) as viewer:
            watched = viewer.watch(0.1)
            assert (await anext(watched)).snapshot
            await control.revoke_key(key.key.key_id)
            with pytest.raises(errors.Unauthenticated, match="it was revoked"):
                await many.infer(text_request(), timeout_s=5)
            with pytest.raises(errors.Unauthenticated):
                async for _ in watched:
                    pass
        await many.close()


async def test_the_configurations_tenants_can_be_overridden_not_deleted(store_url: str) -> None:
    async with closed_gateway(store_url) as running, operator(running) as control:
        listed = {tenant.tenant: tenant for tenant in await control.tenants()}
        assert listed["acme"].units_per_second == 1000
        assert listed["acme"].source == control_pb2.TENANT_SOURCE_CONFIG
        changed = await control.update_tenant(Tenant(tenant="acme", units_per_second=5))
        assert changed.source == control_pb2.TENANT_SOURCE_OPERATOR
        with pytest.raises(errors.FailedPrecondition, match="take it out there and reload"):
            await control.delete_tenant("acme")
        with pytest.raises(errors.FailedPrecondition, match="is there already"):
            await control.create_tenant(Tenant(tenant="ops"))
        await control.revoke_key("CallerKy")
        async with caller(running, CALLER) as client:
            with pytest.raises(errors.Unauthenticated):
                await client.infer(text_request(), timeout_s=5)
    # A restart reads it all again.
    async with closed_gateway(store_url) as running, operator(running) as control:
        listed = {tenant.tenant: tenant for tenant in await control.tenants()}
        assert listed["acme"].units_per_second == 5
        async with caller(running, CALLER) as client:
            with pytest.raises(errors.Unauthenticated):
                await client.infer(text_request(), timeout_s=5)


async def test_the_first_start_makes_one_admin_key_and_the_second_none(store_url: str) -> None:
    async with closed_gateway(store_url, tenants={}) as running:
        key = running.gateway.plane.bootstrap_key
        assert key is not None
        async with operator(running, key) as control:
            assert [t.tenant for t in await control.tenants()] == ["admin"]
    async with closed_gateway(store_url, tenants={}) as running:
        assert running.gateway.plane.bootstrap_key is None
        async with operator(running, key) as control:
            assert [entry.target for entry in await control.audit()] == [key[3:11], "admin"]


BAD: list[tuple[str, Any, str]] = [
    ("no name", Tenant(), "tenant.tenant"),
    ("a bad name", Tenant(tenant="Acme Corp"), "tenant.tenant"),
    ("rate 0", Tenant(tenant="a", units_per_second=0), "tenant.units_per_second"),
    ("burst", Tenant(tenant="a", burst_units=float("nan")), "tenant.burst_units"),
    ("weight", Tenant(tenant="a", weight=1001), "tenant.weight"),
    ("weight of nothing", Tenant(tenant="a", weight=1e-9), "tenant.weight"),
    ("no weight", Tenant(tenant="a", weight=float("nan")), "tenant.weight"),
    ("rate of nothing", Tenant(tenant="a", units_per_second=1e-300), "tenant.units_per_second"),
    ("weight below 0", Tenant(tenant="a", weight=-1), "tenant.weight"),
    ("a model", Tenant(tenant="a", models=["fine", "Not Fine"]), "tenant.models[1]"),
]


@pytest.mark.parametrize(("name", "tenant", "field"), BAD, ids=[row[0] for row in BAD])
async def test_a_bad_tenant_names_its_field(name: str, tenant: Any, field: str) -> None:
    async with closed_gateway() as running, operator(running) as control:
        with pytest.raises(errors.InvalidRequest) as caught:
            await control.create_tenant(tenant)
        assert caught.value.field == field


async def test_what_is_not_there_is_named() -> None:
    async with closed_gateway() as running, operator(running) as control:
        for act in (
            control.update_tenant(Tenant(tenant="nobody")),
            control.delete_tenant("nobody"),
            control.create_key("nobody"),
            control.revoke_key("NoSuchId"),
            control.drain("nobody"),
            control.set_split("nothing", {"v1": 1.0}),
            control.explain("nothing"),
        ):
            with pytest.raises(errors.NotFound):
                await act


async def test_lists_come_in_pages() -> None:
    async with closed_gateway() as running, operator(running) as control:
        for number in range(4):
            await control.create_tenant(Tenant(tenant=f"t{number}"))
        metadata = (("authorization", f"Bearer {ADMIN}"),)
        names, token = [], ""
        while True:
            request = control_pb2.ListTenantsRequest(page_size=2, page_token=token)
            answer = await running.control.ListTenants(request, metadata=metadata)
            assert len(answer.tenants) <= 2
            names += [tenant.tenant for tenant in answer.tenants]
            token = answer.next_page_token
            if not token:
                break
        assert names == ["acme", "ops", "t0", "t1", "t2", "t3"]
        first = await running.control.ListAuditEntries(
            control_pb2.ListAuditEntriesRequest(page_size=3), metadata=metadata
        )
        second = await running.control.ListAuditEntries(
            control_pb2.ListAuditEntriesRequest(page_size=3, page_token=first.next_page_token),
            metadata=metadata,
        )
        assert [e.target for e in first.entries] == ["t3", "t2", "t1"]
        assert [e.target for e in second.entries] == ["t0"]
        assert second.next_page_token == ""
