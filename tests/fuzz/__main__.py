"""Runs the attacks for as long as wanted: `python -m tests.fuzz --minutes 10`."""

import argparse
import asyncio
import contextlib
import sys

from tests.fuzz.attacks import ATTACKS
from tests.fuzz.target import MIB, resident_bytes, target
from tests.support.http2 import raw
from tests.support.processes import fleet_processes, infer

from headway.clock import SystemClock
from headway.rng import SeedTree, fresh_root

MINUTE_NS = 60_000_000_000


async def attack(transport: str, minutes: float, seed: int) -> None:
    """Random attacks on random ports, with a check after every tenth; prints what it did."""
    clock = SystemClock()
    rng = SeedTree(seed).stream("attacks")
    names = sorted(ATTACKS)
    end_ns = clock.now_ns() + round(minutes * MINUTE_NS)
    count, settled = 0, 0
    async with target(transport) as fleet:
        ports = ["data"] if transport == "native" else sorted(fleet.ports)
        while clock.now_ns() < end_ns:
            name, port = names[rng.below(len(names))], ports[rng.below(len(ports))]
            print(f"{count}: {name} on {port}", file=sys.stderr)
            await ATTACKS[name](fleet.ports[port], rng)
            count += 1
            if count % 10 == 0:
                await fleet.check()
            if count == 200:
                settled = resident_bytes()
            if count % 1000 == 0:
                print(f"{transport}: {count} attacks, {resident_bytes() / MIB:.0f} MiB", flush=True)
        await fleet.check()
        grown = f"{(resident_bytes() - settled) / MIB:+.1f} MiB since the 200th" if settled else "-"
    print(f"{transport}, seed {seed}: {count} attacks, every check passed; memory {grown}")


async def idle(count: int, folder: str) -> None:
    """So many idle connections to a gateway of its own process; a request is served beside them."""
    from pathlib import Path

    async with fleet_processes(Path(folder), "w1") as fleet, contextlib.AsyncExitStack() as stack:
        address = f"127.0.0.1:{fleet.ports['data']}"
        pid = fleet.running["gateway"].pid
        before = _resident(pid)
        for _ in range(0, count, 200):
            many = [stack.enter_async_context(raw(address)) for _ in range(200)]
            await asyncio.gather(*many)
        with fleet.channel() as channel:
            answer = await infer(channel, timeout=20)
        size = (_resident(pid) - before) / count / 1024
    print(f"{count} idle connections: {type(answer).__name__}, {size:.1f} KiB each")


def _resident(pid: int) -> int:
    from pathlib import Path

    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1, help="how long (default 1)")
    parser.add_argument("--seed", type=int, default=None, help="replays a run; default: drawn")
    parser.add_argument("--transport", choices=("grpcio", "native"), default="grpcio")
    parser.add_argument("--idle", type=int, metavar="N", help="hold N idle connections instead")
    given = parser.parse_args()
    if given.idle:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(idle(given.idle, folder))
        return
    seed = fresh_root() if given.seed is None else given.seed
    asyncio.run(attack(given.transport, given.minutes, seed))


if __name__ == "__main__":
    main()
