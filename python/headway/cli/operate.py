"""``headway status``, ``replicas``, ``split``, ``explain``, ``log-level`` and ``audit``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli import control, options
from headway.cli.connection import BY_OPTIONS, Connection
from headway.cli.exits import EXIT_CODES_HELP, command, usage

if TYPE_CHECKING:
    from rich.console import RenderableType

EPILOG = f"""
[bold]Examples[/bold]

headway status
headway replicas drain worker-1
headway split set minilm v1=0.9 v2=0.1
headway explain 5f1c9a02-3

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""

EXPLAIN_EPILOG = f"""
[bold]Examples[/bold]

headway explain 5f1c9a02-3
headway explain 5f1c9a02-3 --json

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
LOG_LEVEL_EPILOG = f"""
[bold]Examples[/bold]

headway log-level debug
headway log-level info --logger headway.gateway.fleet

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
STATUS_EPILOG = f"""
[bold]Examples[/bold]

headway status
headway status --address 10.0.0.1:50052 --json

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""
AUDIT_EPILOG = f"""
[bold]Examples[/bold]

headway audit --limit 50
headway audit --target acme

{control.ROLE_HELP}

{EXIT_CODES_HELP}
"""


def _group(text: str) -> typer.Typer:
    return typer.Typer(
        help=text, no_args_is_help=True, rich_markup_mode="rich", add_completion=False
    )


replicas = _group("List, drain and undrain replicas.")
split = _group("Show and change how traffic divides over versions.")


@command
@control.to_control
def status(
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show the state of a gateway: queues, replicas, splits, its store."""
    return control.ask(lambda c: c.state(), _state, connection, as_json=as_json)


@replicas.command("list", epilog=EPILOG)
@command
@control.to_control
def list_replicas(
    model: Annotated[str, typer.Option(metavar="NAME", help="Only of this model.")] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """List replicas, by name."""
    return control.ask(lambda c: c.replicas(model), _replicas, connection, as_json=as_json)


@replicas.command(epilog=EPILOG)
@command
@control.to_control
def drain(
    worker: control.Worker,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Send a worker no more work; what it has, it finishes. On every gateway of the store."""
    return control.ask(lambda c: c.drain(worker), _replicas, connection, as_json=as_json)


@replicas.command(epilog=EPILOG)
@command
@control.to_control
def undrain(
    worker: control.Worker,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Take a drain back."""
    return control.ask(lambda c: c.undrain(worker), _replicas, connection, as_json=as_json)


@split.command("show", epilog=EPILOG)
@command
@control.to_control
def show_split(
    model: control.Model,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show how a model's traffic divides over its versions."""
    return control.ask(lambda c: c.split(model), _split, connection, as_json=as_json)


@split.command("set", epilog=EPILOG)
@command
@control.to_control
def set_split(
    model: control.Model,
    shares: Annotated[
        list[str],
        typer.Argument(metavar="VERSION=SHARE...", help="They add up to 1: v1=0.9 v2=0.1."),
    ],
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Divide a model's traffic anew, on every gateway of the store."""
    wanted = _parsed(shares)
    return control.ask(
        lambda c: c.set_split(model, wanted),
        _split,
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def explain(
    request_id: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST_ID", help="As in the answer, or in the metadata of the error."
        ),
    ],
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Tell what happened to a request, and why. Ask the gateway that took it."""
    return control.ask(
        lambda c: c.explain(request_id),
        lambda answer: "\n".join(_escaped(sentence) for sentence in answer.sentences),
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def log_level(
    level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Argument(help="What to log.")
    ],
    logger: Annotated[
        str, typer.Option(metavar="NAME", help="Only this one: headway.gateway.fleet.")
    ] = "",
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Change how much a gateway logs, until it restarts."""
    return control.ask(
        lambda c: c.set_log_level(level, logger),
        lambda previous: f"{logger or 'headway'}: {previous} -> {level}",
        connection,
        as_json=as_json,
    )


@command
@control.to_control
def audit(
    target: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only of this tenant, key, model, worker or gateway."),
    ] = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="At most so many.")
    ] = 20,
    connection: Connection = BY_OPTIONS,
    as_json: options.AsJson = False,
) -> int:
    """Show who changed what, newest first."""
    return control.ask(
        lambda c: c.audit(target=target, limit=limit),
        _audit,
        connection,
        as_json=as_json,
    )


def _parsed(shares: Sequence[str]) -> dict[str, float]:
    wanted: dict[str, float] = {}
    for text in shares:
        version, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1
        if not version or not equals or not 0 <= value <= 1 or version in wanted:
            usage(f"{text!r} is not a share; write each version once, as v1=0.9")
        wanted[version] = value
    return wanted


def _state(state: Any) -> "RenderableType":
    from rich.console import Group

    writers = [pool for pool in state.pools if pool.HasField("streams")]
    streams = (_streams(writers), "") if writers else ()
    return Group(_gateway(state.gateway), "", _pools(state.pools), "", *streams,
                 _replicas(state.replicas), "", _splits(state.splits))  # fmt: skip


def _gateway(gateway: Any) -> "RenderableType":
    ready = "[green]ready[/green]" if gateway.ready else "[yellow]not ready[/yellow]"
    store = gateway.store
    reach = "[green]up[/green]" if store.up else "[red]away[/red]"
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(gateway.requests.items()))
    lines = [
        f"[bold]{gateway.gateway_id}[/bold] {ready}, version {gateway.software_version}, since "
        f"{control.instant(gateway.started_at)} UTC, configuration {gateway.config_generation}",
        f"store {_escaped(store.url)} {reach}, revision {store.revision}"
        f"{', leads rollouts' if store.leader else ''}",
        f"{gateway.inflight_requests:,} in flight; ended: {counts or 'none yet'}",
    ]
    return "\n".join(lines)


def _pools(pools: Sequence[Any]) -> "RenderableType":
    rows = [
        (
            f"{pool.model}/{pool.version}",
            "yes" if pool.ready else "no",
            f"{pool.queued_requests:,}",
            f"{pool.queued_units:,}",
            f"{pool.executing_batches:,}",
            _in_hand(pool),
            f"{control.ms(pool.cost.intercept)} + {pool.cost.slope_ns_per_unit / 1e6:.3f} ms/unit",
        )
        for pool in pools
    ]
    heads = ("pool", "ready", "queued", "units", "batches", "in hand", "learned cost")
    return control.table(*heads, rows=rows, empty="no model is known yet")


def _in_hand(pool: Any) -> str:
    """Requests queued and executing, of at most how many."""
    held = pool.inflight.critical + pool.inflight.standard + pool.inflight.sheddable
    return f"{held:,}/{pool.inflight_limit:,.0f}" if pool.inflight_limit else f"{held:,}"


def _streams(pools: Sequence[Any]) -> "RenderableType":
    rows = [
        (
            f"{pool.model}/{pool.version}",
            f"{pool.streams.waiting:,}",
            f"{pool.streams.writing:,}",
            f"{pool.streams.free_lanes:,}/{pool.streams.total_lanes:,}",
            f"{pool.streams.free_kv_units:,}/{pool.streams.total_kv_units:,}",
            control.ms(pool.streams.lane_wait),
            f"{pool.streams.expected_output_units:.0f} units",
        )
        for pool in pools
    ]
    heads = ("outputs of", "waiting", "writing", "free lanes", "free memory", "next lane in",
             "usual output")  # fmt: skip
    return control.table(*heads, rows=rows, empty="no model writes")


def _replicas(replicas: Sequence[Any]) -> "RenderableType":
    from headway.v1 import control_pb2

    rows = [
        (
            each.replica,
            _condition(control_pb2.ReplicaCondition.Name(each.condition), each),
            f"{each.outstanding_batches}/{each.max_outstanding_batches}",
            control.ms(each.latency) if each.HasField("latency") else "-",
            f"{each.speed:.2f}",
            _breaker(each),
            f"{each.completed_batches:,}",
            f"{each.failed_batches:,}",
            each.address,
        )
        for each in replicas
    ]
    heads = ("replica", "state", "busy", "latency", "speed", "breaker", "done", "failed", "address")
    return control.table(*heads, rows=rows, empty="no replica is registered")


def _breaker(replica: Any) -> str:
    """What its breaker lets through, and by which failures it judges."""
    from headway.v1 import control_pb2

    word = control_pb2.BreakerState.Name(replica.breaker).removeprefix("BREAKER_STATE_")
    word = word.lower().replace("_", "-")
    if replica.HasField("breaker_open_for"):
        word += f" {replica.breaker_open_for.ToMilliseconds() / 1000:.0f} s"
    if replica.recent_failures:
        word += f", {replica.recent_failures}/{replica.recent_outcomes} failed"
    return f"[red]{word}[/red]" if "open" in word else word


def _condition(name: str, replica: Any) -> str:
    word = name.removeprefix("REPLICA_CONDITION_").lower()
    word += " (operator)" if replica.drained_by_operator else ""
    return f"[green]{word}[/green]" if word == "ready" else f"[yellow]{word}[/yellow]"


def _split(split: Any) -> "RenderableType":
    return _splits([split])


def _splits(splits: Sequence[Any]) -> "RenderableType":
    from headway.v1 import control_pb2

    rows = [
        (
            split.model,
            ", ".join(f"{each.version} {control.share(each.share)}" for each in split.shares)
            or "-",
            control_pb2.TrafficSplitSource.Name(split.source)
            .removeprefix("TRAFFIC_SPLIT_SOURCE_")
            .lower(),
        )
        for split in splits
    ]
    return control.table("model", "split", "set by", rows=rows, empty="no model is known yet")


def _audit(entries: Sequence[Any]) -> "RenderableType":
    rows = [
        (
            str(entry.revision),
            control.instant(entry.changed_at),
            f"{entry.tenant}/{entry.key_id}" if entry.key_id else entry.tenant,
            entry.action,
            f"{entry.kind} {entry.target}",
            _escaped(_difference(entry)),
        )
        for entry in entries
    ]
    heads = ("no.", "when (UTC)", "who", "what", "of", "change")
    return control.table(*heads, rows=rows, empty="nothing was changed yet")


def _difference(entry: Any) -> str:
    """Only what differs between before and after."""
    before, after = control.plain(entry.before) or {}, control.plain(entry.after) or {}
    if not entry.HasField("before") or not entry.HasField("after"):
        return ""
    changed = [key for key in sorted({**before, **after}) if before.get(key) != after.get(key)]
    return ", ".join(
        f"{key.removesuffix('_ns')}: {_value(key, before)} -> {_value(key, after)}"
        if key in before
        else _value(key, after)
        for key in changed
    )


def _value(key: str, side: Mapping[str, Any]) -> str:
    """A value of the audit log for people: instants as time, lists as their items."""
    value = side.get(key)
    if value is None:
        return "none"
    if key.endswith("_at_ns"):
        from google.protobuf.timestamp_pb2 import Timestamp

        return control.instant(Timestamp(seconds=int(value) // 1_000_000_000)) + " UTC"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
