"""What a node may do by its runtime, beyond what the other tests of the engine need."""

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


def noting(runtime: Runtime[Any]) -> dict[str, int]:
    runtime.record("tool_called", {"tool": "add"})
    runtime.record("model_called", {"model": "m", "input_tokens": 3})
    return {"x": 1}


class Heard(Instrument):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_tool_called(self, event: Event) -> None:
        self.events.append(event)

    def on_model_called(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_a_node_records_is_in_the_log_of_its_run(tmp_path: Any, durability: Any) -> None:
    with SqliteSaver(tmp_path / "x.db") as saver:
        made = app(noting, saver)
        made.invoke({"x": 0}, thread_id="t", durability=durability)
        events = [one for one in made.get_events(thread_id="t") if one.kind in ("tool_called", "model_called")]
    assert [(one.kind, one.node, one.step, one.data) for one in events] == [
        ("tool_called", "node", 1, {"tool": "add"}),
        ("model_called", "node", 1, {"model": "m", "input_tokens": 3}),
    ]
    assert all(one.seq is not None and one.task_id for one in events)


def test_what_was_recorded_before_a_failure_is_in_the_log_too() -> None:
    def failing(runtime: Runtime[Any]) -> None:
        runtime.record("model_called", {"model": "m"})
        raise ValueError("lost")

    made = app(failing, InMemorySaver())
    with pytest.raises(ValueError, match="lost"):
        made.invoke({"x": 0}, thread_id="t")
    assert [one.kind for one in made.get_events(thread_id="t")] == ["run_started", "model_called", "run_finished"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_was_recorded_goes_with_what_is_done_once(tmp_path: Any, durability: Any) -> None:
    deaths = [True]

    def asking(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.step("ask", lambda: runtime.record("model_called", {"model": "m"}))
        if deaths:
            raise deaths.pop() and Crash
        return {"x": 1}

    with SqliteSaver(tmp_path / "x.db") as saver:
        made = app(asking, saver)
        with pytest.raises(Crash):
            made.invoke({"x": 0}, thread_id="t", durability=durability)
        assert [one.kind for one in made.get_events(thread_id="t")][:2] == ["run_started", "model_called"]
        assert made.invoke(None, thread_id="t") == {"x": 1}
        assert [one.kind for one in made.get_events(thread_id="t")].count("model_called") == 1


def test_what_one_task_has_recorded_does_not_go_with_the_work_of_another(tmp_path: Any) -> None:
    recorded, stepped, seen = threading.Event(), threading.Event(), list[Any]()

    def kinds() -> list[str]:
        return [one.kind for one in made.get_events(thread_id="t") if one.kind in ("tool_called", "model_called")]

    def asks(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.record("model_called", {"model": "m"})
        recorded.set()
        assert stepped.wait(600)
        seen.append(kinds())
        runtime.step("ask", int)
        seen.append(kinds())
        return {"x": 1}

    def steps(runtime: Runtime[Any]) -> None:
        assert recorded.wait(600)
        runtime.step("use", lambda: runtime.record("tool_called", {"tool": "t"}))
        stepped.set()

    graph = StateGraph({"x": int})
    for node in (asks, steps):
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    with SqliteSaver(tmp_path / "x.db") as saver:
        made = graph.compile(saver)
        assert made.invoke({"x": 0}, thread_id="t") == {"x": 1}
        assert [*seen, kinds()] == [["tool_called"], *[["tool_called", "model_called"]] * 2]


def test_what_a_called_task_records_is_that_of_its_node() -> None:
    @task
    def ask() -> None:
        get_runtime().record("model_called", {"model": "m"})

    def asking(runtime: Runtime[Any]) -> dict[str, str]:
        ask().result()
        return {"x": runtime.execution_info.task_id}

    made = app(asking, InMemorySaver())
    owner = made.invoke({"x": 0}, thread_id="t")["x"]
    (event,) = [one for one in made.get_events(thread_id="t") if one.kind == "model_called"]
    assert event.task_id == owner


def test_a_node_can_ask_for_the_clock_of_its_run() -> None:
    clock = FakeClock()
    made = app(lambda state, runtime: {"x": runtime.clock is clock}, clock=clock)
    assert made.invoke({"x": 0}) == {"x": True}


def test_instruments_hear_of_it_at_once_with_and_without_a_saver() -> None:
    for saver in (None, InMemorySaver()):
        heard = Heard()
        app(noting, saver, instruments=[heard]).invoke({"x": 0}, **({"thread_id": "t"} if saver else {}))
        assert [(one.kind, one.node) for one in heard.events] == [("tool_called", "node"), ("model_called", "node")]


def test_a_node_can_ask_whether_somebody_reads_messages() -> None:
    seen: list[bool] = []

    def node(runtime: Runtime[Any]) -> None:
        seen.append(runtime.shows_messages)
        runtime.push_message(Message("hi"))

    made = app(node)
    made.invoke({"x": 0})
    list(made.stream({"x": 0}, stream_mode="updates"))
    parts = list(made.stream({"x": 0}, stream_mode="messages"))
    assert seen == [False, False, True]
    assert [part.text for part, _ in parts] == ["hi"]


def test_a_value_can_be_tried_before_it_is_saved(tmp_path: Any) -> None:
    def node(runtime: Runtime[Any]) -> dict[str, int]:
        runtime.check_saveable({"fine": [1]})
        with pytest.raises(SerdeError, match="function"):
            runtime.check_saveable({"odd": lambda: None})
        return {"x": 1}

    with SqliteSaver(tmp_path / "x.db") as saver:
        assert app(node, saver).invoke({"x": 0}, thread_id="t") == {"x": 1}


def test_without_a_database_anything_can_be_kept() -> None:
    def node(runtime: Runtime[Any]) -> None:
        runtime.check_saveable(lambda: None)

    app(node).invoke({"x": 0})
    app(node, InMemorySaver()).invoke({"x": 0}, thread_id="t")
