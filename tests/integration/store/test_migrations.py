"""Every schema there ever was can be brought to the present one, with its data."""

import asyncio
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from headway.errors import StartupError
from headway.store import migrate
from headway.store.engine import WRITE, make_engine, make_private, parse
from headway.store.schema import metadata
from headway.store.store import Store

# What each schema can hold, as the version of that time would have written it.
DATA: dict[str, list[str]] = {
    "0001": [
        "UPDATE control SET revision = 3",
        "INSERT INTO tenants VALUES ('acme', 2.0, 1, '[\"sim\"]', {false})",
        "INSERT INTO quotas VALUES ('acme', 100.0, NULL)",
        "INSERT INTO api_keys (key_id, tenant, sha256, role, created_at_ns) "
        "VALUES ('Ab3dEf7h', 'acme', {blob}, 'admin', 5)",
        "INSERT INTO splits VALUES ('sim', '[[\"v1\", 1.0]]', 'operator')",
        "INSERT INTO audit (revision, at_ns, tenant, key_id, gateway_id, action, kind, target) "
        "VALUES (3, 9, 'ops', 'OpsKey01', 'g', 'set', 'split', 'sim')",
    ],
    "0002": [
        "UPDATE api_keys SET description = 'laptop'",
        "INSERT INTO replica_registrations "
        "VALUES ('w1', '127.0.0.1:9', '[[\"sim\", \"v1\"]]', '{{}}', '0.1', 'g', 30, {true})",
    ],
    "0003": [
        "INSERT INTO rollouts (rollout_id, model, baseline_version, canary_version, phase, step, "
        "canary_share, policy, started_at_ns, reason) "
        "VALUES ('r1', 'sim', 'v1', 'v2', 'running', 0, 0.01, '{{}}', 10, '')",
    ],
    "0004": [
        "INSERT INTO rollout_states VALUES ('r1', '{{\"total_s\": 7}}')",
        "INSERT INTO rollout_outcomes VALUES ('r1', 'g', 20, '{{\"dead\": \"\"}}')",
    ],
    "0005": ["INSERT INTO gateways VALUES ('g', 3)"],
}
LITERALS = {
    "sqlite": {"true": "1", "false": "0", "blob": "x'0102'"},
    "postgresql": {"true": "true", "false": "false", "blob": "'\\x0102'"},
}


async def run(url: str, function: Any) -> Any:
    address = parse(url)
    if address.file is not None:
        make_private(address.file)
    engine = make_engine(address, timeout_s=10)
    try:
        async with engine.connect() as plain:
            connection = await plain.execution_options(**{WRITE: True})
            async with connection.begin():
                return await connection.run_sync(function)
    finally:
        await engine.dispose()


def test_each_schema_has_data_to_test_with() -> None:
    assert migrate.schemas() == list(DATA)


@pytest.mark.parametrize("schema", list(DATA))
async def test_a_store_of_any_schema_is_brought_up_with_its_data(
    store_url: str, schema: str
) -> None:
    def make(connection: Connection) -> None:
        literals = LITERALS[connection.dialect.name]
        for each in [each for each in DATA if each <= schema]:
            migrate.upgrade(connection, each)
            for statement in DATA[each]:
                connection.exec_driver_sql(statement.format(**literals))

    await run(store_url, make)
    store = Store(parse(store_url))
    await store.prepare()
    everything = await store.read_since(-1)
    assert everything.revision == 3
    assert everything.tenants["acme"] is not None
    assert everything.tenants["acme"].units_per_second == 100.0
    key = everything.keys["Ab3dEf7h"]
    assert key is not None
    assert (key.sha256, key.role) == (b"\x01\x02", "admin")
    assert key.description == ("laptop" if schema >= "0002" else "")
    assert everything.drained == ({"w1": True} if schema >= "0002" else {})
    assert [entry.target for entry in await store.audit_entries()] == ["sim"]
    assert len(await store.rollouts()) == (1 if schema >= "0003" else 0)
    await store.close()


async def test_the_migrations_make_what_the_code_expects(store_url: str) -> None:
    def differences(connection: Connection) -> list[Any]:
        migrate.upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    assert await run(store_url, differences) == []


async def test_a_newer_schema_is_refused(store_url: str) -> None:
    await run(store_url, migrate.upgrade)
    newer = "UPDATE alembic_version SET version_num = '9999'"
    await run(store_url, lambda connection: connection.execute(text(newer)))
    with pytest.raises(StartupError, match="'9999', which this version does not know"):
        await Store(parse(store_url)).prepare()


async def test_a_migration_that_fails_changes_nothing(store_url: str) -> None:
    def fail(connection: Connection) -> None:
        migrate.upgrade(connection)
        raise LookupError

    with pytest.raises(LookupError):
        await run(store_url, fail)
    found = await run(store_url, migrate.upgrade)
    assert found is None


async def test_gateways_that_start_at_once_migrate_once(store_url: str) -> None:
    stores = [Store(parse(store_url)) for _ in range(6)]
    await asyncio.gather(*(store.prepare() for store in stores))
    assert [await store.revision() for store in stores] == [0] * 6
    for store in stores:
        await store.close()


async def test_a_user_that_may_not_make_tables_is_told(postgresql_url: str) -> None:
    owner = Store(parse(postgresql_url))
    await owner.prepare()
    await owner.close()
    import asyncpg

    connection = await asyncpg.connect(postgresql_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.execute("CREATE ROLE guest LOGIN" if not await connection.fetchval(
        "SELECT 1 FROM pg_roles WHERE rolname = 'guest'") else "SELECT 1")  # fmt: skip
    await connection.execute("GRANT USAGE ON SCHEMA public TO guest")
    await connection.close()
    guest = Store(parse(postgresql_url.replace("headway:", "guest:")))
    with pytest.raises(StartupError, match="let its user create tables there"):
        await guest.prepare()
    await guest.close()
