"""Events: one class whose kind is durable or live."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypedDict, get_args

import pytest

from statewright import START, InMemorySaver, Instrument, StateGraph
from statewright.events import DURABLE, DurableKind, Event, LiveKind
from statewright.runtime.instrument import METHOD_BY_KIND
from statewright.runtime.streaming.modes import CONVERTERS


class State(TypedDict, total=False):
    n: int


def test_every_kind_is_either_durable_or_live() -> None:
    assert frozenset(get_args(DurableKind)) == DURABLE
    assert DURABLE.isdisjoint(get_args(LiveKind))


@pytest.mark.parametrize(
    "kind", [*METHOD_BY_KIND, *(kind for converters in CONVERTERS.values() for kind in converters)]
)
def test_instruments_and_stream_modes_listen_to_known_kinds(kind: str) -> None:
    assert kind in DURABLE | set(get_args(LiveKind))


def test_an_event_keeps_its_arguments() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    arguments: dict[str, Any] = {
        "run_id": "run",
        "thread_id": "thread",
        "namespace": "a:1",
        "step": 3,
        "node": "b",
        "task_id": "task",
        "at": at,
        "program": None,
    }
    event = Event("task_finished", {"n": 1}, **arguments)
    assert (event.kind, event.data) == ("task_finished", {"n": 1})
    assert {name: getattr(event, name) for name in arguments} == arguments


def test_an_unsaved_event_has_no_number_and_no_time() -> None:
    event = Event("custom", "data")
    assert (event.seq, event.at, event.attempt) == (None, None, 1)
    assert (event.namespace, event.thread_id, event.node) == ("", None, None)


@pytest.mark.parametrize(
    ("event", "number", "expected"),
    [
        (Event("run_started"), None, "<run_started step=0>"),
        (Event("task_finished", node="plan", step=2), None, "<task_finished 'plan' step=2>"),
        (Event("task_finished", node="plan", step=2), 7, "<#7 task_finished 'plan' step=2>"),
    ],
)
def test_the_repr_of_an_event_is_short(event: Event, number: int | None, expected: str) -> None:
    event.seq = number
    assert repr(event) == expected


def test_an_event_accepts_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Event("custom").colour = "red"  # type: ignore[attr-defined]


def test_logs_contain_durable_events_and_instruments_also_receive_live_ones() -> None:
    received: list[str] = []

    class Recorder(Instrument):
        def on_superstep(self, event: Event) -> None:
            received.append(event.kind)

    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), instruments=[Recorder()])
    app.invoke({}, thread_id="1")
    log = app.get_events(thread_id="1")
    assert received == ["superstep_started"]
    assert {event.kind for event in log} <= DURABLE
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert (log[0].kind, log[-1].kind) == ("run_started", "run_finished")
