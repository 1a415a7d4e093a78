"""Half an hour of a normal load, as fast as it goes: memory is as it was."""

import asyncio
import contextlib
from typing import Final

from headway.client import Client, text_request
from headway.drill.calls import Calls
from headway.drill.processes import MODEL, WRITER
from headway.drill.stage import Stage, require
from headway.errors import HeadwayError

HALF_HOUR_S: Final = 1_800
CALLS_PER_S: Final = 10
STREAMS_PER_S: Final = 1
CLIENTS: Final = 16
READERS: Final = 12
MOST_GROWTH: Final = 0.02
ROUND: Final = (4_000, 400)
"""Calls and outputs of a round of the warm-up."""
MOST_ROUNDS: Final = 40
STEPS_KEPT: Final = 4_200
"""A worker keeps its last 4,096 steps for `headway engine trace`: in a minute or two they are all
there, and what it takes is what it will take."""
MOST_GROWTH_UNFILLED: Final = 0.1
"""Of a worker in a short soak, whose steps are not all made."""

_STREAM_S: Final = 60.0
_REST_S: Final = 1.0
_HISTORY: Final = 500
"""Decisions kept for ExplainRequest, so that the history is full before the measuring begins."""


async def soak(stage: Stage) -> None:
    """As many calls and cancelled outputs as in 30 minutes: resident memory within 2 %."""
    null_device = {"kind": "simulated", "intercept_ms": 0, "slope_ms_per_unit": 0}
    writer = {"kind": "simulated-decoder", "mean_output_tokens": 64, "max_lanes": 64}
    models = [{"model": MODEL, "runtime": null_device}, {"model": WRITER, "runtime": writer}]
    await stage.start({"w0": models}, explained_requests=_HISTORY)
    num_calls = round(HALF_HOUR_S * CALLS_PER_S * stage.size)
    num_streams = round(HALF_HOUR_S * STREAMS_PER_S * stage.size)
    names = [*stage.gateways, "w0"]
    before = await _warm_up(stage, names)
    stage.say(f"measures {num_calls} calls and {num_streams} outputs")
    began_ns = stage.clock.now_ns()
    await _work(stage, num_calls, num_streams)
    seconds = (stage.clock.now_ns() - began_ns) / 1e9
    after = await _at_rest(stage, names)
    growth = {name: after[name] / before[name] - 1 for name in names}
    stage.figures |= {
        "soaked_calls": num_calls,
        "cancelled_streams": num_streams,
        "seconds": round(seconds, 1),
        "times_real_time": round(HALF_HOUR_S * stage.size / seconds, 1),
        "rss_mib": {name: [round(before[name], 1), round(after[name], 1)] for name in names},
        "growth_percent": {name: round(100 * growth[name], 2) for name in names},
    }
    for name in names:
        filled = stage.size == 1 or name in stage.gateways
        limit = MOST_GROWTH if filled else MOST_GROWTH_UNFILLED
        require(growth[name] <= limit, f"{name} has grown by {growth[name]:.1%}")


async def _warm_up(stage: Stage, names: list[str]) -> dict[str, float]:
    """Works until caches, histories and the allocator's pools are full; memory at rest then."""
    filling = asyncio.ensure_future(_fill(stage))
    try:
        for _ in range(MOST_ROUNDS):
            await _work(stage, *ROUND)
            stage.say(f"warms up: {_rss(stage)}")
            if filling.done():
                break
        await filling
    finally:
        filling.cancel()
    return await _at_rest(stage, names)


def _rss(stage: Stage) -> str:
    names = [*stage.gateways, "w0"]
    return ", ".join(f"{name} {stage.processes.rss_mib(name):.1f} MiB" for name in names)


async def _fill(stage: Stage) -> None:
    """Has the worker make as many steps as it keeps: a part that is read took one at least."""
    left = STEPS_KEPT if stage.size == 1 else 0
    async with Client(stage.gateways["gateway-0"].data) as client:
        while left > 0:
            request = text_request("and so on", model=WRITER)
            async with contextlib.aclosing(
                client.infer_stream(request, timeout_s=_STREAM_S)
            ) as events:
                async for _ in events:
                    left -= 1


async def _work(stage: Stage, num_calls: int, num_streams: int) -> None:
    calls = stage.new_calls()
    async with Client(stage.gateways["gateway-0"].data) as client:
        left = await asyncio.gather(
            *(_streams(client, num_streams // READERS) for _ in range(READERS)),
            *(_calls(calls, num_calls // CLIENTS) for _ in range(CLIENTS)),
        )
    tally = await calls.stop()
    require(tally.failed == 0, f"{tally.failed} calls failed: {dict(tally.outcomes)}")
    opened, cut = READERS * (num_streams // READERS), sum(left)
    # What is refused shows nothing of what is cut off.
    require(cut >= 0.95 * opened, f"of {opened} outputs only {cut} were begun and cut off")


async def _calls(calls: Calls, count: int) -> int:
    for _ in range(count):
        await calls.one(10.0)
    return 0


async def _streams(client: Client, count: int) -> int:
    """Outputs whose reader leaves at once or after some parts; how many were not refused."""
    cut = 0
    for number in range(count):
        events = client.infer_stream(
            text_request(f"tell me {number}", model=WRITER), timeout_s=_STREAM_S
        )
        with contextlib.suppress(HeadwayError):
            for _ in range(number % 4):
                if await anext(events, None) is None:
                    break
            cut += 1
        await events.aclose()
    return cut


async def _at_rest(stage: Stage, names: list[str]) -> dict[str, float]:
    """Resident memory once nothing is under way: the least of some readings."""
    await stage.check_settled()
    least: dict[str, float] = {}
    for _ in range(5):
        await stage.pause(_REST_S / 5)
        for name in names:
            mib = stage.processes.rss_mib(name)
            least[name] = min(mib, least.get(name, mib))
    return least
