"""Drills of workers that die, stop, lie, fail fast, or are slow."""

import signal
from collections import Counter
from collections.abc import Callable
from typing import Final

from headway.drill.calls import OK
from headway.drill.stage import Stage, require, simulated

CLIENTS: Final = 8


async def kill_worker(stage: Stage) -> None:
    """A worker dies with a batch in hand: its requests are begun again, and none fails."""
    # Slow enough that it has its batch still when the signal comes.
    victim = [simulated(intercept_ms=700)]
    await stage.start({"w0": [simulated()], "w1": [simulated()], "victim": victim})
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=5.0)
    await stage.until(lambda: _has_batch(stage, "victim"), 20)
    stage.say("kills a worker with a batch in hand")
    await stage.processes.kill("victim")
    require(await calls.until_answered(100), "the others did not go on")
    stage.processes.start_worker("victim", [simulated()])
    back_s = await stage.until_ready("victim")
    require(await calls.until_answered(50), "answers stopped when it came back")
    tally = await calls.stop()
    stage.figures |= {"back_after_s": round(back_s, 2), "failed": tally.failed}
    require(tally.failed == 0, f"{tally.failed} calls failed: {dict(tally.outcomes)}")
    require(any(attempts > 1 for attempts in tally.attempts), "the kill met no batch")


async def stop_worker(stage: Stage) -> None:
    """A worker is stopped (SIGSTOP) for three seconds: calls go on elsewhere, none hangs."""
    await stage.start({"w0": [simulated()], "w1": [simulated()]})
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=1.0)
    require(await calls.until_answered(20), "no answers before the stop")
    stage.say("stops a worker for 3 s")
    stage.processes.signal("w1", signal.SIGSTOP)
    answered = calls.tally.ok
    await stage.pause(3.0)
    meanwhile = calls.tally.ok - answered
    stage.processes.signal("w1", signal.SIGCONT)
    back_s = await stage.until_ready("w0", "w1")
    seen = calls.tally.replicas["w1"]
    require(
        await stage.until(lambda: _more(calls.tally.replicas, "w1", seen), 20),
        "the worker got no work once it went on",
    )
    tally = await calls.stop()
    stage.figures |= {
        "answered_while_stopped": meanwhile, "back_after_s": round(back_s, 2),
        "failed": tally.failed,
    }  # fmt: skip
    require(meanwhile > 20, f"only {meanwhile} calls were answered while it was stopped")


async def garbage_worker(stage: Stage) -> None:
    """A worker answers garbage: nobody gets another's answer, and the gateway stays sound."""
    garbage = [simulated(failures={"garbage": 1.0})]
    await stage.start({"w0": [simulated()], "tampers": garbage})
    control = stage.gateways["gateway-0"].control
    stage.processes.start_module("liar", "liar", control, "liar")
    await stage.until_ready("w0", "tampers", "liar")
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=3.0)
    require(await calls.until_answered(round(400 * stage.size)), "too few answers")
    tally = await calls.stop()
    stage.figures |= {"failed": tally.failed, "from_liar": tally.replicas["liar"]}
    require(tally.replicas["liar"] == 0, "an answer of the liar was passed on")
    require(tally.ok >= tally.failed, f"most calls failed: {dict(tally.outcomes)}")


async def failing_replica(stage: Stage) -> None:
    """A replica that fails in 2 ms looks fast: it must not draw the traffic."""
    failing = [simulated(failures={"fail_fast": 1.0})]
    await stage.start({"w0": [simulated()], "w1": [simulated()], "failing": failing})
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=3.0)
    require(await calls.until_answered(round(600 * stage.size)), "too few answers")
    tally = await calls.stop()
    begun = sum(attempts * count for attempts, count in tally.attempts.items())
    stage.figures |= {
        "failed": tally.failed,
        "failed_ratio": round(tally.failed / tally.num_calls, 4),
        "executions_per_answer": round(begun / max(1, tally.ok), 3),
    }
    require(tally.failed <= 0.05 * tally.num_calls, f"failed: {dict(tally.outcomes)}")


async def slow_replica(stage: Stage) -> None:
    """A replica becomes ten times slower than the others: deadlines hold by going elsewhere."""
    slow = [simulated(speed=0.1)]
    await stage.start({"w0": [simulated()], "w1": [simulated()], "slow": slow})
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=1.0)
    require(await calls.until_answered(round(600 * stage.size)), "too few answers")
    tally = await calls.stop()
    share = tally.replicas["slow"] / max(1, tally.ok)
    stage.figures |= {"failed": tally.failed, "share_of_the_slow": round(share, 3)}
    require(tally.failed <= 0.05 * tally.num_calls, f"failed: {dict(tally.outcomes)}")
    require(share < 1 / 3, f"the slow replica answered {share:.0%} of the calls")


async def all_gone(stage: Stage) -> None:
    """All workers die; calls end with an error in time; the fleet serves again when they return."""
    names = ("w0", "w1")
    await stage.start({name: [simulated()] for name in names})
    calls = stage.new_calls()
    calls.start_clients(CLIENTS, timeout_s=1.0)
    require(await calls.until_answered(20), "no answers before")
    stage.say("kills all workers")
    for name in names:
        await stage.processes.kill(name)
    failed = calls.tally.failed
    await stage.until(lambda: _more_than(lambda: calls.tally.failed, failed + CLIENTS), 10)
    for name in names:
        stage.processes.start_worker(name, [simulated()])
    back_s = await stage.until_ready(*names)
    require(await calls.until_answered(50), "no answers once they were back")
    tally = await calls.stop()
    stage.figures |= {"back_after_s": round(back_s, 2), "failed": tally.failed}
    require(await calls.one() == OK, "the last call failed")


async def _has_batch(stage: Stage, worker: str) -> bool:
    for addresses in stage.gateways.values():
        for replica in await stage.replicas(addresses):
            if replica.worker_id == worker and replica.outstanding_batches:
                return True
    return False


async def _more(counts: Counter[str], name: str, than: int) -> bool:
    return counts[name] > than


async def _more_than(read: Callable[[], int], than: int) -> bool:
    return read() > than
