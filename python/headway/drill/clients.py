"""Drills of callers that leave, and of a clock that steps."""

import asyncio
import urllib.request
from typing import Final

from headway.drill.stage import Stage, require, simulated

CANCELLED: Final = 500
BATCH_MS: Final = 50
STEPS_S: Final = (-3, 10)


async def cancels(stage: Stage) -> None:
    """500 calls are cancelled at once: all places are free again, and hardly anything runs on."""
    device = [simulated(intercept_ms=BATCH_MS, max_requests=2)]
    await stage.start({"w0": device})
    calls = stage.new_calls()
    await calls.one()
    addresses = stage.gateways["gateway-0"]
    tasks = [asyncio.ensure_future(calls.one(30.0)) for _ in range(CANCELLED)]

    async def all_live() -> bool:
        state = await stage.state(addresses)
        return state is not None and state.gateway.inflight_requests >= CANCELLED - 40

    require(await stage.until(all_live, 20), "the calls did not all arrive")
    began_ns = stage.clock.now_ns()
    before = await _executed(stage)
    stage.say(f"cancels {CANCELLED} calls")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await stage.check_settled()
    settled_s = (stage.clock.now_ns() - began_ns) / 1e9
    await stage.pause(20 * BATCH_MS / 1000)
    ran_on = await _executed(stage) - before
    stage.figures |= {"at_rest_after_s": round(settled_s, 2), "batches_after": ran_on}
    # Those that ended until the gateway had heard of all, and what the worker had in hand by then:
    # one that runs and one that was sent just before its slot was free.
    most = -(-settled_s * 1000 // BATCH_MS) + 2
    require(ran_on <= most, f"{ran_on} batches ran on, of which {most:g} could not be stopped")


async def disconnects(stage: Stage) -> None:
    """Client processes are killed with their calls in flight, again and again."""
    await stage.start({"w0": [simulated(intercept_ms=100)], "w1": [simulated(intercept_ms=100)]})
    calls = stage.new_calls()
    calls.start_clients(2, timeout_s=5.0)
    rounds = max(2, round(5 * stage.size))
    address = stage.gateways["gateway-0"].data
    for number in range(rounds):
        name = f"storm-{number}"
        stage.processes.start_module(name, "storm", address, "10", "20")

        async def sent(name: str = name) -> bool:
            return "sent" in stage.processes.log(name).read_text()

        require(await stage.until(sent, 30), "a storm did not gather")
        stage.say("kills a client process with 200 calls")
        await stage.processes.kill(name)
    require(await calls.until_answered(10), "the others were not served")
    tally = await calls.stop()
    stage.figures |= {"storms": rounds, "calls_lost_on_purpose": 200 * rounds}
    require(tally.failed == 0, f"calls of others failed: {dict(tally.outcomes)}")


async def clock_step(stage: Stage) -> None:
    """The wall clock steps by -3 s and +10 s under load: no call, lease or order notices."""
    file = stage.processes.folder / "offset"
    file.write_text("0")
    wrapper = ("headway.drill.stepped_clock", str(file))
    await stage.processes.start_gateway("gateway-0", {}, wrapper=wrapper)
    for name in ("w0", "w1"):
        stage.processes.start_worker(name, [simulated()], wrapper=wrapper)
    await stage.until_ready("w0", "w1")
    calls = stage.new_calls()
    calls.start_clients(6, timeout_s=2.0)
    shown = [await _lease_ends_ns(stage)]
    offset_s = 0
    for step_s in STEPS_S:
        offset_s += step_s
        stage.say(f"steps the clock by {step_s} s")
        file.write_text(str(offset_s * 10**9))
        require(await calls.until_answered(round(100 * stage.size)), "answers stopped")
        shown.append(await _lease_ends_ns(stage))
    tally = await calls.stop()
    moved_s = [round((later - shown[0]) / 1e9, 1) for later in shown[1:]]
    stage.figures |= {"timestamps_moved_s": moved_s, "failed": tally.failed}
    require(moved_s[1] > 5, "the process did not see the step: the drill shows nothing")
    require(tally.failed == 0, f"calls failed: {dict(tally.outcomes)}")
    replicas = await stage.replicas(stage.gateways["gateway-0"])
    require(len(replicas) == 2, f"{2 - len(replicas)} workers lost their lease")


async def _executed(stage: Stage) -> int:
    """Batches that ran to their end; those that were stopped have no device time."""
    url = f"http://{stage.gateways['gateway-0'].http}/metrics"

    def scrape() -> str:
        with urllib.request.urlopen(url, timeout=5) as response:
            return str(response.read(), "utf-8")

    lines = (await asyncio.to_thread(scrape)).splitlines()
    counts = (line for line in lines if line.startswith("headway_batch_device_seconds_count"))
    return sum(int(float(line.rpartition(" ")[2])) for line in counts)


async def _lease_ends_ns(stage: Stage) -> int:
    replicas = await stage.replicas(stage.gateways["gateway-0"])
    return replicas[0].lease_expires_at.ToNanoseconds()
