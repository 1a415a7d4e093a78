"""Three times too much work: what is still served, for whom, and how late the rest is told.

Question:  at 3x capacity, is goodput at least 90 % of that at capacity, are critical requests on
           time, is nobody answered late, and do tenants get their shares?
Workload:  one gateway with keys, one simulated replica (`--intercept` + `--slope` a unit, 8 %
           noise), open loop of Poisson arrivals over unary calls: sizes round(exp(4.8 + 0.9 N))
           in [16, 4096] units, 30 % within `--urgent` and 70 % within `--relaxed`, classes 20 %
           critical, 30 % standard, 50 % sheddable; four tenants of weight 1, of which the first
           sends half of all requests. First at capacity, then at `--factor` times that, on the
           same fleet. Capacity is what full batches of 32 average requests would do.
           The deadline is the request's `slo`; the call itself has 5 s more, so that lateness is
           the gateway's. It counts from the instant a request was due.
Machine:   two cores, which the load generator shares.
Command:   python -m bench.load.overload [--seconds 60] [--factor 3] [--json FILE]
Aims:      goodput ratio >= 0.9, worst lateness <= 100 ms, critical on time >= 0.99.
"""

import argparse
import asyncio
import json
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from bench.load.overhead import process, wait_for, wait_ready
from headway.apikey import digest_of, new_key
from headway.client import Client
from headway.client.errors import GatewayUnreachable, UnexpectedStatus
from headway.errors import RequestError
from headway.v1 import inference_pb2, types_pb2

TENANTS = ("flood", "b", "c", "d")
TENANT_SHARES = (0.5, 1 / 6, 1 / 6, 1 / 6)
CLASSES = ("critical", "standard", "sheddable")
CLASS_SHARES = (0.2, 0.3, 0.5)
MEAN_UNITS = math.exp(4.8 + 0.9**2 / 2)
BATCH = 32
GRACE_S = 5.0
WARM_UP_S = 10.0


@dataclass
class Phase:
    """What one rate of arrivals led to; the warm-up is left out."""

    rate_per_s: float
    offered: Counter[str] = field(default_factory=Counter)
    in_time: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    worst_lateness_ms: float = -math.inf
    worst_send_ms: float = 0.0
    goodput_per_s: float = 0.0


@dataclass(frozen=True)
class Work:
    """One request."""

    due_s: float
    tenant: str
    priority: int
    units: int
    deadline_s: float


def draw(options: argparse.Namespace, rate: float, seconds: float, seed: int) -> list[Work]:
    """Arrivals of a phase, the warm-up included."""
    chance, now, works = random.Random(seed), 0.0, []
    while (now := now + chance.expovariate(rate)) < WARM_UP_S + seconds:
        units = round(math.exp(4.8 + 0.9 * chance.gauss(0, 1)))
        works.append(
            Work(
                now,
                chance.choices(TENANTS, TENANT_SHARES)[0],
                1 + chance.choices(range(3), CLASS_SHARES)[0],
                min(max(units, 16), 4096),
                (options.urgent if chance.random() < 0.3 else options.relaxed) / 1e3,
            )
        )
    return works


def rule_of(error: Exception) -> str:
    """Which step of admission refused; "" where none did."""
    return error.metadata.get("rule", "") if isinstance(error, RequestError) else ""


async def send(client: Client, work: Work, started: float, phase: Phase) -> None:
    """Sends one request and counts how it ends."""
    now = time.perf_counter() - started
    seconds, nanos = divmod(max(1, round((work.deadline_s - (now - work.due_s)) * 1e9)), 10**9)
    request = inference_pb2.InferRequest(
        model="sim",
        input=types_pb2.Input(text="abcd" * work.units),
        priority=work.priority,  # type: ignore[arg-type]  # an enum by its number
        slo=Duration(seconds=seconds, nanos=nanos),
    )
    try:
        await client.infer(request, timeout_s=work.deadline_s + GRACE_S)
        outcome = "ok"
    except (RequestError, GatewayUnreachable, UnexpectedStatus) as error:
        outcome = " ".join((error.reason, rule_of(error)))
    late_ms = 1e3 * (time.perf_counter() - started - work.due_s - work.deadline_s)
    if work.due_s < WARM_UP_S:
        return
    name = CLASSES[work.priority - 1]
    phase.worst_send_ms = max(phase.worst_send_ms, 1e3 * (now - work.due_s))
    phase.worst_lateness_ms = max(phase.worst_lateness_ms, late_ms)
    phase.offered[name] += 1
    phase.outcomes[outcome] += 1
    if outcome == "ok" and late_ms <= 0:
        phase.in_time[name] += 1
        phase.units[work.tenant] += work.units


async def run_phase(
    options: argparse.Namespace, address: str, keys: dict[str, str], rate: float, seed: int
) -> Phase:
    """Offers `rate` requests a second and waits for the last answer."""
    phase = Phase(rate)
    works = draw(options, rate, options.seconds, seed)
    clients = {tenant: Client(address, api_key=key) for tenant, key in keys.items()}
    started, calls = time.perf_counter(), []
    for work in works:
        wait = work.due_s - (time.perf_counter() - started)
        if wait > 0:
            await asyncio.sleep(wait)
        calls.append(asyncio.ensure_future(send(clients[work.tenant], work, started, phase)))
    await asyncio.gather(*calls)
    for client in clients.values():
        await client.close()
    phase.goodput_per_s = phase.in_time.total() / options.seconds
    return phase


def configure(folder: Path, options: argparse.Namespace) -> tuple[Path, dict[str, str]]:
    """Writes the gateway's configuration; returns it and each tenant's key."""
    keys, lines = {}, ["[gateway]", 'fleet_token = "bench"', 'log_level = "error"']
    lines += ["port = 0", "control_port = 0", "http_port = 0"]
    lines += ["[gateway.store]", 'url = "sqlite://"']
    for tenant in TENANTS:
        keys[tenant], key_id = new_key()
        digest = digest_of(keys[tenant]).hex()
        lines += [f"[gateway.tenants.{tenant}]", f"[[gateway.tenants.{tenant}.keys]]"]
        lines += [f'key_id = "{key_id}"', f'sha256 = "{digest}"']
    (folder / "gateway.toml").write_text("\n".join(lines) + "\n")
    return folder / "gateway.toml", keys


def worker_config(folder: Path, control: str, options: argparse.Namespace) -> Path:
    path = folder / "worker.toml"
    path.write_text(
        f'[worker]\nworker_id = "w1"\ngateways = ["{control}"]\nfleet_token = "bench"\n'
        'log_level = "error"\n[[worker.models]]\nmodel = "sim"\n[worker.models.runtime]\n'
        f'kind = "simulated"\nintercept_ms = {options.intercept}\n'
        f"slope_ms_per_unit = {options.slope}\njitter_ratio = 0.08\n"
    )
    return path


def run(options: argparse.Namespace) -> tuple[Phase, Phase]:
    """Both phases on one fleet."""
    mean_ms = options.intercept + BATCH * MEAN_UNITS * options.slope
    capacity = BATCH / mean_ms * 1e3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, keys = configure(folder, options)
        told = folder / "gateway.json"
        arguments = ("-m", "headway", "gateway", "--config", str(config))
        with process(*arguments, "--address-file", str(told)) as gateway:
            addresses = wait_for(told, gateway)
            worker = worker_config(folder, addresses["control"], options)
            with process("-m", "headway", "worker", "--config", str(worker)):
                wait_ready(addresses["data"], keys["b"])
                phases = [
                    asyncio.run(run_phase(options, addresses["data"], keys, rate, seed))
                    for seed, rate in enumerate((capacity, options.factor * capacity))
                ]
    return phases[0], phases[1]


def show(phases: Sequence[Phase]) -> None:
    for phase in phases:
        print(
            f"{phase.rate_per_s:.0f}/s offered: {phase.goodput_per_s:.1f}/s in time; worst "
            f"lateness {phase.worst_lateness_ms:.1f} ms; sent at most "
            f"{phase.worst_send_ms:.1f} ms after due"
        )
        for name in CLASSES:
            share = phase.in_time[name] / max(1, phase.offered[name])
            print(f"  {name:<10} {share:.4f} of {phase.offered[name]} on time")
        total = max(1, phase.units.total())
        shares = ", ".join(f"{name} {phase.units[name] / total:.3f}" for name in TENANTS)
        print(f"  units in time by tenant: {shares}")
        print(f"  outcomes: {dict(phase.outcomes.most_common())}")
    ratio = phases[1].goodput_per_s / phases[0].goodput_per_s
    print(f"goodput at overload / at capacity: {ratio:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="of each phase, after 10 s")
    parser.add_argument("--factor", type=float, default=3, help="overload, times capacity")
    parser.add_argument("--intercept", type=float, default=36, help="ms a batch")
    parser.add_argument("--slope", type=float, default=0.044, help="ms a unit")
    parser.add_argument("--urgent", type=float, default=800, help="ms, of 30 %% of requests")
    parser.add_argument("--relaxed", type=float, default=3000, help="ms, of the others")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    phases = run(options)
    show(phases)
    if options.json:
        options.json.write_text(json.dumps([vars(phase) for phase in phases], indent=1))


if __name__ == "__main__":
    main()
