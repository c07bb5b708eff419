"""Traces of runs for OpenTelemetry: runs, supersteps, node attempts, steps, and calls of models, tools and subgraphs.

A call of a graph creates a trace, or becomes part of its caller's trace. A run that is resumed creates a further trace,
which has the same attribute `statewright.run_id`.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.clock import Clock, SystemClock, microseconds
from statewright.data.mappings import without_none
from statewright.errors import code_of
from statewright.events import Event
from statewright.extras import optional
from statewright.lru_cache import LRUCache
from statewright.observe.event_facts import Key, error_of, graph_name, is_failure, run_key, task_key
from statewright.observe.gen_ai import model_attributes, tool_attributes
from statewright.redaction import Redactor
from statewright.runtime import Instrument
from statewright.runtime.invocation.outcome import Pause
from statewright.runtime.tasks.scope import observed_scope

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

MAX_OPEN_SPANS: Final = 10_000
"""Maximum number of open spans of each kind. If there are more, the oldest are dropped: their work was abandoned."""


class Tracing(Instrument):
    """Creates spans for runs, with the global tracer provider unless one is given.

    Pass it to `compile(instruments=[...])`. While a node runs, its span is the current one, so that spans opened by the
    node are nested in it. `config={"metadata": {"traceparent": ...}}` sets a remote parent. Error messages are
    redacted. Raises InvalidConfig if OpenTelemetry is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._spans = Spans(tracer_provider, redactor or Redactor())
        self._clock = clock or SystemClock()
        self._runs: LRUCache[Key, OpenSpan] = LRUCache(MAX_OPEN_SPANS)
        self._supersteps: LRUCache[Key, OpenSpan] = LRUCache(MAX_OPEN_SPANS)
        self._attempts: LRUCache[Key, OpenSpan] = LRUCache(MAX_OPEN_SPANS)
        self._steps: LRUCache[Key, OpenSpan] = LRUCache(MAX_OPEN_SPANS)
        self._latest_attempts: LRUCache[Key, OpenSpan] = LRUCache(MAX_OPEN_SPANS)
        """The latest attempt of each run. If it ran alone, its span may still be current when the run is aborted."""

    # -- runs and supersteps

    def on_run_started(self, event: Event) -> None:
        metadata = _caller_metadata(event)
        parent = self._spans.remote_context(metadata) if metadata else None
        name = f"run {graph_name(event)}"
        self._runs.put(run_key(event), self._spans.open(name, _attributes(event), self._now, parent=parent))

    def on_run_finished(self, event: Event) -> None:
        outcome = event.data
        error = outcome.error if outcome.status == "failed" else None
        # If a node raised the error, the span of its attempt already has the traceback.
        self._end_run(event, outcome.status, error, with_traceback=outcome.node is None)

    def on_run_broken_off(self, event: Event) -> None:
        error = event.data if isinstance(event.data, Exception) else None
        self._end_run(event, "cancelled" if error is None else "failed", error)

    def _end_run(self, event: Event, status: str, error: BaseException | None, *, with_traceback: bool = True) -> None:
        key, now = run_key(event), self._now
        latest, superstep, run = self._latest_attempts.pop(key), self._supersteps.pop(key), self._runs.pop(key)
        if latest is not None:
            self._spans.leave(latest)  # the latest attempt may have ended without an event
        if superstep is not None:
            self._spans.close(superstep, now)
        if run is not None:
            run.span.set_attribute("statewright.status", status)
            self._spans.close(run, now, error=error, with_traceback=with_traceback)

    def on_superstep(self, event: Event) -> None:
        key, now = run_key(event), self._now
        previous = self._supersteps.pop(key)
        if previous is not None:
            self._spans.close(previous, now)
        parent = self._spans.context_with(self._runs.get(key))
        attributes = {**_attributes(event), "statewright.tasks": len(event.data)}
        self._supersteps.put(key, self._spans.open(f"superstep {event.step}", attributes, now, parent=parent))

    # -- attempts

    def on_task_started(self, event: Event) -> None:
        self._begin_attempt(event, event.attempt, self._now)

    def on_attempt_failed(self, event: Event) -> None:
        error, delay = event.data
        failed_span = self._attempts.pop(task_key(event))
        if failed_span is not None:
            self._spans.leave(failed_span)
            self._spans.close(failed_span, self._now, error=error)
        # The next attempt starts after a delay. No event reports its start, so its span is opened now, with a start
        # time in the future.
        self._begin_attempt(event, event.attempt + 1, nanoseconds(self._clock.now() + timedelta(seconds=delay)))

    def on_task_ended(self, event: Event) -> None:
        open_span = self._attempts.pop(task_key(event))
        if open_span is None:
            return
        self._spans.leave(open_span)
        if type(event.data) is Pause:
            open_span.span.set_attribute("statewright.outcome", "waiting")
        error = error_of(event)[0]
        self._spans.close(open_span, self._now, error=error if is_failure(error) else None)

    def _begin_attempt(self, event: Event, number: int, start_time: int) -> None:
        key = run_key(event)
        attributes = {
            **_attributes(event),
            "statewright.node": event.node,
            "statewright.task_id": event.task_id,
            "statewright.attempt": number,
        }
        if number == 0:  # attempts count from 1; 0 is a result from the cache
            attributes["statewright.cached"] = True
        parent = self._spans.context_with(self._supersteps.get(key) or self._runs.get(key))
        open_span = self._spans.open(f"node {event.node}", attributes, start_time, parent=parent)
        self._spans.enter(open_span)
        self._attempts.put(task_key(event), open_span)
        self._latest_attempts.put(key, open_span)

    # -- calls

    def on_step_started(self, event: Event) -> None:
        open_span = self._open_call(event, f"step {event.data[0]}", {}, self._now)
        self._spans.enter(open_span)
        self._steps.put((*task_key(event), *event.data), open_span)

    def on_step_finished(self, event: Event) -> None:
        name, ordinal, error = event.data
        open_span = self._steps.pop((*task_key(event), name, ordinal))
        if open_span is not None:
            self._spans.leave(open_span)
            self._spans.close(open_span, self._now, error=error if is_failure(error) else None)

    def on_model_called(self, event: Event) -> None:
        attributes = model_attributes(event.data)
        self._record_call(event, f"chat {attributes['gen_ai.request.model']}", attributes, is_client=True)

    def on_tool_called(self, event: Event) -> None:
        attributes = tool_attributes(event.data)
        self._record_call(event, f"execute_tool {attributes.get('gen_ai.tool.name', '')}", attributes)

    def _record_call(self, event: Event, name: str, attributes: Mapping[str, Any], *, is_client: bool = False) -> None:
        """Record the span of a model or tool call, which is reported after its end. Only tool calls report errors."""
        now = self._now
        start_time = now - int(float(event.data.get("seconds") or 0) * 1e9)
        open_span = self._open_call(event, name, attributes, start_time, is_client=is_client)
        if "error" in event.data:
            self._spans.mark_failed(open_span.span, "tool_error", str(event.data["error"]))
        self._spans.close(open_span, now)

    def _open_call(
        self, event: Event, name: str, attributes: Mapping[str, Any], start_time: int, *, is_client: bool = False
    ) -> OpenSpan:
        """Open a span within the current span, or within that of the attempt if no span is current."""
        parent = None if self._spans.has_current_span else self._spans.context_with(self._attempts.get(task_key(event)))
        all_attributes = {**_attributes(event), "statewright.node": event.node, **attributes}
        return self._spans.open(name, all_attributes, start_time, parent=parent, is_client=is_client)

    @property
    def _now(self) -> int:
        return nanoseconds(self._clock.now())


def _attributes(event: Event) -> dict[str, Any]:
    """Return the attributes that all spans of a run have."""
    attributes = {
        "statewright.run_id": event.run_id,
        "statewright.thread_id": event.thread_id,
        "statewright.graph": graph_name(event),
        "statewright.namespace": event.namespace or None,
        "statewright.step": event.step,
    }
    return without_none(attributes)


def _caller_metadata(event: Event) -> Mapping[str, Any] | None:
    """Return the metadata in the config of a starting run; None for a subgraph, or if the config has no metadata.

    The event does not contain the config, so the config is taken from the current scope.
    """
    scope = observed_scope()
    if event.namespace or scope is None or scope.run.run_id != event.run_id:
        return None
    metadata = scope.run.settings.config.get("metadata")
    return cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else None


# -- spans, in terms of OpenTelemetry
#
# The span of a node becomes the current span in the context in which the node runs, so that spans of user code are
# nested in it. Concurrent nodes have contexts of their own, which end with them. A node that runs alone shares the
# context of the run, so the previous span must become current again after the node. The token of a context variable
# cannot restore it: a node may end in another context than the one in which it began, where the token is invalid. In
# that context the node's span is not the current one, so `leave` has no effect, as it should.

_PARENT_HEADERS: Final = ("traceparent", "tracestate")


def nanoseconds(instant: datetime) -> int:
    """Return an instant in nanoseconds since the epoch."""
    return microseconds(instant) * 1000


@dataclass(slots=True)
class OpenSpan:
    """A span that has not ended."""

    span: Span
    start_time: int
    """In nanoseconds since the epoch, like all times of spans. It may be in the future."""
    outer_context: Context
    """The context in which the span was opened. It is restored when the span is no longer the current one."""


class Spans:
    """Opens and closes spans. The constructor raises MissingLibrary if OpenTelemetry is not installed."""

    def __init__(self, provider: TracerProvider | None, redactor: Redactor) -> None:
        with optional("Traces need", extra="otel"):
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        self._context = context
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._redactor = redactor
        self._tracer: Tracer = trace.get_tracer("statewright", tracer_provider=provider)

    def remote_context(self, metadata: Mapping[str, Any]) -> Context | None:
        """Return the context of a remote caller from its `traceparent`; None if that header is absent or invalid."""
        headers = {name: str(metadata[name]) for name in _PARENT_HEADERS if isinstance(metadata.get(name), str)}
        context = self._propagator.extract(headers, self._context.get_current()) if headers else None
        if context is None or not self._trace.get_current_span(context).get_span_context().is_remote:
            return None
        return context

    def context_with(self, parent: OpenSpan | None) -> Context | None:
        """Return a copy of the current context in which `parent` is the current span; None if `parent` is None."""
        return self._trace.set_span_in_context(parent.span) if parent is not None else None

    @property
    def has_current_span(self) -> bool:
        """True if any span is current, including spans of user code."""
        return self._trace.get_current_span().get_span_context().is_valid

    def open(
        self,
        name: str,
        attributes: Mapping[str, Any],
        start_time: int,
        *,
        parent: Context | None = None,
        is_client: bool = False,
    ) -> OpenSpan:
        """Start a span within `parent`, by default the current span. `is_client` marks a call to a remote service."""
        kind: SpanKind = self._trace.SpanKind.CLIENT if is_client else self._trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=start_time)
        return OpenSpan(span, start_time, self._context.get_current())

    def enter(self, open_span: OpenSpan) -> None:
        """Make a span the current one."""
        if open_span.span.get_span_context().is_valid:
            self._context.attach(self._trace.set_span_in_context(open_span.span))

    def leave(self, open_span: OpenSpan) -> None:
        """Restore the context in which a span was opened, if the span is the current one."""
        if self._trace.get_current_span() is open_span.span:
            self._context.attach(open_span.outer_context)

    def close(
        self, open_span: OpenSpan, end_time: int, *, error: BaseException | None = None, with_traceback: bool = True
    ) -> None:
        """End a span, and record the error that ended it, if any, including its traceback if `with_traceback`."""
        if end_time < open_span.start_time:  # the span of an attempt that was scheduled but never made is dropped
            return
        if error is not None:
            self._record_error(open_span.span, error, with_traceback=with_traceback)
        open_span.span.end(end_time)

    def _record_error(self, span: Span, error: BaseException, *, with_traceback: bool) -> None:
        message = self._redactor.text(str(error))
        if with_traceback and span.is_recording():
            stacktrace = self._redactor.text("".join(traceback.format_exception(error)))
            span.record_exception(error, {"exception.message": message, "exception.stacktrace": stacktrace})
        self.mark_failed(span, code_of(error), f"{type(error).__name__}: {message}")

    def mark_failed(self, span: Span, code: str, message: str) -> None:
        """Mark a span as failed, with the code of the error as its type."""
        span.set_attribute("error.type", code)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, self._redactor.text(message)))


# -- export, which the environment variables of OpenTelemetry configure

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The environment variables that set the endpoint for traces. If neither is set, nothing is exported."""


@contextmanager
def tracing_from_environment() -> Generator[Tracing | None]:
    """Export traces in batches by OTLP over HTTP for the duration of the block. Yields None if no endpoint is set.

    Remaining spans are sent at the end. `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and
    other variables have their usual meaning. Raises InvalidConfig without the libraries of the extra `otel`.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        yield None
        return
    with optional(f"{_ENDPOINTS[0]} is set, and traces need", extra="otel"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    name = os.environ.get("OTEL_SERVICE_NAME") or "statewright"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing(provider)
    finally:
        provider.shutdown()
