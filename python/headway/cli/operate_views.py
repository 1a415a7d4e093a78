"""How answers of ControlService look: a gateway's state, replicas, splits and the audit log."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.cli import control

if TYPE_CHECKING:
    from rich.console import RenderableType


def state_view(state: Any) -> "RenderableType":
    """A gateway at a glance: itself, its queues, replicas and splits."""
    from rich.console import Group

    writers = [pool for pool in state.pools if pool.HasField("streams")]
    streams = (_streams(writers), "") if writers else ()
    return Group(_gateway(state.gateway), "", _pools(state.pools), "", *streams,
                 replicas_view(state.replicas), "", _splits(state.splits))  # fmt: skip


def _gateway(gateway: Any) -> "RenderableType":
    ready = "[green]ready[/green]" if gateway.ready else "[yellow]not ready[/yellow]"
    store = gateway.store
    reach = "[green]up[/green]" if store.up else "[red]away[/red]"
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(gateway.requests.items()))
    lines = [
        f"[bold]{gateway.gateway_id}[/bold] {ready}, version {gateway.software_version}, since "
        f"{control.instant(gateway.started_at)} UTC, configuration {gateway.config_generation}",
        f"store {escaped(store.url)} {reach}, revision {store.revision}"
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


def replicas_view(replicas: Sequence[Any]) -> "RenderableType":
    """A table of replicas."""
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


def split_view(split: Any) -> "RenderableType":
    """One model's split."""
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


def audit_view(entries: Sequence[Any]) -> "RenderableType":
    """A table of changes, and what differs by each."""
    rows = [
        (
            str(entry.revision),
            control.instant(entry.changed_at),
            f"{entry.tenant}/{entry.key_id}" if entry.key_id else entry.tenant,
            entry.action,
            f"{entry.kind} {entry.target}",
            escaped(_difference(entry)),
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


def escaped(text: str) -> str:
    """Text of others, in which no bracket is markup."""
    from rich.markup import escape

    return escape(text)
