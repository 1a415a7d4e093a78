"""Drills of gateways: one that is restarted, two that share workers, and all of them in turn."""

from typing import Final

from headway.drill.calls import OK
from headway.drill.stage import Stage, require, simulated

LOAD: Final = 0.9
DEVICE_MS: Final = 40
BATCH: Final = 2


async def restart_gateway(stage: Stage) -> None:
    """A gateway is killed and started again: workers come back to it by themselves."""
    await stage.start({"w0": [simulated()], "w1": [simulated()]})
    calls = stage.new_calls()
    calls.start_clients(8, timeout_s=2.0)
    require(await calls.until_answered(20), "no answers before")
    stage.say("kills the gateway")
    await stage.processes.kill("gateway-0")
    began_ns = stage.clock.now_ns()
    await stage.restart_gateway("gateway-0")
    await stage.until_ready("w0", "w1")
    require(await calls.until_answered(50), "no answers once it was back")
    back_s = (stage.clock.now_ns() - began_ns) / 1e9
    tally = await calls.stop()
    stage.figures |= {"back_after_s": round(back_s, 2), "failed": tally.failed}
    require(await calls.one() == OK, "the last call failed")


async def two_gateways(stage: Stage) -> None:
    """Two gateways on two workers at 90 % load, each thinking a slot its own: no call fails."""
    device = [simulated(intercept_ms=DEVICE_MS, max_requests=BATCH, jitter_ratio=0.02)]
    await stage.start({"w0": device, "w1": device}, num_gateways=2)
    calls = stage.new_calls()
    rate_per_s = LOAD * 2 * BATCH * 1000 / DEVICE_MS
    seconds = max(6.0, 60 * stage.size)
    stage.say(f"offers {rate_per_s:.0f} calls/s for {seconds:.0f} s")
    await calls.offer(rate_per_s, seconds, timeout_s=10.0)
    tally = await calls.stop()
    busy, served = 0, []
    for addresses in stage.gateways.values():
        replicas = await stage.replicas(addresses)
        busy += sum(each.busy_answers for each in replicas)
        served.append(sum(each.completed_batches for each in replicas))
    stage.figures |= {
        "rate_per_s": round(rate_per_s, 1), "seconds": seconds, "failed": tally.failed,
        "busy_answers": busy, "largest_share_of_batches": round(max(served) / sum(served), 2),
    }  # fmt: skip
    require(max(served) <= 0.6 * sum(served), f"the gateways got unequal shares: {served} batches")
    require(busy > 0, "no worker was ever busy: the drill shows nothing")
    require(tally.failed == 0, f"{tally.failed} calls failed: {dict(tally.outcomes)}")


async def rolling_restart(stage: Stage) -> None:
    """Each gateway and each worker is drained and started again, under load: no call fails."""
    workers = ("w0", "w1", "w2")
    await stage.start({name: [simulated()] for name in workers}, num_gateways=2, drain_seconds=5)
    calls = stage.new_calls()
    calls.start_clients(8, timeout_s=10.0)
    require(await calls.until_answered(20), "no answers before")
    for name in workers:
        stage.say(f"drains {name} and starts it again")
        require(await stage.processes.terminate(name) == 0, f"{name} did not drain")
        stage.processes.start_worker(name, [simulated()])
        await stage.until_ready(*workers)
        require(await calls.until_answered(20), f"answers stopped with {name}")
    for name in list(stage.gateways):
        require(await stage.processes.terminate(name) == 0, f"{name} did not drain")
        await stage.restart_gateway(name)
        await stage.until_ready(*workers)
        require(await calls.until_answered(20), f"answers stopped with {name}")
    tally = await calls.stop()
    stage.figures |= {"restarts": len(workers) + len(stage.gateways), "failed": tally.failed}
    require(tally.failed == 0, f"{tally.failed} calls failed: {dict(tally.outcomes)}")
