"""How a load test is shown: a line while it runs, a table at its end."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headway.clock import Clock
from headway.loadtest import LoadPlan, LoadReport, LoadRun

REFRESH_NS = 500_000_000
_NS_PER_MS = 1e6


async def show_progress(run: LoadRun, clock: Clock) -> None:
    """Keeps a line on standard error up to date until cancelled. Only on a terminal."""
    if not sys.stderr.isatty():
        return
    # Not refreshed by a thread of rich's own: it would take the interpreter from the load.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        answered, at_ns = 0, clock.now_ns()
        while True:
            await clock.sleep(REFRESH_NS)
            now_ns = clock.now_ns()
            rate = (run.tally.ok - answered) * 1e9 / max(now_ns - at_ns, 1)
            answered, at_ns = run.tally.ok, now_ns
            live.update(progress_line(run, rate), refresh=True)


def progress_line(run: LoadRun, rate_per_s: float) -> Text:
    """What is going on, in one line. `rate_per_s`: answers a second of late."""
    tally = run.tally
    warming = " warming up" if run.elapsed_ns < run.plan.warmup_ns else ""
    errors = tally.errors.by_size()
    failed = ", ".join(f"{reason} {count}" for reason, count in errors.items()) or "none"
    return Text(
        f"{run.elapsed_ns / 1e9:.0f}/{run.plan.total_ns / 1e9:.0f} s{warming}  "
        f"{rate_per_s:.0f}/s  in flight {run.in_flight}  ok {tally.ok}  errors {failed}  "
        f"p50 {tally.latency.quantile(0.5) / _NS_PER_MS:.0f} ms  "
        f"p95 {tally.latency.quantile(0.95) / _NS_PER_MS:.0f} ms",
        overflow="ellipsis",
        no_wrap=True,
    )


def as_table(result: LoadReport, plan: LoadPlan, seed: int) -> RenderableType:
    """The report for people."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("load", f"{_load(plan)} for {result.seconds:.1f} s, seed {seed}")
    table.add_row(
        "offered",
        f"{result.offered} ({_per_s(result.offered, result.seconds)}), "
        f"{result.dropped_by_client} of them dropped by this client",
    )
    table.add_row("answered", f"{result.ok} ({result.throughput_per_s:.1f}/s)")
    table.add_row(
        "goodput",
        f"{result.in_time} within the deadline ({result.goodput_per_s:.1f}/s), "
        f"{_percent(result.goodput_ratio)} of the offered",
    )
    for one in result.deadlines if len(result.deadlines) > 1 else ():
        share = one.in_time / one.offered if one.offered else 0
        table.add_row("", f"{one.deadline_ms:g} ms: {one.in_time}/{one.offered} {_percent(share)}")
    table.add_row("errors", _counts(result.errors, result.offered))
    table.add_row(
        "batches",
        f"mean {result.mean_batch:.1f} requests; closed by "
        f"{_counts(result.batch_reasons, result.ok)}",
    )
    table.add_row("versions", _counts(result.versions, result.ok))
    table.add_row("replicas", _counts(result.replicas, result.ok))
    table.add_row(
        "work",
        f"{result.units_per_s:.0f} units/s; hedged {result.hedged}, executed again "
        f"{result.repeated}",
    )
    if result.ok == 0:
        return Group(table, "", "no request was answered, so there are no times to tell")
    return Group(table, "", _latency_table(result))


def stream_table(streams: Mapping[str, Any]) -> Table:
    """What readers of outputs saw; `StreamTally.report`."""
    columns = list(streams["first_part_ms"])
    table = Table("ms", *columns, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, key in (("first part", "first_part_ms"), ("gap", "gap_ms")):
        table.add_row(name, *(f"{streams[key][column]:.1f}" for column in columns))
    objective = streams["objective_ms"]
    table.caption = (
        f"{streams['tokens_per_s']:.1f} tokens/s; {streams['good']} outputs "
        f"({_percent(streams['good_ratio'])} of the offered) with a first part within "
        f"{objective['first_part']:g} ms and a p95 gap within {objective['gap_p95']:g} ms"
    )
    table.caption_justify = "left"
    return table


def _latency_table(result: LoadReport) -> Table:
    columns = list(result.latency_ms)
    table = Table("ms", *columns, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, figures in (
        ("latency", result.latency_ms),
        ("queued", result.queued_ms),
        ("device", result.device_ms),
    ):
        table.add_row(name, *(f"{figures[column]:.1f}" for column in columns))
    return table


def _load(plan: LoadPlan) -> str:
    if plan.rate_per_s is None:
        return f"closed loop, {plan.clients} clients"
    return f"open loop, {plan.rate_per_s:g}/s {plan.arrivals}"


def _counts(counts: Mapping[str, int], whole: int) -> str:
    parts = [f"{name} {count} ({_percent(count / whole)})" for name, count in counts.items()]
    return ", ".join(parts) or "none"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def _per_s(count: int, seconds: float) -> str:
    return f"{count / seconds:.1f}/s" if seconds else "-"
