"""What one connection may cost. The same settings for every gRPC port of a process."""

from pydantic import BaseModel, ConfigDict, Field


class ConnectionLimits(BaseModel):
    """Bounds of connections. Sizes of messages are `max_message_bytes`, beside this table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_concurrent_streams: int = Field(
        default=4096, ge=1, le=1_000_000, description="Calls at once on one connection."
    )
    max_connections: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="Connections open at once on one port; further ones are closed at once. 20,000 "
        "idle ones take some 0.5 GB, and each takes a file descriptor: see `ulimit -n`.",
    )
    max_connection_idle_seconds: float = Field(
        default=900,
        ge=0.05,
        le=1_000_000,
        description="A connection without a call for this long is closed; clients connect again by "
        "themselves. Fifteen minutes: beyond the pauses of a client that is in use.",
    )
    max_connection_age_seconds: float | None = Field(
        default=None,
        ge=0.05,
        le=1_000_000,
        description="A connection this old is asked to go, so that clients spread over gateways "
        "that were added. Default: never; a stream such as InferMany would end with it.",
    )
    max_connection_age_grace_seconds: float = Field(
        default=60,
        ge=0,
        le=86_400,
        description="Time that calls on a connection over its age have to finish.",
    )
    min_ping_interval_seconds: float = Field(
        default=5,
        ge=0,
        le=3600,
        description="Pings that come faster than this are strikes; at the third the connection is "
        "closed with ENHANCE_YOUR_CALM. Five: clients ping every 10 s at most, as gRPC advises.",
    )
    keepalive_seconds: float = Field(
        default=30,
        ge=0.05,
        le=86_400,
        description="A connection on which nothing was heard for this long is pinged.",
    )
    keepalive_timeout_seconds: float = Field(
        default=10,
        ge=0.05,
        le=3600,
        description="A ping that is not answered for this long closes the connection.",
    )
    max_metadata_bytes: int = Field(
        default=16_384,
        ge=1024,
        le=1 << 20,
        description="Largest header block of one call. Sixteen KiB: an API key, a trace context "
        "and a proxy's additions are 1 KiB.",
    )
    max_message_seconds: float = Field(
        default=60,
        gt=0,
        le=86_400,
        description="Time from a call's beginning to the end of its message, whatever its "
        "deadline. A minute: 64 MiB at 10 Mbit/s. Streams such as InferMany may be silent longer.",
    )
    write_buffer_bytes: int = Field(
        default=65_536,
        ge=1024,
        le=64 << 20,
        description="Bytes of answers handed to a connection that is not read, before the writer "
        "waits.",
    )
    max_streams_per_peer: int | None = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="Streaming calls (InferMany, InferStream, WatchState) open at once from one "
        "address, over all its connections. Callers behind one proxy share it.",
    )


NATIVE_LACKS = frozenset({"min_ping_interval_seconds"})
"""Bounds that the native transport does not know; its data port goes without them."""


def check_transport(transport: str, limits: ConnectionLimits) -> None:
    """Raises ValueError if somebody set a bound that the transport cannot keep."""
    lacking = sorted(NATIVE_LACKS & limits.model_fields_set)
    if transport == "native" and lacking:
        raise ValueError(
            f'transport is "native", which has no limits.{", limits.".join(lacking)}; set '
            'transport = "grpcio", or leave it out'
        )
