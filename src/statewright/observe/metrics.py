"""Numbers about runs, for Prometheus.

As an instrument `Metrics` counts what graphs do; by its other methods a server tells what graphs cannot know. Values of
labels that users make up are bounded: see `label_values`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from statewright.clock import Clock, SystemClock
from statewright.events import Event
from statewright.observe.bounded import BoundedMap
from statewright.observe.event_error import error_of, is_failure
from statewright.observe.event_keys import Key, graph_of, run_of, task_of
from statewright.observe.gauges import AskedGauge, Counts
from statewright.observe.label_values import OTHER, LabelValues
from statewright.observe.meters import Meters, prometheus
from statewright.observe.refusals import Refusals
from statewright.runtime import Instrument

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MOST_VALUES: Final = 200
"""How many combinations of values that users make up one metric tells apart."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics(Instrument):
    """Counts and times what happens, in a registry of its own unless one is given.

    Give it to `compile(instruments=[...])`. Raises InvalidConfig if prometheus_client is not installed.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        clock: Clock | None = None,
        most_label_values: int = MOST_VALUES,
    ) -> None:
        self.registry: CollectorRegistry = registry or prometheus().CollectorRegistry()
        self._clock = clock or SystemClock()
        self._meters = Meters(self.registry)
        self._refusals = Refusals()
        self._began: BoundedMap[Key, float] = BoundedMap()
        """When runs, supersteps and tasks began that have not ended."""
        self._workspaces: BoundedMap[str, str] = BoundedMap()
        """By run, the workspace of its records."""
        self._graphs, self._models, self._tools, self._routes = (LabelValues(most_label_values) for _ in range(4))
        self._nodes = LabelValues(most_label_values)

    @property
    def content_type(self) -> str:
        """The media type of what `render` gives."""
        return prometheus().exposition.CONTENT_TYPE_PLAIN_0_0_4

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        text: bytes = prometheus().exposition.generate_latest(self.registry)
        return text

    # -- what graphs do

    def on_run_started(self, event: Event) -> None:
        if not event.namespace:
            self._begin(("run", *run_of(event)))

    def on_run_finished(self, event: Event) -> None:
        self._end_superstep(event)
        self._count_refusal(event)
        seconds = None if event.namespace else self._seconds(("run", *run_of(event)))
        if seconds is not None:
            graph = self._graph(event)
            self._meters.run_seconds.labels(*graph, event.data.status).observe(seconds)

    def on_superstep(self, event: Event) -> None:
        self._end_superstep(event)
        self._begin(("superstep", *run_of(event)))

    def on_task_started(self, event: Event) -> None:
        self._begin(("task", *task_of(event)))

    def on_task_ended(self, event: Event) -> None:
        seconds = self._seconds(("task", *task_of(event)))
        if seconds is not None:
            self._meters.step_seconds.labels(*self._node(event)).observe(seconds)

    def on_run_broken_off(self, event: Event) -> None:
        self._end_superstep(event)
        self._count_refusal(event)
        seconds = None if event.namespace else self._seconds(("run", *run_of(event)))
        if seconds is not None:
            status = "failed" if isinstance(event.data, Exception) else "cancelled"
            self._meters.run_seconds.labels(*self._graph(event), status).observe(seconds)

    def on_task_finished(self, event: Event) -> None:
        self._count_refusal(event)
        if is_failure(error_of(event)[0]):
            self._meters.failed_attempts.labels(*self._node(event)).inc()

    def on_attempt_failed(self, event: Event) -> None:
        self._count_refusal(event)
        self._meters.failed_attempts.labels(*self._node(event)).inc()

    def on_commit(self, event: Event) -> None:
        size = event.data.size
        if size is not None:
            self._meters.checkpoint_size.labels(*self._graph(event)).observe(size)

    def on_model_called(self, event: Event) -> None:
        told = event.data
        model = self._models(told.get("model"), owner=self._owner(event))
        for direction in ("input", "output"):
            self._meters.tokens.labels(*model, direction).inc(told.get(f"{direction}_tokens") or 0)
        self._meters.cost.labels(*model).inc(float(told.get("cost") or 0))

    def on_tool_called(self, event: Event) -> None:
        outcome = "error" if "error" in event.data else "ok"
        self._meters.tool_calls.labels(*self._tools(event.data.get("tool"), owner=self._owner(event)), outcome).inc()

    # -- what a server knows

    def count_runs_by(self, counts: Counts) -> None:
        """Ask `counts` for the number of runs in each status whenever somebody looks at the metrics."""
        self.registry.register(AskedGauge("statewright_runs", "Runs by their status.", "status", counts))

    def begins_run(self, run_id: str, workspace_id: str) -> None:
        """A worker begins with a run of a workspace, whose own share the names in its graph use."""
        self._workspaces.put(run_id, workspace_id)

    def waited_in_queue(self, seconds: float) -> None:
        """A worker has taken a run that had been due for so long."""
        self._meters.queue_seconds.observe(max(seconds, 0.0))

    def answered_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the template of its path, the same for all ids."""
        called = self._routes(method if method in _METHODS else OTHER, route)
        self._meters.requests.labels(*called, str(status)).inc()
        self._meters.request_seconds.labels(*called).observe(seconds)

    @contextmanager
    def sse_client(self) -> Generator[None]:
        """Count a reader of an event stream while it is connected."""
        with self._meters.sse_clients.track_inprogress():
            yield

    def tried_delivery(self, outcome: str) -> None:
        """The delivery of a webhook was tried; `outcome` is one of a few words, such as `delivered` and `failed`."""
        self._meters.deliveries.labels(outcome).inc()

    # -- parts of these

    def _graph(self, event: Event) -> tuple[str, ...]:
        return self._graphs(graph_of(event), owner=self._owner(event))

    def _node(self, event: Event) -> tuple[str, ...]:
        return self._nodes(graph_of(event), event.node, owner=self._owner(event))

    def _owner(self, event: Event) -> str | None:
        return self._workspaces.get(event.run_id)

    def _begin(self, what: Key) -> None:
        self._began.put(what, self._clock.monotonic())

    def _seconds(self, what: Key) -> float | None:
        """How long it took; None if nobody knows when it began."""
        began = self._began.take(what)
        return None if began is None else max(self._clock.monotonic() - began, 0.0)

    def _end_superstep(self, event: Event) -> None:
        seconds = self._seconds(("superstep", *run_of(event)))
        if seconds is not None:
            self._meters.superstep_seconds.observe(seconds)

    def _count_refusal(self, event: Event) -> None:
        found = self._refusals.found_in(event)
        if found is not None:
            node, error = found
            graph, label = self._nodes(graph_of(event), node, owner=self._owner(event))
            self._meters.invalid_updates.labels(graph, label, error.code).inc()
