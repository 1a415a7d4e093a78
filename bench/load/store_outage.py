"""PostgreSQL is stopped under load: who notices?

Question:  do requests fail while the control store is away, what do changes say, and how soon are
           two gateways alike again after its return?
Workload:  two gateways on a private PostgreSQL, two simulated workers, --clients requests in
           flight on each gateway (closed loop) from before the stop to after the return.
Machine:   two cores, which everything shares.
Command:   python -m bench.load.store_outage [--away 30] [--clients 4]
           (as root it runs PostgreSQL as the user postgres; .ci/install-postgresql installs it)
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.postgresql import PostgresServer

from bench.load.overhead import process, wait_for
from bench.load.watchers import WORKER
from headway import errors
from headway.client import ControlClient, RetryPolicy
from headway.v1 import control_pb2

ONCE = RetryPolicy(max_attempts=1)


def start_load(address: str, clients: int, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "headway", "loadtest", f"--address={address}",
               f"--clients={clients}", f"--seconds={seconds}", "--size=fixed:16",
               "--json=-"]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def until_up(control: ControlClient, up: bool) -> float:
    while (await control.state()).gateway.store.up != up:
        await asyncio.sleep(0.02)
    return time.monotonic()


async def attempt(control: ControlClient, name: str) -> str:
    try:
        await control.create_tenant(control_pb2.Tenant(tenant=name))
    except errors.RequestError as error:
        return f"{error.reason}, retry in {(error.retry_after_ns or 0) / 1e6:.0f} ms"
    return "done"


async def measure(server: PostgresServer, controls: list[str], data: list[str], away: float,
                  clients: int) -> None:  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(ControlClient(address, retry=ONCE))
            for address in controls
        ]
        loads = [start_load(address, clients, away + 15) for address in data]
        await asyncio.sleep(4)
        stopped = time.monotonic()
        await asyncio.to_thread(server.stop)
        await until_up(one, False)
        print(f"away, noticed after {time.monotonic() - stopped:.2f} s; "
              f"a change: {await attempt(one, 'while-away')}")  # fmt: skip
        await asyncio.sleep(max(0.0, stopped + away - time.monotonic()))
        await asyncio.to_thread(server.start)
        returned = time.monotonic()
        await asyncio.gather(until_up(one, True), until_up(other, True))
        print(f"back, both gateways noticed {time.monotonic() - returned:.2f} s after it answers; "
              f"a change: {await attempt(one, 'after-return')}")  # fmt: skip
        changed = time.monotonic()
        while "after-return" not in {tenant.tenant for tenant in await other.tenants()}:
            await asyncio.sleep(0.005)
        print(f"the other gateway has it {time.monotonic() - changed:.3f} s later")
        for load in loads:
            report = json.loads((await asyncio.to_thread(load.communicate))[0])
            print(
                {
                    key: report[key]
                    for key in ("offered", "ok", "in_time", "errors")
                    if key in report
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--away", type=float, default=30)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    server = PostgresServer()
    server.start()
    try:
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
            folder = Path(name)
            settings = folder / "gateway.toml"
            settings.write_text(f'[gateway]\nstore.url = "{server.url()}"\nlog_level = "error"\n')
            found = []
            for number in range(2):
                file = folder / f"gateway-{number}.json"
                flags = ["--port=0", "--control-port=0", "--http-port=0", "--insecure-no-auth",
                         f"--address-file={file}", f"--config={settings}"]  # fmt: skip
                gateway = stack.enter_context(process("-m", "headway", "gateway", *flags))
                found.append(wait_for(file, gateway))
            controls = [addresses["control"] for addresses in found]
            for number in range(2):
                config = folder / f"w{number}.toml"
                text = WORKER.format(number=number, control='", "'.join(controls))
                config.write_text(text.replace('"warning"', '"error"'))
                stack.enter_context(process("-m", "headway", "worker", f"--config={config}"))
            data = [addresses["data"] for addresses in found]
            asyncio.run(measure(server, controls, data, options.away, options.clients))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
