"""``headway loadtest``."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli import options
from headway.cli.connection import BY_OPTIONS, Connection, to_data
from headway.cli.exits import EXIT_CODES_HELP, Exit, command, usage
from headway.cli.stream import OUTPUT, MaxTokens

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine

    from headway.loadtest import LoadPlan, LoadReport, LoadRun, SizeDistribution
    from headway.loadtest.stream import StreamObjective, StreamTally
    from headway.v1.inference_pb2 import InferRequest

LOAD = "Load"
REQUESTS = "Requests"

EPILOG = f"""
[bold]Examples[/bold]

[dim]# 32 clients, each sending its next request once the last is answered[/dim]
headway loadtest --clients 32 --seconds 20

[dim]# 200 requests a second whether or not they are answered, 30 % of them urgent[/dim]
headway loadtest --rate 200 --deadline-mix 120ms:0.3,900ms:0.7 --seconds 60

[dim]# The same for a program, over one multiplexed stream a channel[/dim]
headway loadtest --rate 200 --stream-mode many --json report.json

[dim]# Outputs: four readers of a model that writes[/dim]
headway loadtest --model smollm2 --stream --clients 4 --max-tokens 64 --deadline-mix 60s

Goodput is the share of offered requests that were answered within their deadline. In an open loop
(--rate) latency counts from the instant a request was due, so a stall is measured in full.

{EXIT_CODES_HELP}
"""


@command
@to_data
def loadtest(
    connection: Connection = BY_OPTIONS,
    clients: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Closed loop: so many requests in flight. [dim]Default: 32, without --rate.[/dim]",
            rich_help_panel=LOAD,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="PER_S",
            min=0.001,
            max=1_000_000,
            help="Open loop: requests offered a second. [dim]Default: a closed loop.[/dim]",
            rich_help_panel=LOAD,
        ),
    ] = None,
    arrivals: Annotated[
        Literal["poisson", "constant"],
        typer.Option(help="Open loop: random gaps, or equal ones.", rich_help_panel=LOAD),
    ] = "poisson",
    seconds: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0.1,
            max=1_000_000,
            help="Length of the measured part, in s.",
            rich_help_panel=LOAD,
        ),
    ] = 10,
    warmup: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0,
            max=1_000_000,
            help="Length of the part before it, sent but not counted, in s.",
            rich_help_panel=LOAD,
        ),
    ] = 1,
    max_in_flight: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=16_000_000,
            help="Open loop: what goes beyond is not sent, and reported as dropped_by_client.",
            rich_help_panel=LOAD,
        ),
    ] = 4096,
    channels: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=64, help="Connections.", rich_help_panel=LOAD),
    ] = 2,
    stream_mode: Annotated[
        Literal["unary", "many"],
        typer.Option(
            help="A call for each request, or all on one InferMany stream a channel.",
            rich_help_panel=LOAD,
        ),
    ] = "unary",
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read outputs as they are written: time to the first part, gaps, tokens/s.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    max_tokens: MaxTokens = None,
    first_slo: Annotated[
        str,
        typer.Option(
            metavar="D",
            help="With --stream: longest good wait to the first part.",
            rich_help_panel=OUTPUT,
        ),
    ] = "2s",
    gap_slo: Annotated[
        str,
        typer.Option(
            metavar="D",
            help="With --stream: largest good p95 gap of an output.",
            rich_help_panel=OUTPUT,
        ),
    ] = "200ms",
    tell_slo: Annotated[
        bool,
        typer.Option(
            "--tell-slo",
            help="With --stream: requests carry --first-slo and --gap-slo as their targets.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    deadline_mix: Annotated[
        str,
        typer.Option(
            metavar="D:SHARE,...",
            help="Deadlines and their shares (120ms:0.3,900ms:0.7), or one deadline.",
            rich_help_panel=REQUESTS,
        ),
    ] = "5s",
    size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Work units of a request, 4 bytes of text each: fixed:N, uniform:LEAST,MOST or "
            "lognormal:MU,SIGMA,LEAST,MOST.",
            rich_help_panel=REQUESTS,
        ),
    ] = "lognormal:4.8,0.9,16,4096",
    text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Send this instead. [dim]Default: texts of --size.[/dim]",
            rich_help_panel=REQUESTS,
        ),
    ] = None,
    model: options.Model = "",
    version: options.Version = "",
    priority: options.Priority = "standard",
    lane: options.Lane = "interactive",
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Replays a load. [dim]Default: drawn, and reported.[/dim]"),
    ] = None,
    json_to: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the report as JSON; - for standard output. [dim]Default: a table.[/dim]",
        ),
    ] = None,
) -> int:
    """Lay load on a gateway and measure what comes back.

    Leaves with 0 if anything was answered.
    """
    from headway.client import text_input
    from headway.loadtest import LoadPlan, parse_deadline_mix, parse_duration_ns, parse_size
    from headway.loadtest.stream import StreamObjective
    from headway.v1.inference_pb2 import InferRequest

    if rate is not None and clients is not None:
        usage("--rate lays on an open loop and --clients a closed one; give one of them")
    try:
        mix, distribution = parse_deadline_mix(deadline_mix), parse_size(size)
        objective = StreamObjective(parse_duration_ns(first_slo), parse_duration_ns(gap_slo))
    except ValueError as error:
        usage(str(error))
    if json_to is not None and json_to != "-" and not _can_write(Path(json_to)):
        usage(f"--json cannot write {json_to}; name a file in a folder that exists")
    plan = LoadPlan(
        mix,
        seconds=seconds,
        warmup_seconds=warmup,
        rate_per_s=rate,
        arrivals=arrivals,
        clients=clients or 32,
        max_in_flight=max_in_flight,
    )
    template = InferRequest(
        model=model,
        version=version,
        input=None if text is None else text_input(text),
        priority=f"PRIORITY_{priority.upper()}",
        lane=f"LANE_{lane.upper()}",
    )
    if max_tokens is not None:
        template.max_output_units = max_tokens
    if tell_slo:
        template.targets.first_token.FromNanoseconds(objective.first_ns)
        template.targets.gap.FromNanoseconds(objective.gap_ns)
    run = _Session(
        connection, channels, stream_mode == "many", plan, template, distribution,
        objective if stream else None,
    )  # fmt: skip
    return run.execute(seed, json_to)


def _can_write(path: Path) -> bool:
    """True if a file can be made or replaced there, as far as can be told before a long run."""
    return os.access(path if path.exists() else path.absolute().parent, os.W_OK) and not (
        path.is_dir()
    )


class _Session:
    """One load test as the command line runs it."""

    def __init__(
        self,
        connection: Connection,
        num_channels: int,
        many: bool,
        plan: "LoadPlan",
        template: "InferRequest",
        size: "SizeDistribution",
        objective: "StreamObjective | None" = None,
    ) -> None:
        from headway.loadtest.stream import StreamTally

        self._streams = None if objective is None else StreamTally(objective)
        self._connection = connection
        self._num_channels = num_channels
        self._many = many
        self._plan = plan
        self._template = template
        self._size = size

    def execute(self, seed: int | None, json_to: str | None) -> int:
        """Runs it, reports it, and returns the exit code."""
        from headway.loadtest import report
        from headway.rng import fresh_root

        root = fresh_root() if seed is None else seed
        run, interrupted = _run_loop(self._measure(root))
        result = report(run)
        _write(result, root, run, json_to, self._streams)
        if interrupted:
            return Exit.INTERRUPTED
        if result.ok:
            return Exit.OK
        return Exit.UNAVAILABLE if set(result.errors) == {"UNREACHABLE"} else Exit.FAILED

    def _connect(self) -> list[Any]:
        from headway.client import Client, ManyStream

        kind = ManyStream if self._many else Client
        options = self._connection.client_options()
        return [kind(self._connection.address, **options) for _ in range(self._num_channels)]

    async def _measure(self, root: int) -> "tuple[LoadRun, bool]":
        import asyncio

        from headway.cli.load_view import show_progress
        from headway.clock import SystemClock
        from headway.loadtest import LoadRun, Workload
        from headway.rng import SeedTree

        seeds, callers = SeedTree(root), self._connect()
        workload = Workload(
            self._template, size=self._size, deadlines=self._plan.deadlines, seeds=seeds
        )
        clock = SystemClock()
        used = callers
        if self._streams is not None:
            from headway.loadtest.stream import StreamCaller

            count_from_ns = clock.now_ns() + self._plan.warmup_ns
            used = [
                StreamCaller(each, clock, self._streams, count_from_ns=count_from_ns)
                for each in callers
            ]
        run = LoadRun(
            self._plan, workload, used, clock=clock, arrivals_rng=seeds.stream("arrivals")
        )
        interrupted = False
        view = asyncio.ensure_future(show_progress(run, clock))
        try:
            await run.run()
        except asyncio.CancelledError:
            interrupted = True
        view.cancel()
        await asyncio.wait([view])
        for caller in callers:
            await caller.close()
        return run, interrupted


def _run_loop(
    measure: "Coroutine[Any, Any, tuple[LoadRun, bool]]",
) -> "tuple[LoadRun, bool]":
    import asyncio
    import signal

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        loop = runner.get_loop()
        task = loop.create_task(measure)
        # Not KeyboardInterrupt: what was measured until then is still to be reported.
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        return loop.run_until_complete(task)


def _loop_factory() -> "Callable[[], AbstractEventLoop]":
    """Uvloop where it is installed: the load shares the machine with what it measures."""
    import asyncio

    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _write(
    result: "LoadReport",
    root: int,
    run: "LoadRun",
    json_to: str | None,
    streams: "StreamTally | None",
) -> None:
    import dataclasses
    import json

    if json_to is not None:
        numbers = {"seed": root, **dataclasses.asdict(result)}
        if streams is not None:
            numbers["streams"] = streams.report(result.offered, result.seconds)
        text = json.dumps(numbers, indent=2)
        if json_to == "-":
            print(text)
        else:
            Path(json_to).write_text(text + "\n", encoding="utf-8")
    if json_to != "-":
        from rich.console import Console

        from headway.cli.load_view import as_table

        width = None if sys.stdout.isatty() else 100
        console = Console(width=width, highlight=False)
        console.print(as_table(result, run.plan, root))
        if streams is not None:
            from headway.cli.load_view import stream_table

            console.print(stream_table(streams.report(result.offered, result.seconds)))
