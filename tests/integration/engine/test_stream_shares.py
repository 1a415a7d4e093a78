"""Many outputs of one tenant beside those of others, over gRPC."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from tests.support.fleet import (
    RunningGateway,
    refusal,
    running_gateway,
    running_worker,
    text_request,
)
from tests.support.writers import read_all, request, running_writer, until

from headway.v1 import control_pb2, inference_pb2

LANES = 4
GREEDY, MODEST, FIRST = "greedy", "modest", "first"
ENDLESS = 4_000


def secret_of(tenant: str) -> str:
    return f"hw_{hashlib.sha256(tenant.encode()).hexdigest()[:8]}_" + "s" * 32


def bearer(tenant: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret_of(tenant)}"),)


def settings_of(**terms: Any) -> dict[str, Any]:
    """A tenant with a key."""
    secret = secret_of(terms.pop("name"))
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return {"keys": [{"key_id": secret[3:11], "sha256": digest, "role": "admin"}], **terms}


@dataclass
class Stage:
    """A gateway with a writer of four lanes, and two tenants."""

    gateway: RunningGateway

    def ask(self, tenant: str, tokens: int = 8, **fields: Any) -> Any:
        asked = inference_pb2.InferStreamRequest(request=request(tokens=tokens, **fields))
        return self.gateway.inference.InferStream(asked, metadata=bearer(tenant), timeout=36_000)

    @property
    def live(self) -> Any:
        return self.gateway.gateway.streams.live

    async def has(self, count: int) -> None:
        """Returns once so many outputs wait or are written."""
        await until(lambda: len(self.live) == count)

    async def writes(self, count: int) -> None:
        """Returns once so many outputs are in lanes."""
        await until(lambda: sum(each.replica is not None for each in self.live.values()) == count)


@contextlib.asynccontextmanager
async def stage(
    limit: int | None = None, weights: dict[str, float] | None = None, **changes: Any
) -> AsyncIterator[Stage]:
    weights = {FIRST: 1.0, **(weights or {GREEDY: 1.0, MODEST: 1.0})}
    tenants = {name: settings_of(name=name, weight=weight) for name, weight in weights.items()}
    if limit is not None:
        changes["admission"] = {"limit": {"initial": limit, "min": 1, "max": limit}}
    runtime = {"max_lanes": LANES, "kv_tokens": 100_000, "context": 8_000}
    async with (
        running_gateway(
            insecure_no_auth=False, fleet_token="fleet", tenants=tenants, **changes
        ) as gateway,
        running_writer(gateway, wait=False, fleet_token="fleet", runtime=runtime),
    ):
        await gateway.until_serving("writer")
        yield Stage(gateway)


async def ended(call: Any, tenant: str, order: list[str]) -> None:
    """Reads an output to its end, and notes whose it was."""
    await read_all(call)
    order.append(tenant)


async def order_of(fleet: Stage, outputs: dict[str, int], count: int) -> list[str]:
    """Whose outputs end, in order, the first `count`; all came while all lanes were taken."""
    order: list[str] = []

    async def ended(call: Any, tenant: str) -> None:
        await read_all(call)
        order.append(tenant)

    lanes = [fleet.ask(FIRST, ENDLESS) for _ in range(LANES)]
    await fleet.writes(LANES)
    tasks = []
    for tenant, number in outputs.items():
        calls = [fleet.ask(tenant) for _ in range(number)]
        tasks += [asyncio.ensure_future(ended(call, tenant)) for call in calls]
        await fleet.has(LANES + len(tasks))
    for call in lanes:
        call.cancel()
    await until(lambda: len(order) >= count)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await fleet.has(0)
    return order[:count]


async def test_a_tenant_with_hundreds_of_outputs_does_not_keep_another_from_its_share() -> None:
    async with stage() as fleet:
        order = await order_of(fleet, {GREEDY: 300, MODEST: 20}, 50)
    # By turns, and at most what SFQ(D) allows beside: (lanes + 1) x 2 outputs.
    last = max(at for at, name in enumerate(order) if name == MODEST)
    assert order.count(MODEST) == 20
    assert order[: last + 1].count(GREEDY) <= 20 + 2 * (LANES + 1)


async def test_weights_divide_the_lanes() -> None:
    async with stage(weights={GREEDY: 3.0, MODEST: 1.0}) as fleet:
        head = await order_of(fleet, {GREEDY: 100, MODEST: 100}, 80)
    # |greedy / 3 - modest| <= (lanes + 1) (1 / 3 + 1), of 60 and 20.
    assert abs(head.count(GREEDY) / 3 - head.count(MODEST)) <= (LANES + 1) * (1 / 3 + 1)


async def test_beyond_the_limit_an_output_is_refused_at_once_and_told_when_to_come_again() -> None:
    async with stage(limit=6) as fleet:
        calls = [fleet.ask(GREEDY, ENDLESS) for _ in range(6)]
        await fleet.writes(LANES)
        await fleet.has(6)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_all(fleet.ask(GREEDY, ENDLESS))
        refused = refusal(caught.value)
        assert refused.reason == "OVERLOADED"
        assert refused.metadata["rule"] == "limit"
        assert refused.metadata["limit_requests"] == "6"
        assert refused.metadata["inflight_requests"] == "6"
        assert refused.retry_ns is not None and refused.retry_ns >= 1_000_000
        assert len(fleet.live) == 6
        refusals = {
            tuple(sample.labels.values()): sample.value
            for metric in fleet.gateway.gateway.metrics.collect()
            for sample in metric.samples
            if sample.name == "headway_refusals_total"
        }
        assert refusals == {("writer", "v1", "standard", "OVERLOADED"): 1}
        for call in calls:
            call.cancel()
        await fleet.has(0)
        await read_all(fleet.ask(GREEDY))


async def test_an_output_that_waits_gives_way_to_a_tenant_with_less_in_hand() -> None:
    async with stage(limit=6) as fleet:
        calls = [fleet.ask(GREEDY, ENDLESS) for _ in range(6)]
        await fleet.writes(LANES)
        await fleet.has(6)
        mine = fleet.ask(MODEST)
        # One of the two that wait is told; those in lanes go on.
        waiting = [asyncio.ensure_future(read_all(call)) for call in calls]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (task,) = done
        error = task.exception()
        assert isinstance(error, grpc.aio.AioRpcError)
        refused = refusal(error)
        assert (refused.reason, refused.metadata["rule"]) == ("OVERLOADED", "displaced")
        assert refused.retry_ns is not None and refused.retry_ns >= 1_000_000
        assert sum(each.replica is not None for each in fleet.live.values()) == LANES
        state = await fleet.gateway.control.GetState(
            control_pb2.GetStateRequest(), metadata=bearer(GREEDY)
        )
        (pool,) = state.state.pools
        assert pool.displaced.standard == 1
        assert pool.inflight.standard == 6
        for call in calls:
            call.cancel()
        _, final = await read_all(mine)
        assert final.usage.output_units == 8
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_unary_calls_know_nothing_of_outputs() -> None:
    async with (
        stage(limit=6) as fleet,
        running_worker(fleet.gateway, worker_id="u1", wait=False, fleet_token="fleet"),
    ):
        await fleet.gateway.until_serving("sim")
        calls = [fleet.ask(GREEDY, ENDLESS) for _ in range(6)]
        await fleet.has(6)
        with pytest.raises(grpc.aio.AioRpcError):
            await read_all(fleet.ask(GREEDY))
        answers = [
            await fleet.gateway.inference.Infer(text_request("hello"), metadata=bearer(GREEDY))
            for _ in range(20)
        ]
        told = await explained(fleet, answers[0].request_id)
        assert told.record.admission.inflight == 0
        assert told.record.admission.share_ratio == 0
        for call in calls:
            call.cancel()
        await fleet.has(0)


async def explained(fleet: Stage, request_id: str) -> Any:
    return await fleet.gateway.control.ExplainRequest(
        control_pb2.ExplainRequestRequest(request_id=request_id), metadata=bearer(GREEDY)
    )


async def test_what_admission_saw_of_an_output_is_explained() -> None:
    async with stage(limit=6) as fleet:
        calls = [fleet.ask(GREEDY, ENDLESS) for _ in range(5)]
        await fleet.writes(LANES)
        await fleet.has(5)
        other = fleet.ask(MODEST, request_id="the-other")
        await fleet.has(6)
        told = await explained(fleet, "the-other")
        text = " ".join(told.sentences)
        assert "1 other output" in text and f"and {LANES} were written; a lane was about" in text
        assert "of the outputs in hand 0.00 times its fair share" in text
        assert "5 of at most 6 requests were in hand" in text
        assert told.record.admission.limit == 6
        assert told.record.queued_ahead == 1
        refused = fleet.ask(GREEDY, request_id="refused")
        with pytest.raises(grpc.aio.AioRpcError):
            await read_all(refused)
        told = await explained(fleet, "refused")
        assert told.record.outcome == "OVERLOADED"
        # Five of six, where half is its share.
        assert told.record.admission.share_ratio == pytest.approx(5 / 3)
        assert "1.67 times its fair share" in " ".join(told.sentences)
        for call in (*calls, other):
            call.cancel()
        await fleet.has(0)
