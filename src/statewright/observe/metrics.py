"""Metrics of runs for Prometheus.

As an instrument, `Metrics` measures runs of graphs. The service and the server report their own measurements by calling
its other methods. The number of user-defined label values is limited; see `LabelValues`.
"""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from statewright.clock import Clock, SystemClock
from statewright.errors import ConflictingWrites, InvalidUpdateError, MutatedState, StatewrightError, UnknownTarget
from statewright.events import Event
from statewright.extras import optional
from statewright.lru_cache import LRUCache
from statewright.observe.event_facts import Key, error_of, graph_name, is_failure, run_key, task_key
from statewright.observe.queue_gauges import OTHER, QueueGauges, ReadQueues
from statewright.runtime import Instrument

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import GaugeMetricFamily

_MAX_ENTRIES: Final = 10_000
"""Maximum number of running tasks and runs that are tracked. It is limited, as the end of some is never reported."""
_MAX_COMBINATIONS: Final = 200
"""Maximum number of combinations of user-defined label values per metric."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics(Instrument):
    """Measures runs, in a registry of its own unless one is given.

    Pass it to `compile(instruments=[...])`. Raises InvalidConfig if prometheus_client is not installed.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        clock: Clock | None = None,
        most_label_values: int = _MAX_COMBINATIONS,
    ) -> None:
        self.registry: CollectorRegistry = registry or import_prometheus().CollectorRegistry()
        self._clock = clock or SystemClock()
        self._meters = Meters(self.registry)
        self._refusals = RefusedUpdates()
        self._start_times: LRUCache[Key, float] = LRUCache(_MAX_ENTRIES)
        """Start times of running runs, supersteps and tasks."""
        self._workspaces: LRUCache[str, str] = LRUCache(_MAX_ENTRIES)
        """The workspace of each run, by run id."""
        self._graph_labels, self._model_labels, self._tool_labels, self._route_labels = (
            LabelValues(most_label_values) for _ in range(4)
        )
        self._node_labels = LabelValues(most_label_values)

    @property
    def content_type(self) -> str:
        """The media type of the result of `render`."""
        return import_prometheus().exposition.CONTENT_TYPE_PLAIN_0_0_4

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        text: bytes = import_prometheus().exposition.generate_latest(self.registry)
        return text

    # -- events of graphs

    def on_run_started(self, event: Event) -> None:
        if not event.namespace:
            self._start_timer(("run", *run_key(event)))

    def on_run_finished(self, event: Event) -> None:
        self._end_run(event, event.data.status)

    def on_run_broken_off(self, event: Event) -> None:
        self._end_run(event, "failed" if isinstance(event.data, Exception) else "cancelled")

    def _end_run(self, event: Event, status: str) -> None:
        self._end_superstep(event)
        self._count_refusal(event)
        seconds = None if event.namespace else self._elapsed(("run", *run_key(event)))
        if seconds is not None:
            self._meters.run_seconds.labels(*self._labels_of_graph(event), status).observe(seconds)

    def on_superstep(self, event: Event) -> None:
        self._end_superstep(event)
        self._start_timer(("superstep", *run_key(event)))

    def on_task_started(self, event: Event) -> None:
        self._start_timer(("task", *task_key(event)))

    def on_task_ended(self, event: Event) -> None:
        seconds = self._elapsed(("task", *task_key(event)))
        if seconds is not None:
            self._meters.step_seconds.labels(*self._labels_of_node(event)).observe(seconds)

    def on_task_finished(self, event: Event) -> None:
        self._count_refusal(event)
        if is_failure(error_of(event)[0]):
            self._meters.failed_attempts.labels(*self._labels_of_node(event)).inc()

    def on_attempt_failed(self, event: Event) -> None:
        self._count_refusal(event)
        self._meters.failed_attempts.labels(*self._labels_of_node(event)).inc()

    def on_commit(self, event: Event) -> None:
        size = event.data.size
        if size is not None:
            self._meters.checkpoint_size.labels(*self._labels_of_graph(event)).observe(size)

    def on_model_called(self, event: Event) -> None:
        data = event.data
        model = self._model_labels(data.get("model"), owner=self._owner(event))
        for direction in ("input", "output"):
            self._meters.tokens.labels(*model, direction).inc(data.get(f"{direction}_tokens") or 0)
        self._meters.cost.labels(*model).inc(float(data.get("cost") or 0))

    def on_tool_called(self, event: Event) -> None:
        outcome = "error" if "error" in event.data else "ok"
        self._meters.tool_calls.labels(
            *self._tool_labels(event.data.get("tool"), owner=self._owner(event)), outcome
        ).inc()

    # -- reports of a server

    def count_runs_by(self, counts: Counts) -> None:
        """Report the number of runs by status. `counts` is called whenever the metrics are read."""
        self.registry.register(CallbackGauge("statewright_runs", "Runs by their status.", "status", counts))

    def count_workers_by(self, counts: Counts) -> None:
        """Report the number of workers by status, as `count_runs_by` does."""
        self.registry.register(CallbackGauge("statewright_workers", "Workers by their status.", "status", counts))

    def report_queues(self, read: ReadQueues) -> None:
        """Report the runs that wait in queues, those that are claimed, and those that were set aside.

        `read` is called whenever the metrics are read.
        """
        self.registry.register(QueueGauges(read))

    def record_run_start(self, run_id: str, workspace_id: str) -> None:
        """Record that a worker starts a run. Its label values count towards the limit of its workspace."""
        self._workspaces.put(run_id, workspace_id)

    def record_queue_time(self, seconds: float) -> None:
        """Record for how many seconds a run was due before a worker started it."""
        self._meters.queue_seconds.observe(max(seconds, 0.0))

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record an HTTP request. `route` is the template of its path, without ids."""
        labels = self._route_labels(method if method in _METHODS else OTHER, route)
        self._meters.requests.labels(*labels, str(status)).inc()
        self._meters.request_seconds.labels(*labels).observe(seconds)

    @contextmanager
    def track_event_stream(self) -> Generator[None]:
        """Count a reader of an event stream while it is connected."""
        with self._meters.sse_clients.track_inprogress():
            yield

    def record_delivery(self, outcome: str) -> None:
        """Record an attempt to deliver a webhook message; `outcome` is a word such as `delivered` or `failed`."""
        self._meters.deliveries.labels(outcome).inc()

    def _labels_of_graph(self, event: Event) -> tuple[str, ...]:
        return self._graph_labels(graph_name(event), owner=self._owner(event))

    def _labels_of_node(self, event: Event) -> tuple[str, ...]:
        return self._node_labels(graph_name(event), event.node, owner=self._owner(event))

    def _owner(self, event: Event) -> str | None:
        return self._workspaces.get(event.run_id)

    def _start_timer(self, key: Key) -> None:
        self._start_times.put(key, self._clock.monotonic())

    def _elapsed(self, key: Key) -> float | None:
        """Remove a timer, and return the seconds since its start; None if there is no such timer."""
        start_time = self._start_times.pop(key)
        return None if start_time is None else max(self._clock.monotonic() - start_time, 0.0)

    def _end_superstep(self, event: Event) -> None:
        seconds = self._elapsed(("superstep", *run_key(event)))
        if seconds is not None:
            self._meters.superstep_seconds.observe(seconds)

    def _count_refusal(self, event: Event) -> None:
        refusal = self._refusals.find(event)
        if refusal is not None:
            node, error = refusal
            graph, label = self._node_labels(graph_name(event), node, owner=self._owner(event))
            self._meters.invalid_updates.labels(graph, label, error.code).inc()


# -- the metrics and their buckets

_SHORT_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""In seconds."""
_LONG_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""In seconds."""
_SIZE_BUCKETS: Final = tuple(float(4**power) for power in range(3, 15))
"""In bytes: from 64 bytes to 256 MiB."""


def import_prometheus() -> Any:
    """Import and return `prometheus_client`. Raises MissingLibrary."""
    with optional("Metrics need", extra="metrics"):
        import prometheus_client
    return prometheus_client


class Meters:
    """All metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        library = import_prometheus()

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return library.Counter(name, documentation, labels, registry=registry)

        def histogram(
            name: str, documentation: str, *labels: str, buckets: tuple[float, ...] = _SHORT_BUCKETS
        ) -> Histogram:
            return library.Histogram(name, documentation, labels, registry=registry, buckets=buckets)

        self.invalid_updates = counter(
            "graph_invalid_update_errors", "Refused updates of nodes.", "graph", "node", "code"
        )
        self.checkpoint_size = histogram(
            "graph_checkpoint_size_bytes", "Size of a commit.", "graph", buckets=_SIZE_BUCKETS
        )
        self.run_seconds = histogram(
            "statewright_run_seconds", "Duration of a call of a graph.", "graph", "status", buckets=_LONG_BUCKETS
        )
        self.superstep_seconds = histogram(
            "statewright_superstep_seconds", "Duration of a superstep, including its commit."
        )
        self.step_seconds = histogram(
            "statewright_step_seconds", "Duration of a task, including retries.", "graph", "node"
        )
        self.failed_attempts = counter("statewright_attempts_failed", "Failed attempts of nodes.", "graph", "node")
        self.queue_seconds = histogram(
            "statewright_queue_wait_seconds", "Time from the instant at which a run is due until a worker starts it."
        )
        self.tokens = counter("statewright_model_tokens", "Tokens of model calls.", "model", "direction")
        self.cost = counter("statewright_model_cost_usd", "Cost of model calls, in US dollars.", "model")
        self.tool_calls = counter("statewright_tool_calls", "Calls of tools by models.", "tool", "outcome")
        self.sse_clients: Gauge = library.Gauge(
            "statewright_sse_clients", "Connected readers of event streams.", registry=registry
        )
        self.requests = counter("statewright_http_requests", "HTTP requests.", "method", "route", "status")
        self.request_seconds = histogram("statewright_http_seconds", "Duration of a request.", "method", "route")
        self.deliveries = counter("statewright_webhook_deliveries", "Attempts to deliver webhook messages.", "outcome")


# -- limits on user-defined label values, whose number could overwhelm a metrics database

MAX_LENGTH: Final = 100
"""Maximum length of a label value, in characters. Longer values are cut."""
_MAX_PER_OWNER: Final = 50
"""Maximum number of combinations per metric that one owner may add."""


class LabelValues:
    """Limits the combinations of label values of a metric; later combinations are replaced by `other`.

    Each owner, such as a workspace, may add `max_per_owner` combinations; callers that name no owner may together add
    `max_combinations`.
    """

    def __init__(self, max_combinations: int, max_per_owner: int = _MAX_PER_OWNER) -> None:
        self._max_combinations = max_combinations
        self._max_per_owner = min(max_combinations, max_per_owner)
        self._combinations: set[tuple[str, ...]] = set()
        self._counts_by_owner: collections.Counter[str | None] = collections.Counter()
        """The number of combinations that each owner has added."""
        self._lock = threading.Lock()

    def __call__(self, *values: object, owner: str | None = None) -> tuple[str, ...]:
        """Return the values as labels; `other` for each of them if their combination is beyond the limit."""
        combination = tuple(str(value)[:MAX_LENGTH] for value in values)
        if combination in self._combinations:
            return combination
        with self._lock:
            if self._counts_by_owner[owner] >= (self._max_combinations if owner is None else self._max_per_owner):
                return (OTHER,) * len(combination)
            if combination not in self._combinations:  # another thread may have added it since
                self._combinations.add(combination)
                self._counts_by_owner[owner] += 1
        return combination


# -- gauges that are computed on demand

Counts = Callable[[], Mapping[str, float]]
"""Returns the values of a gauge, by the value of its label."""


class CallbackGauge:
    """A gauge with one label, whose values are computed by a callback when the metrics are read."""

    def __init__(self, name: str, documentation: str, label: str, counts: Counts) -> None:
        self._name = name
        self._documentation = documentation
        self._label = label
        self._counts = counts

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric without values, because registering it must not call the callback."""
        return [self._family()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric with its values. If the callback fails, it has none, so that other metrics are reported."""
        family = self._family()
        try:
            for value, count in self._counts().items():
                family.add_metric([value], count)
        except Exception:
            logger = logging.getLogger("statewright.observe")
            logger.exception("The values of metric %s could not be computed.", self._name)
        return [family]

    def _family(self) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily  # a registry implies that the library is installed

        return GaugeMetricFamily(self._name, self._documentation, labels=[self._label])


# -- refused updates
#
# The error of a task is reported when its attempt fails, when its run ends, and by each enclosing graph. All of these
# events contain the same error object, so it can be counted once.

_REFUSALS: Final = (InvalidUpdateError, ConflictingWrites, UnknownTarget, MutatedState)
"""The errors for results of nodes that cannot be applied to the state, or that name an unknown target."""


class RefusedUpdates:
    """Finds refused updates in events, each only once."""

    def __init__(self) -> None:
        self._reported: WeakSet[BaseException] = WeakSet()
        self._lock = threading.Lock()

    def find(self, event: Event) -> tuple[str, StatewrightError] | None:
        """Return the node and the error of a refused update; None if there is none, or if it was returned before."""
        error, node = error_of(event)
        if not isinstance(error, _REFUSALS):
            return None
        with self._lock:
            if error in self._reported:
                return None
            self._reported.add(error)
        return _node_label(error, node), error


def _node_label(error: StatewrightError, node: str | None) -> str:
    if isinstance(error, ConflictingWrites):
        return "+".join(sorted(error.nodes))
    return node or ""
