"""Client channels, with the options all of Headway's channels share."""

from collections.abc import Callable, Sequence

import grpc
from grpc import aio

from headway.rpc.tls import ChannelTls, channel_credentials

MIB = 1 << 20

Connect = Callable[[str], aio.Channel]
"""Opens a channel to host:port. Passed in, so that a simulation may connect without sockets."""


def channel_options(max_message_bytes: int) -> Sequence[tuple[str, int | str]]:
    """Options for long-lived channels inside a fleet.

    Keepalive finds a peer that went silent (a power cut, a lost route) within 15 s; the backoff
    is kept short, since a worker that restarts is wanted back at once. The least backoff is also
    the longest that one attempt may take, so it is not.
    """
    return (
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        # Without it the core waits a minute for the answer to a ping, whatever the line above says.
        ("grpc.http2.ping_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Channels to the same address would share a connection, and its loss, otherwise.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    )


def open_channel(
    address: str, tls: ChannelTls | None = None, *, max_message_bytes: int = 64 * MIB
) -> aio.Channel:
    """A channel to `address` (host:port). Connects when first used.

    Args:
      tls: None for plaintext.
      max_message_bytes: largest message sent or taken; -1 for gRPC's own bound of 2 GiB.
    """
    options = [*channel_options(max_message_bytes)]
    if tls is None:
        return aio.insecure_channel(address, options=options)
    if tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return aio.secure_channel(address, channel_credentials(tls.identity.current()), options=options)


__all__ = ["MIB", "Connect", "aio", "channel_options", "grpc", "open_channel"]
