"""Fields of log events from the current context."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.errors import InvalidUpdateError, NotFound
from statewright.observe.logs import bound, current_fields, error_fields


def test_bound_fields_apply_within_the_block() -> None:
    with bound(request_id="r", path="/a"):
        with bound(path="/b"):
            assert current_fields() == {"request_id": "r", "path": "/b"}
        assert current_fields() == {"request_id": "r", "path": "/a"}
    assert current_fields() == {}


@pytest.mark.parametrize("thread", [None, "t"])
def test_the_current_task_adds_its_fields(thread: str | None) -> None:
    result: list[dict[str, Any]] = []

    def node(state: Any) -> None:
        result.append(current_fields())

    graph = StateGraph({"x": int}).add_node("n", node).add_edge(START, "n")
    app = graph.compile(InMemorySaver() if thread else None)
    with bound(request_id="r"):
        app.invoke({"x": 1}, run_id="run", thread_id=thread)
    thread_fields = {"thread_id": thread} if thread else {}
    assert result == [{"request_id": "r", "run_id": "run", **thread_fields, "node": "n", "attempt": 1}]


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (NotFound("no run"), {"error_code": "SW-not-found", "api_code": "NOT_FOUND", "error": "NotFound: no run"}),
        (
            InvalidUpdateError("x"),
            {"error_code": "SW-invalid-update-error", "error": "InvalidUpdateError: x"},
        ),
        (KeyError("k"), {"error_code": "KeyError", "error": "KeyError: 'k'"}),
    ],
)
def test_an_error_has_its_codes_and_its_text(error: Exception, fields: dict[str, Any]) -> None:
    assert error_fields(error) == fields
