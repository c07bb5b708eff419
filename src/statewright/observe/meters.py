"""The metrics by their names: what is counted, and in which steps times and sizes are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statewright.extras import optional

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds."""
_LONG: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds."""
_SIZES: Final = tuple(float(4**power) for power in range(3, 15))
"""Bytes: from 64 to 256 MiB."""


def prometheus() -> Any:
    """Import the library. Raises MissingLibrary."""
    with optional("Metrics need", extra="metrics"):
        import prometheus_client
    return prometheus_client


class Meters:
    """Everything that is counted, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        library = prometheus()

        def counter(name: str, told: str, *labels: str) -> Counter:
            return library.Counter(name, told, labels, registry=registry)

        def histogram(name: str, told: str, *labels: str, buckets: tuple[float, ...] = _QUICK) -> Histogram:
            return library.Histogram(name, told, labels, registry=registry, buckets=buckets)

        self.invalid_updates = counter(
            "graph_invalid_update_errors", "Updates of nodes that were refused.", "graph", "node", "code"
        )
        self.checkpoint_size = histogram(
            "graph_checkpoint_size_bytes", "Bytes that one commit took.", "graph", buckets=_SIZES
        )
        self.run_seconds = histogram(
            "statewright_run_seconds", "From the start of a call to its rest.", "graph", "status", buckets=_LONG
        )
        self.superstep_seconds = histogram("statewright_superstep_seconds", "Of one superstep, with its commit.")
        self.step_seconds = histogram(
            "statewright_step_seconds", "From the start of a task to its end.", "graph", "node"
        )
        self.failed_attempts = counter("statewright_attempts_failed", "Attempts that failed.", "graph", "node")
        self.queue_seconds = histogram(
            "statewright_queue_wait_seconds", "From the instant a run was due until a worker took it."
        )
        self.tokens = counter("statewright_model_tokens", "Tokens of model calls.", "model", "direction")
        self.cost = counter("statewright_model_cost_usd", "What model calls cost, in US dollars.", "model")
        self.tool_calls = counter("statewright_tool_calls", "Calls of tools by models.", "tool", "outcome")
        self.sse_clients: Gauge = library.Gauge(
            "statewright_sse_clients", "Readers of event streams.", registry=registry
        )
        self.requests = counter("statewright_http_requests", "Requests.", "method", "route", "status")
        self.request_seconds = histogram("statewright_http_seconds", "Of one request.", "method", "route")
        self.deliveries = counter(
            "statewright_webhook_deliveries", "Deliveries of webhooks that were tried.", "outcome"
        )
