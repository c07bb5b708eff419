"""Export of traces as configured by the environment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypedDict

import pytest

from statewright import START, StateGraph
from statewright.observe import tracing_from_environment


class State(TypedDict, total=False):
    n: int


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    """Yield a server on loopback that accepts spans and records the paths of requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            server.received_paths.append(self.path)  # pyright: ignore
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.received_paths = []  # pyright: ignore
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_an_endpoint_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with tracing_from_environment() as tracing:
        assert tracing is None


def test_remaining_spans_are_sent_at_the_end(monkeypatch: pytest.MonkeyPatch, collector: Any) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    with tracing_from_environment() as tracing:
        assert tracing is not None
        graph = StateGraph(State).add_node("one", lambda state: {"n": 1}).add_edge(START, "one")
        graph.compile(instruments=[tracing]).invoke({})
    assert collector.received_paths == ["/v1/traces"]
