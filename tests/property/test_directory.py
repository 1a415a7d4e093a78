"""Tenants and keys against a model that works everything out anew at each question."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headway._core import Scheduler
from headway.gateway.directory import Directory
from headway.gateway.settings import KeySettings, TenantSettings
from headway.rpc.interceptors import Caller
from headway.store.records import ControlDelta, KeyRecord, TenantRecord
from headway.testing import ManualClock

NAMES = ("acme", "globex", "ops")
KEYS = ("AAAAAAAA", "BBBBBBBB", "CCCCCCCC", "DDDDDDDD")


def digest(key_id: str, variant: int) -> bytes:
    return bytes([variant]) * 31 + key_id[:1].encode()


tenants = st.builds(
    TenantRecord,
    st.just(""),
    units_per_second=st.sampled_from([None, 5.0, 50.0]),
    weight=st.sampled_from([1.0, 2.0]),
    max_priority=st.sampled_from([1, 2, 3]),
    models=st.sampled_from([(), ("sim",)]),
    disabled=st.booleans(),
)
keys = st.builds(
    KeyRecord,
    st.just(""),
    st.sampled_from(NAMES),
    st.just(b""),
    role=st.sampled_from(["none", "viewer", "admin"]),
    revoked_at_ns=st.sampled_from([None, None, 9]),
)
deltas = st.tuples(
    st.just("delta"),
    st.booleans(),
    st.dictionaries(st.sampled_from(NAMES), st.none() | tenants, max_size=2),
    st.dictionaries(st.sampled_from(KEYS), st.none() | st.tuples(keys, st.integers(1, 2)),
                    max_size=2),
)  # fmt: skip
configurations = st.tuples(
    st.just("configure"),
    st.dictionaries(
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
        max_size=2,
    ),
)


class Model:
    """What was said last of each name; the store's word over the configuration's."""

    def __init__(self) -> None:
        self.config_tenants: set[str] = set()
        self.config_keys: dict[str, str] = {}
        self.stored_tenants: dict[str, TenantRecord] = {}
        self.stored_keys: dict[str, KeyRecord] = {}

    def tenant(self, name: str) -> TenantRecord | None:
        if name in self.stored_tenants:
            return self.stored_tenants[name]
        return TenantRecord(name) if name in self.config_tenants else None

    def key(self, key_id: str) -> KeyRecord | None:
        if key_id in self.stored_keys:
            return self.stored_keys[key_id]
        owner = self.config_keys.get(key_id)
        return None if owner is None else KeyRecord(key_id, owner, digest(key_id, 0))

    def valid(self, key_id: str) -> KeyRecord | None:
        key = self.key(key_id)
        fits = key is not None and key.revoked_at_ns is None and self.tenant(key.tenant)
        return key if fits else None


@settings(max_examples=300, deadline=None)
@given(st.lists(deltas | configurations, max_size=12))
def test_the_directory_agrees_with_the_model(history: list[tuple[object, ...]]) -> None:
    scheduler = Scheduler(seed=1)
    directory, model = Directory(scheduler, ManualClock()), Model()
    held: list[tuple[Caller, bytes]] = []
    for step in history:
        play(step, directory, model)
        for key_id in KEYS:
            expected = model.valid(key_id)
            found = directory.valid.get(key_id)
            assert (found is None) == (expected is None)
            if found is None or expected is None:
                continue
            tenant = model.tenant(expected.tenant)
            assert tenant is not None
            assert found.digest == expected.sha256
            caller = found.caller
            assert caller.tenant == expected.tenant
            assert caller.role == {"none": 0, "viewer": 1, "operator": 2, "admin": 3}[expected.role]
            assert not caller.ended
            terms = caller.terms
            assert (terms.weight, terms.max_priority, terms.disabled) == (
                tenant.weight, tenant.max_priority, tenant.disabled,
            )  # fmt: skip
            assert terms.models == (frozenset(tenant.models) if tenant.models else None)
            held.append((caller, found.digest))
        # A stream that holds a caller sees that its key is good no more.
        for caller, secret in held:
            now = model.valid(caller.key_id)
            same = now is not None and (now.sha256, now.tenant) == (secret, caller.tenant)
            assert same or caller.ended
        names = [record.tenant for record, _ in directory.tenants()]
        assert names == [name for name in NAMES if model.tenant(name)]
    handles = {stored.caller.handle for stored in directory.valid.values()}
    assert len(handles) <= len(NAMES)


def play(step: tuple[object, ...], directory: Directory, model: Model) -> None:
    if step[0] == "configure":
        owners: dict[str, list[str]] = step[1]  # type: ignore[assignment]
        # A key belongs to one tenant; the last one named keeps it.
        model.config_keys = {key: name for name, listed in owners.items() for key in listed}
        model.config_tenants = set(owners)
        directory.configure(
            {
                name: TenantSettings(
                    keys=tuple(
                        KeySettings(key_id=key, sha256=digest(key, 0).hex())
                        for key in listed
                        if model.config_keys[key] == name
                    )
                )
                for name, listed in owners.items()
            }
        )
        return
    _, full, changed_tenants, changed_keys = step
    named = {
        name: record and TenantRecord(name, record.units_per_second, None, record.weight,
                                      record.max_priority, record.models, record.disabled)
        for name, record in changed_tenants.items()  # type: ignore[attr-defined]
    }  # fmt: skip
    made = {
        key_id: pair and KeyRecord(key_id, pair[0].tenant, digest(key_id, pair[1]), pair[0].role,
                                   0, None, pair[0].revoked_at_ns)
        for key_id, pair in changed_keys.items()  # type: ignore[attr-defined]
    }  # fmt: skip
    if full:
        named = {name: record for name, record in named.items() if record}
        made = {key_id: record for key_id, record in made.items() if record}
        model.stored_tenants.clear()
        model.stored_keys.clear()
    for name, record in named.items():
        if record is None:
            model.stored_tenants.pop(name, None)
        else:
            model.stored_tenants[name] = record
    for key_id, key in made.items():
        if key is None:
            model.stored_keys.pop(key_id, None)
        else:
            model.stored_keys[key_id] = key
    directory.apply(ControlDelta(1, bool(full), named, made))
