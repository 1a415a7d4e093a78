"""Does checking a key depend on how many there are?

Question:  time to turn a call's metadata into its caller, with 10 and with 100,000 keys.
Workload:  a valid key; an unknown one; beside them the SHA-256 that both have to pay for.
Command:   python -m pytest bench/micro/test_authenticate.py --benchmark-only
"""

import contextlib

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headway._core import Scheduler
from headway.apikey import digest_of, new_key
from headway.clock import SystemClock
from headway.errors import Unauthenticated
from headway.gateway.authentication import KeyAuthenticator
from headway.gateway.directory import Directory
from headway.store.records import ControlDelta, KeyRecord, TenantRecord

PATH = "/headway.v1.InferenceService/Infer"


def authenticator(count: int, key: str) -> KeyAuthenticator:
    clock = SystemClock()
    directory = Directory(Scheduler(seed=1), clock)
    keys = {key[3:11]: KeyRecord(key[3:11], "acme", digest_of(key))}
    for number in range(count - 1):
        key_id = f"{number:08d}"
        keys[key_id] = KeyRecord(key_id, "acme", b"\x01" * 32)
    directory.apply(ControlDelta(1, True, {"acme": TenantRecord("acme")}, keys))
    return KeyAuthenticator(directory.valid, {}, clock)


@pytest.mark.parametrize("count", [10, 100_000])
def test_a_valid_key(benchmark: BenchmarkFixture, count: int) -> None:
    benchmark.group = f"{count} keys"
    key, _ = new_key()
    check = authenticator(count, key)
    metadata = (("user-agent", "grpc"), ("authorization", f"Bearer {key}"))
    assert benchmark(lambda: check(lambda: metadata, PATH)).tenant == "acme"


@pytest.mark.parametrize("count", [10, 100_000])
def test_an_unknown_key(benchmark: BenchmarkFixture, count: int) -> None:
    benchmark.group = f"{count} keys"
    key, _ = new_key()
    check = authenticator(count, key)
    metadata = (("authorization", f"Bearer {new_key()[0]}"),)

    def attempt() -> None:
        with contextlib.suppress(Unauthenticated):
            check(lambda: metadata, PATH)

    benchmark(attempt)


def test_the_hash_alone(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "hash"
    key, _ = new_key()
    benchmark(lambda: digest_of(key))
