"""Only output tokens are counted; a caller is locked out for minutes."""

import asyncio
import hashlib

import grpc
import pytest
from tests.support.fleet import Refusal, refusal, running_gateway
from tests.support.writers import request, running_writer

SECRET = "hw_aaaaaaaa_" + "s" * 32
KEY = {"key_id": "aaaaaaaa", "sha256": hashlib.sha256(SECRET.encode()).hexdigest()}
METADATA = (("authorization", f"Bearer {SECRET}"),)
QUOTA = {"units_per_second": 20, "burst_units": 60}


async def test_fault_43_only_outputs_count() -> None:
    async with (
        running_gateway(
            insecure_no_auth=False, fleet_token="fleet", tenants={"t": {**QUOTA, "keys": [KEY]}}
        ) as running,
        running_writer(running, wait=False, fleet_token="fleet"),
    ):
        await running.until_serving("writer")

        async def attempt() -> Refusal | None:
            try:
                await running.inference.Infer(request(tokens=16), metadata=METADATA, timeout=10)
            except grpc.aio.AioRpcError as error:
                return refusal(error)
            return None

        # 4 units of prompt and 16 of output each: the bucket of 60 is empty within a few.
        async with asyncio.timeout(10):
            while (short := await attempt()) is None:
                pass
        assert short.reason == "QUOTA_EXCEEDED"
        assert int(short.metadata["needed_units"]) > 16, "the prompt counts as well"
        # At 20 units a second it is a second, not minutes; refill goes on all the while.
        assert short.retry_ns is not None and 0 < short.retry_ns <= 1_500_000_000
        async with asyncio.timeout(10):
            while await attempt() is not None:
                pass
        with pytest.raises(grpc.aio.AioRpcError) as never:
            await running.inference.Infer(request(tokens=4000), metadata=METADATA, timeout=10)
        assert refusal(never.value).code == grpc.StatusCode.INVALID_ARGUMENT
