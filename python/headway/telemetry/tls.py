"""Metrics of a process's certificate."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headway.tls.rotation import RotatingIdentity


class TlsMetrics(Collector):
    """When the certificate in force ends, and changes that could not be used."""

    def __init__(self, identity: RotatingIdentity) -> None:
        self._identity = identity

    def collect(self) -> Iterable[Metric]:
        """All families, for prometheus-client."""
        yield GaugeMetricFamily(
            "headway_tls_certificate_expires_seconds",
            "Validity left of the certificate in force.",
            value=self._identity.seconds_left(),
        )
        yield GaugeMetricFamily(
            "headway_tls_certificate_generation",
            "Number of the certificate in force, from 1 at the start.",
            value=self._identity.generation,
        )
        yield CounterMetricFamily(
            "headway_tls_changes_refused",
            "Changes of the certificate files that could not be used; the last good one stayed.",
            value=self._identity.num_refused,
        )
