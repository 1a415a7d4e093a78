"""What Headway shows of itself: structured logs, and the HTTP port for metrics and probes."""
