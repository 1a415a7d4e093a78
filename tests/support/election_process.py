"""A process that campaigns for a store's leadership and prints what comes of it."""

import asyncio
import sys

from headway.clock import SystemClock
from headway.store.election import Election, leader_lock
from headway.store.engine import parse


async def main(url: str) -> None:
    clock = SystemClock()
    election = Election(leader_lock(parse(url)), clock)
    election.on_change = lambda leads: print("leads" if leads else "follows", flush=True)
    print("campaigns", flush=True)
    await election.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
