"""Spans, and which of them is current: the only module that touches OpenTelemetry.

A span of a node is made current where the node runs, so that spans of the user lie within it. What runs beside others
has a context of its own, which ends with it; what runs alone shares that of the run, where the span before is made
current again. No tokens are kept for that: an end may come in another context than its beginning, and does no harm
there.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from statewright.extras import optional
from statewright.observe.event_error import code_of
from statewright.redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARENT: Final = ("traceparent", "tracestate")


def nanoseconds(instant: datetime) -> int:
    """An instant as spans count time."""
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000


@dataclass(slots=True)
class OpenSpan:
    """A span that has begun, and what was current before it."""

    span: Span
    began: int
    before: Context


class Spans:
    """Opens and closes spans. Raises MissingLibrary without OpenTelemetry."""

    def __init__(self, provider: TracerProvider | None, redactor: Redactor) -> None:
        with optional("Traces need", extra="otel"):
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        self._context = context
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._redactor = redactor
        self._tracer: Tracer = trace.get_tracer("statewright", tracer_provider=provider)

    def remote(self, told: Mapping[str, Any]) -> Context | None:
        """The context of a caller elsewhere, from the `traceparent` that it gave; None if it gave none that is one."""
        carried = {name: str(told[name]) for name in _PARENT if isinstance(told.get(name), str)}
        found = self._propagator.extract(carried, self._context.get_current()) if carried else None
        if found is None or not self._trace.get_current_span(found).get_span_context().is_remote:
            return None
        return found

    def within(self, parent: OpenSpan | None) -> Context | None:
        """The present context with a span as the current one; as it is if there is no span."""
        return self._trace.set_span_in_context(parent.span) if parent is not None else None

    @property
    def has_current(self) -> bool:
        """Whether some span is current, whoever made it."""
        return self._trace.get_current_span().get_span_context().is_valid

    def open(
        self,
        name: str,
        attributes: Mapping[str, Any],
        began: int,
        *,
        parent: Context | None = None,
        calls: bool = False,
    ) -> OpenSpan:
        """A new span, within the parent if one is given, else within what is current."""
        kind: SpanKind = self._trace.SpanKind.CLIENT if calls else self._trace.SpanKind.INTERNAL
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=began)
        return OpenSpan(span, began, self._context.get_current())

    def enter(self, opened: OpenSpan) -> None:
        """Make a span current in the present context."""
        if opened.span.get_span_context().is_valid:
            self._context.attach(self._trace.set_span_in_context(opened.span))

    def is_entered(self, opened: OpenSpan) -> bool:
        """Whether it is the current span here."""
        return self._trace.get_current_span() is opened.span

    def leave(self, opened: OpenSpan) -> None:
        """Make current what was current before the span, if the span is it here."""
        if self.is_entered(opened):
            self._context.attach(opened.before)

    def close(
        self, opened: OpenSpan, ended: int, *, error: BaseException | None = None, described: bool = True
    ) -> None:
        """End a span, with the error that ended it, `described` in full or named. One that was to begin later is no
        span at all."""
        if ended < opened.began:
            return
        if error is not None:
            self._fail(opened.span, error, described)
        opened.span.end(ended)

    def _fail(self, span: Span, error: BaseException, described: bool) -> None:
        message = self._redactor.text(str(error))
        if described and span.is_recording():
            trail = self._redactor.text("".join(traceback.format_exception(error)))
            span.record_exception(error, {"exception.message": message, "exception.stacktrace": trail})
        self.fail(span, code_of(error), f"{type(error).__name__}: {message}")

    def fail(self, span: Span, code: str, told: str) -> None:
        """Say that what a span stands for has failed."""
        span.set_attribute("error.type", code)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, self._redactor.text(told)))
