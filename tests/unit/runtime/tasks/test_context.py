"""The runtime of a node: recorded events, the clock, messages and saveable values."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from statewright import END, START, InMemorySaver, Runtime, StateGraph, get_runtime, task
from statewright.errors import SerdeError
from statewright.events import Event
from statewright.messages import Message
from statewright.runtime import Instrument
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock


class Crash(BaseException):
    """The process is killed."""


def app(node: Any, saver: Any = None, **options: Any) -> Any:
    graph = StateGraph({"x": int})
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(saver, **options)


def record_events(runtime: Runtime[Any]) -> dict[str, int]:
    runtime.record("tool_called", {"tool": "add"})
    runtime.record("model_called", {"model": "m", "input_tokens": 3})
    return {"x": 1}


class EventRecorder(Instrument):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_tool_called(self, event: Event) -> None:
        self.events.append(event)

    def on_model_called(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_recorded_events_are_in_the_event_log(tmp_path: Any, durability: Any) -> None:
    with SqliteSaver(tmp_path / "x.db") as saver:
        compiled = app(record_events, saver)
        compiled.invoke({"x": 0}, thread_id="t", durability=durability)
        events = [
            event for event in compiled.get_events(thread_id="t") if event.kind in ("tool_called", "model_called")
        ]
    assert [(event.kind, event.node, event.step, event.data) for event in events] == [
        ("tool_called", "node", 1, {"tool": "add"}),
        ("model_called", "node", 1, {"model": "m", "input_tokens": 3}),
    ]
    assert all(event.seq is not None and event.task_id for event in events)


def test_events_recorded_before_a_failure_are_in_the_event_log() -> None:
    def failing(runtime: Runtime[Any]) -> None:
        runtime.record("model_called", {"model": "m"})
        raise ValueError("lost")

    compiled = app(failing, InMemorySaver())
    with pytest.raises(ValueError, match="lost"):
        compiled.invoke({"x": 0}, thread_id="t")
    assert [event.kind for event in compiled.get_events(thread_id="t")] == [
        "run_started",
        "model_called",
        "run_finished",
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_events_recorded_in_a_step_are_saved_once_with_the_step(tmp_path: Any, durability: Any) -> None:
    crashes = [True]

    def ask_model(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.step("ask", lambda: runtime.record("model_called", {"model": "m"}))
        if crashes:
            raise crashes.pop() and Crash
        return {"x": 1}

    with SqliteSaver(tmp_path / "x.db") as saver:
        compiled = app(ask_model, saver)
        with pytest.raises(Crash):
            compiled.invoke({"x": 0}, thread_id="t", durability=durability)
        assert [event.kind for event in compiled.get_events(thread_id="t")][:2] == ["run_started", "model_called"]
        assert compiled.invoke(None, thread_id="t") == {"x": 1}
        assert [event.kind for event in compiled.get_events(thread_id="t")].count("model_called") == 1


def test_events_of_a_task_are_not_saved_with_steps_of_another_task(tmp_path: Any) -> None:
    recorded, stepped, seen = threading.Event(), threading.Event(), list[Any]()

    def kinds() -> list[str]:
        return [
            event.kind for event in compiled.get_events(thread_id="t") if event.kind in ("tool_called", "model_called")
        ]

    def record_and_step(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.record("model_called", {"model": "m"})
        recorded.set()
        assert stepped.wait(600)
        seen.append(kinds())
        runtime.step("ask", int)
        seen.append(kinds())
        return {"x": 1}

    def step(runtime: Runtime[Any]) -> None:
        assert recorded.wait(600)
        runtime.step("use", lambda: runtime.record("tool_called", {"tool": "t"}))
        stepped.set()

    graph = StateGraph({"x": int})
    for node in (record_and_step, step):
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    with SqliteSaver(tmp_path / "x.db") as saver:
        compiled = graph.compile(saver)
        assert compiled.invoke({"x": 0}, thread_id="t") == {"x": 1}
        assert [*seen, kinds()] == [["tool_called"], *[["tool_called", "model_called"]] * 2]


def test_events_recorded_in_a_called_task_have_the_id_of_the_nodes_task() -> None:
    @task
    def ask() -> None:
        get_runtime().record("model_called", {"model": "m"})

    def ask_model(runtime: Runtime[Any]) -> dict[str, str]:
        ask().result()
        return {"x": runtime.execution_info.task_id}

    compiled = app(ask_model, InMemorySaver())
    owner = compiled.invoke({"x": 0}, thread_id="t")["x"]
    (event,) = [event for event in compiled.get_events(thread_id="t") if event.kind == "model_called"]
    assert event.task_id == owner


def test_a_runtime_has_the_clock_of_its_run() -> None:
    clock = FakeClock()
    compiled = app(lambda state, runtime: {"x": runtime.clock is clock}, clock=clock)
    assert compiled.invoke({"x": 0}) == {"x": True}


def test_instruments_receive_recorded_events_with_and_without_a_saver() -> None:
    for saver in (None, InMemorySaver()):
        recorder = EventRecorder()
        app(record_events, saver, instruments=[recorder]).invoke({"x": 0}, **({"thread_id": "t"} if saver else {}))
        assert [(event.kind, event.node) for event in recorder.events] == [
            ("tool_called", "node"),
            ("model_called", "node"),
        ]


def test_shows_messages_is_true_only_in_streams_of_messages() -> None:
    seen: list[bool] = []

    def node(runtime: Runtime[Any]) -> None:
        seen.append(runtime.shows_messages)
        runtime.push_message(Message("hi"))

    compiled = app(node)
    compiled.invoke({"x": 0})
    list(compiled.stream({"x": 0}, stream_mode="updates"))
    parts = list(compiled.stream({"x": 0}, stream_mode="messages"))
    assert seen == [False, False, True]
    assert [part.text for part, _ in parts] == ["hi"]


def test_check_saveable_refuses_a_function(tmp_path: Any) -> None:
    def node(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.check_saveable({"fine": [1]})
        with pytest.raises(SerdeError, match="function"):
            runtime.check_saveable({"odd": lambda: None})
        return {"x": 1}

    with SqliteSaver(tmp_path / "x.db") as saver:
        assert app(node, saver).invoke({"x": 0}, thread_id="t") == {"x": 1}


def test_check_saveable_accepts_everything_without_a_database() -> None:
    def node(runtime: Runtime[Any]) -> None:
        runtime.check_saveable(lambda: None)

    app(node).invoke({"x": 0})
    app(node, InMemorySaver()).invoke({"x": 0}, thread_id="t")
