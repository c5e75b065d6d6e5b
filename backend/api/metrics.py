"""What Prometheus reads. No label takes a value from a request's own text, nor a construct's id."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_progress = Gauge(
            "theatre_http_requests_in_progress", "Requests at work.", registry=self.registry
        )
        self._seconds = Histogram(
            "theatre_http_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route", "method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request under its route's path, as it is declared."""
        known = method if method in _METHODS else "other"
        self._seconds.labels(route, known, str(status)).observe(seconds)

    def render(self) -> bytes:
        """Return all of it in Prometheus's text format."""
        return generate_latest(self.registry)
