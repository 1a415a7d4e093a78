"""Metrics of the gRPC ports: what their bounds have ended."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class ConnectionReading:
    """What a port counts of its connections and their messages.

    Attributes:
      open: connections that are open now.
      full: connections closed at once, since there were as many as may be.
      silent: connections dropped for not answering a handshake or a ping.
      idle: connections closed for having had no call.
      overdue: calls ended because their message was not whole in time.
    """

    open: int = 0
    full: int = 0
    silent: int = 0
    idle: int = 0
    overdue: int = 0


@dataclass(frozen=True, slots=True)
class PortSource:
    """Where a port's numbers come from.

    Attributes:
      overdue: messages that the Python side of the port has waited for in vain.
      connections: of the native transport; None where grpc's core keeps its counts to itself.
    """

    overdue: Callable[[], int]
    connections: Callable[[], ConnectionReading] | None = None


class PortMetrics(Collector):
    """Connections and messages by port."""

    def __init__(self, ports: Mapping[str, PortSource]) -> None:
        """`ports`: by the name that is their label."""
        self._ports = dict(ports)

    def collect(self) -> Iterable[Metric]:
        """All families, for prometheus-client."""
        late = CounterMetricFamily(
            "headway_messages_overdue",
            "Calls ended because their message was not whole within limits.max_message_seconds.",
            labels=["port"],
        )
        open_now = GaugeMetricFamily(
            "headway_connections_open",
            "Connections open; of the native transport only.",
            labels=["port"],
        )
        ended = CounterMetricFamily(
            "headway_connections_ended",
            "Connections that a bound has ended: there were too many (full), no answer came "
            "(silent), or no call (idle); of the native transport only.",
            labels=["port", "reason"],
        )
        for port, source in self._ports.items():
            reading = source.connections() if source.connections else None
            late.add_metric([port], source.overdue() + (reading.overdue if reading else 0))
            if reading is None:
                continue
            open_now.add_metric([port], reading.open)
            for reason in ("full", "silent", "idle"):
                ended.add_metric([port, reason], getattr(reading, reason))
        yield from (late, open_now, ended)
