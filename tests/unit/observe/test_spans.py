"""Opening and closing of spans, and which one is current."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from statewright.errors import InvalidUpdateError
from statewright.observe.tracing import Spans, nanoseconds
from statewright.redaction import Redactor

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Bench:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = Spans(provider, Redactor())

    @property
    def ended(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_span_has_its_times_its_parent_and_its_attributes(bench: Bench) -> None:
    outer = bench.spans.open("outer", {"n": 1}, 100)
    inner = bench.spans.open("inner", {}, 200, parent=bench.spans.context_with(outer), is_client=True)
    bench.spans.close(inner, 300)
    bench.spans.close(outer, 400)
    first, second = bench.ended
    assert (first.name, first.start_time, first.end_time, first.kind) == ("inner", 200, 300, SpanKind.CLIENT)
    assert first.parent.span_id == second.context.span_id
    assert (second.parent, dict(second.attributes), second.kind) == (None, {"n": 1}, SpanKind.INTERNAL)


def test_an_entered_span_is_current_until_it_is_left(bench: Bench) -> None:
    before = trace.get_current_span()
    opened = bench.spans.open("a", {}, 1)
    assert trace.get_current_span() is not opened.span
    bench.spans.enter(opened)
    assert trace.get_current_span() is opened.span
    assert bench.spans.has_current_span
    bench.spans.leave(opened)
    assert trace.get_current_span() is before
    bench.spans.leave(opened)  # leaving it again has no effect
    assert trace.get_current_span() is before


def test_leaving_a_span_that_is_not_current_does_nothing(bench: Bench) -> None:
    first, second = bench.spans.open("a", {}, 1), bench.spans.open("b", {}, 1)
    token = context.attach(trace.set_span_in_context(second.span))
    try:
        bench.spans.leave(first)
        assert trace.get_current_span() is second.span
    finally:
        context.detach(token)


def test_an_error_is_recorded_without_secrets(bench: Bench) -> None:
    opened = bench.spans.open("a", {}, 1)
    try:
        raise InvalidUpdateError("password=hunter2")
    except InvalidUpdateError as error:
        bench.spans.close(opened, 2, error=error)
    (span,) = bench.ended
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "InvalidUpdateError: password=[redacted]"
    assert span.attributes["error.type"] == "SW-invalid-update-error"
    (event,) = span.events
    assert event.attributes["exception.type"].endswith("InvalidUpdateError")
    assert "test_an_error_is_recorded_without_secrets" in event.attributes["exception.stacktrace"]
    assert "hunter2" not in str(dict(event.attributes))


def test_an_error_may_be_recorded_by_name_only(bench: Bench) -> None:
    opened = bench.spans.open("a", {}, 1)
    bench.spans.close(opened, 2, error=ValueError("x"), with_traceback=False)
    assert (bench.ended[0].events, bench.ended[0].status.description) == ((), "ValueError: x")


def test_a_span_that_would_end_before_it_begins_is_dropped(bench: Bench) -> None:
    bench.spans.close(bench.spans.open("a", {}, 10), 9)
    assert bench.ended == []


def test_metadata_can_name_a_remote_parent(bench: Bench) -> None:
    parent = bench.spans.remote_context({"traceparent": TRACEPARENT, "tracestate": "a=b", "other": 1})
    bench.spans.close(bench.spans.open("a", {}, 1, parent=parent), 2)
    (span,) = bench.ended
    assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == TRACEPARENT[3:-3]
    assert span.parent.trace_state["a"] == "b"


@pytest.mark.parametrize("metadata", [{}, {"traceparent": "nonsense"}, {"traceparent": 7}, {"traceparent": ""}])
def test_an_invalid_parent_is_ignored(bench: Bench, metadata: dict[str, Any]) -> None:
    assert bench.spans.remote_context(metadata) is None


def test_a_missing_parent_is_not_replaced_by_the_current_span(bench: Bench) -> None:
    remote = bench.spans.remote_context({"traceparent": TRACEPARENT})
    assert remote is not None
    token = context.attach(remote)
    try:
        assert bench.spans.remote_context({"other": 1}) is None
    finally:
        context.detach(token)


def test_an_instant_is_converted_to_nanoseconds() -> None:
    assert nanoseconds(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)) == 1_000_005_000


MISSING = """
import sys
sys.modules["opentelemetry"] = None
from statewright.errors import InvalidConfig
from statewright.observe import Tracing
try:
    Tracing()
except InvalidConfig as error:
    print(error)
"""


def test_a_missing_library_is_named() -> None:
    output = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True).stdout
    assert output.startswith("Traces need the library 'opentelemetry")
    assert output.endswith(", which is not installed. Run `pip install 'statewright[otel]'`.\n")
