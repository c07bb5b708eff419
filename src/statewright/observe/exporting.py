"""Traces sent where the environment says, in the variables that OpenTelemetry has for that."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from statewright.extras import optional
from statewright.observe.tracing import Tracing

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Where traces go; with neither of them there are none."""


@contextmanager
def tracing_from_environment() -> Generator[Tracing | None]:
    """Traces for as long as the block lasts, sent in batches by OTLP over HTTP; None if no endpoint is named.

    What is still to be sent is sent at the end. `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`
    and the others mean what they always do. Raises InvalidConfig without the libraries of the extra `otel`.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        yield None
        return
    with optional(f"{ENDPOINTS[0]} is set, and traces need", extra="otel"):
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
