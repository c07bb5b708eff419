"""Traces of runs, for OpenTelemetry: run, superstep, attempt at a node, step, call of a model, a tool or a subgraph.

A call of a graph is one trace, or a part of the trace of whoever called it. A run that goes on later, or elsewhere,
makes another trace: the attribute `statewright.run_id` is what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from statewright.clock import Clock, SystemClock
from statewright.events import Event
from statewright.observe.bounded import BoundedMap
from statewright.observe.event_error import error_of, is_failure
from statewright.observe.event_keys import Key, graph_of, run_of, task_of
from statewright.observe.gen_ai import model_attributes, tool_attributes
from statewright.observe.spans import OpenSpan, Spans, nanoseconds
from statewright.redaction import Redactor
from statewright.runtime import Instrument
from statewright.runtime.core.effects import Pause
from statewright.runtime.tasks.scope import current_scope

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

MOST_OPEN: Final = 10_000
"""Spans of each kind that may be open at once; the oldest, of work that was abandoned, are forgotten."""


class Tracing(Instrument):
    """Makes spans of what runs do, by the global provider of traces unless one is given.

    Give it to `compile(instruments=[...])`. While a node runs its span is the current one, so that spans of its own lie
    within it. A caller elsewhere is the parent if `config={"metadata": {"traceparent": ...}}` names it. Texts of errors
    are redacted. Raises InvalidConfig if OpenTelemetry is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._spans = Spans(tracer_provider, redactor or Redactor())
        self._redactor = redactor or Redactor()
        self._clock = clock or SystemClock()
        self._runs: BoundedMap[Key, OpenSpan] = BoundedMap(MOST_OPEN)
        self._supersteps: BoundedMap[Key, OpenSpan] = BoundedMap(MOST_OPEN)
        self._attempts: BoundedMap[Key, OpenSpan] = BoundedMap(MOST_OPEN)
        self._steps: BoundedMap[Key, OpenSpan] = BoundedMap(MOST_OPEN)
        self._alone: BoundedMap[Key, OpenSpan] = BoundedMap(MOST_OPEN)
        """The attempt begun last of each run: where it runs alone it may be current when the run is broken off."""

    # -- runs and supersteps

    def on_run_started(self, event: Event) -> None:
        told = _told_by_caller(event)
        parent = self._spans.remote(told) if told else None
        name = f"run {graph_of(event)}"
        self._runs.put(run_of(event), self._spans.open(name, _attributes(event), self._now, parent=parent))

    def on_run_finished(self, event: Event) -> None:
        key, rest, now = run_of(event), event.data, self._now
        self._leave_last(key)
        error = rest.error if rest.status == "failed" else None
        superstep, run = self._supersteps.take(key), self._runs.take(key)
        if superstep is not None:
            self._spans.close(superstep, now)
        if run is not None:
            run.span.set_attribute("statewright.status", rest.status)
            self._spans.close(run, now, error=error, described=rest.node is None)

    def on_run_broken_off(self, event: Event) -> None:
        key, now = run_of(event), self._now
        self._leave_last(key)
        failed = event.data if isinstance(event.data, Exception) else None
        superstep, run = self._supersteps.take(key), self._runs.take(key)
        if superstep is not None:
            self._spans.close(superstep, now)
        if run is not None:
            run.span.set_attribute("statewright.status", "cancelled" if failed is None else "failed")
            self._spans.close(run, now, error=failed)

    def on_superstep(self, event: Event) -> None:
        key, now = run_of(event), self._now
        before = self._supersteps.take(key)
        if before is not None:
            self._spans.close(before, now)
        parent = self._spans.within(self._runs.get(key))
        attributes = {**_attributes(event), "statewright.tasks": len(event.data)}
        self._supersteps.put(key, self._spans.open(f"superstep {event.step}", attributes, now, parent=parent))

    # -- attempts

    def on_task_started(self, event: Event) -> None:
        self._begin_attempt(event, event.attempt, self._now)

    def on_attempt_failed(self, event: Event) -> None:
        error, delay = event.data
        before = self._attempts.take(task_of(event))
        if before is not None:
            self._spans.leave(before)
            self._spans.close(before, self._now, error=error)
        self._begin_attempt(event, event.attempt + 1, nanoseconds(self._clock.now() + timedelta(seconds=delay)))

    def on_task_ended(self, event: Event) -> None:
        opened = self._attempts.take(task_of(event))
        if opened is None:
            return
        self._spans.leave(opened)
        if type(event.data) is Pause:
            opened.span.set_attribute("statewright.outcome", "waiting")
        error = error_of(event)[0]
        self._spans.close(opened, self._now, error=error if is_failure(error) else None)

    def _begin_attempt(self, event: Event, number: int, began: int) -> None:
        key = run_of(event)
        attributes = {
            **_attributes(event),
            "statewright.node": event.node,
            "statewright.task_id": event.task_id,
            "statewright.attempt": number,
        }
        if number == 0:
            attributes["statewright.cached"] = True
        parent = self._spans.within(self._supersteps.get(key) or self._runs.get(key))
        opened = self._spans.open(f"node {event.node}", attributes, began, parent=parent)
        self._spans.enter(opened)
        self._attempts.put(task_of(event), opened)
        self._alone.put(key, opened)

    def _leave_last(self, run: Key) -> None:
        """The attempt before is over where its run goes on, also if nobody said so."""
        last = self._alone.take(run)
        if last is not None:
            self._spans.leave(last)

    # -- calls

    def on_step_started(self, event: Event) -> None:
        parent = None if self._spans.has_current else self._spans.within(self._attempts.get(task_of(event)))
        attributes = {**_attributes(event), "statewright.node": event.node}
        opened = self._spans.open(f"step {event.data[0]}", attributes, self._now, parent=parent)
        self._spans.enter(opened)
        self._steps.put((*task_of(event), *event.data), opened)

    def on_step_finished(self, event: Event) -> None:
        name, ordinal, error = event.data
        opened = self._steps.take((*task_of(event), name, ordinal))
        if opened is not None:
            self._spans.leave(opened)
            self._spans.close(opened, self._now, error=error if is_failure(error) else None)

    def on_model_called(self, event: Event) -> None:
        attributes = model_attributes(event.data)
        self._call(event, f"chat {attributes['gen_ai.request.model']}", attributes, calls=True)

    def on_tool_called(self, event: Event) -> None:
        attributes = tool_attributes(event.data)
        self._call(event, f"execute_tool {attributes.get('gen_ai.tool.name', '')}", attributes)

    def _call(self, event: Event, name: str, attributes: Mapping[str, Any], *, calls: bool = False) -> None:
        """A span of something that is told when it is over."""
        now = self._now
        began = now - int(float(event.data.get("seconds") or 0) * 1e9)
        parent = None if self._spans.has_current else self._spans.within(self._attempts.get(task_of(event)))
        known = {**_attributes(event), "statewright.node": event.node, **attributes}
        opened = self._spans.open(name, known, began, parent=parent, calls=calls)
        if "error" in event.data:
            self._spans.fail(opened.span, "tool_error", str(event.data["error"]))
        self._spans.close(opened, now)

    @property
    def _now(self) -> int:
        return nanoseconds(self._clock.now())


def _attributes(event: Event) -> dict[str, Any]:
    """What every span says."""
    found = {
        "statewright.run_id": event.run_id,
        "statewright.thread_id": event.thread_id,
        "statewright.graph": graph_of(event),
        "statewright.namespace": event.namespace or None,
        "statewright.step": event.step,
    }
    return {key: value for key, value in found.items() if value is not None}


def _told_by_caller(event: Event) -> Mapping[str, Any] | None:
    """The metadata that the caller of a graph gave along; the run that begins is that of the present scope."""
    scope = current_scope()
    if event.namespace or scope is None or scope.run.run_id != event.run_id:
        return None
    metadata = scope.run.settings.given.get("metadata")
    return cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else None
