"""Counts the streams that each address has open, so that one cannot take them all."""

from typing import Any

from headway.errors import QuotaExceeded

_PEER = "headway-peer"


def peer_of(context: Any) -> str:
    """Who calls, as gRPC tells it.

    A call that the native transport passed on to the server behind it comes through a local socket,
    and names its caller in its metadata.
    """
    peer: str = context.peer()
    if not peer.startswith("unix:"):
        return peer
    metadata = context.invocation_metadata() or ()
    return next((str(value) for name, value in metadata if name == _PEER), peer)


class PeerStreams:
    """At most so many streams an address. Memory is one number for each address with a stream."""

    def __init__(self, limit: int | None) -> None:
        """`limit`: >= 1; None for no limit."""
        self._limit = limit
        self._open: dict[str, int] = {}

    def enter(self, peer: str) -> str:
        """Counts a stream in; returns the key for `leave`.

        Args:
          peer: as gRPC tells it: "ipv4:10.0.0.1:4242".

        Raises:
          QuotaExceeded: the address has as many as are allowed.
        """
        host = peer.rpartition(":")[0]
        # Without a host it is a local socket.
        if self._limit is None or not host.startswith("ip"):
            return ""
        count = self._open.get(host, 0)
        if count >= self._limit:
            raise QuotaExceeded(
                f"{count} streams are open from this address, the most that one may have; close "
                "some, or raise gateway.limits.max_streams_per_peer",
                metadata={"limit_streams": str(self._limit)},
            )
        self._open[host] = count + 1
        return host

    def leave(self, key: str) -> None:
        """Counts a stream out."""
        if not key:
            return
        count = self._open[key] - 1
        if count:
            self._open[key] = count
        else:
            del self._open[key]

    def num_open(self) -> int:
        """Streams counted now, over all addresses."""
        return sum(self._open.values())
