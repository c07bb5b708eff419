"""The port `Instrument`: the events it receives, the thread of its calls, and that it does not change a run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statewright import START, InMemorySaver, Instrument, StateGraph, append
from statewright.checkpoint import Checkpoint, Commit, TaskResult
from statewright.events import Event
from statewright.runtime.invocation.outcome import Failure, RunOutcome
from statewright.testing import RecordingInstrument

SCHEMA = {"log": append, "x": int}


def graph(**functions: Any) -> StateGraph:
    builder = StateGraph(SCHEMA)
    for name, function in functions.items():
        builder.add_node(name, function).add_edge(START, name)
    return builder


def log_word(word: str) -> Any:
    return lambda state: {"log": [word]}


def test_an_instrument_without_overrides_is_accepted() -> None:
    app = graph(a=log_word("a")).compile(instruments=[Instrument()])
    assert app.invoke({"x": 1}) == {"x": 1, "log": ["a"]}


def test_every_kind_of_event_has_its_data() -> None:
    record = RecordingInstrument()
    graph(a=log_word("a")).compile(InMemorySaver(), instruments=[record]).invoke({"x": 1}, thread_id="1")
    kinds = {event.kind: event.data for event in record.events}
    assert kinds["run_started"] == {"x": 1}
    assert isinstance(kinds["run_finished"], RunOutcome)
    assert [task.node for task in kinds["superstep_started"]] == ["a"]
    task, task_input = kinds["task_started"]
    assert (task.node, task_input["x"]) == ("a", 1)
    assert isinstance(kinds["task_finished"], TaskResult)
    assert isinstance(kinds["committed"], Commit)


def test_events_have_the_run_thread_node_and_step() -> None:
    record = RecordingInstrument()
    app = (
        graph(a=log_word("a"))
        .add_node("b", log_word("b"))
        .add_edge("a", "b")
        .compile(InMemorySaver(), instruments=[record])
    )
    app.invoke({"x": 1}, thread_id="t", run_id="r")
    assert {(event.run_id, event.thread_id) for event in record.events} == {("r", "t")}
    assert [(event.node, event.step) for event in record.of_kind("task_finished")] == [("a", 1), ("b", 2)]


def test_events_of_a_failed_run_have_the_error_and_the_outcome() -> None:
    record = RecordingInstrument()
    with pytest.raises(ZeroDivisionError):
        graph(a=lambda state: 1 / 0).compile(instruments=[record]).invoke({"x": 1})
    (failed,) = record.of_kind("task_finished")
    assert isinstance(failed.data, Failure)
    assert isinstance(failed.data.error, ZeroDivisionError)
    (finished,) = record.of_kind("run_finished")
    assert (finished.data.status, finished.data.node) == ("failed", "a")


def test_the_last_event_of_a_waiting_run_has_its_questions() -> None:
    from statewright import interrupt

    record = RecordingInstrument()
    graph(a=lambda state: {"x": interrupt("?")}).compile(InMemorySaver(), instruments=[record]).invoke(
        {}, thread_id="1"
    )
    (finished,) = record.of_kind("run_finished")
    assert (finished.data.status, [question.value for question in finished.data.interrupts]) == ("waiting", ["?"])


def test_instruments_receive_each_event_in_their_order() -> None:
    received: list[tuple[str, str]] = []

    class NamedInstrument(Instrument):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_superstep(self, event: Event) -> None:
            received.append((self.name, event.kind))

    graph(a=log_word("a")).compile(instruments=[NamedInstrument("one"), NamedInstrument("two")]).invoke({})
    assert received == [("one", "superstep_started"), ("two", "superstep_started")]


def test_an_instrument_is_called_in_the_thread_of_the_node() -> None:
    threads: dict[str, set[threading.Thread]] = {"node": set(), "instrument": set()}
    barrier = threading.Barrier(2)

    def node(state: Any) -> None:
        barrier.wait(600)
        threads["node"].add(threading.current_thread())

    class ThreadInstrument(Instrument):
        def on_task_started(self, event: Event) -> None:
            threads["instrument"].add(threading.current_thread())

    graph(a=node, b=node).compile(instruments=[ThreadInstrument()]).invoke({})
    assert threads["node"] == threads["instrument"]
    assert len(threads["node"]) == 2


def test_instruments_receive_events_of_subgraphs_with_their_namespace() -> None:
    outer, inner = RecordingInstrument(), RecordingInstrument()
    subgraph = graph(deep=log_word("deep")).compile(instruments=[inner])
    StateGraph(SCHEMA).add_node("sub", subgraph).add_edge(START, "sub").compile(instruments=[outer]).invoke({"x": 1})
    assert [(event.node, event.namespace.partition(":")[0]) for event in outer.of_kind("task_started")] == [
        ("sub", ""),
        ("deep", "sub"),
    ]
    assert [event.node for event in inner.of_kind("task_started")] == ["deep"]


@pytest.mark.parametrize("method", ["invoke", "ainvoke", "stream", "astream", "iter", "batch"])
def test_every_method_that_runs_a_graph_sends_events_to_instruments(method: str) -> None:
    record = RecordingInstrument()
    app = graph(a=log_word("a")).compile(instruments=[record])

    async def read() -> list[Any]:
        return [part async for part in app.astream({"x": 1})]

    calls: dict[str, Any] = {
        "invoke": lambda: app.invoke({"x": 1}),
        "ainvoke": lambda: asyncio.run(app.ainvoke({"x": 1})),
        "stream": lambda: list(app.stream({"x": 1})),
        "astream": lambda: asyncio.run(read()),
        "iter": lambda: list(app.iter({"x": 1})),
        "batch": lambda: app.batch([{"x": 1}]),
    }
    calls[method]()
    task = ["task_started", "task_ended", "task_finished"]
    assert record.kinds == ["run_started", "superstep_started", *task, "run_finished"]


def test_an_instrument_does_not_change_a_run() -> None:
    builder = graph(a=log_word("a"), b=log_word("b")).add_node("c", log_word("c")).add_edge(["a", "b"], "c")
    instrumented, plain = (
        builder.compile(InMemorySaver(), instruments=[RecordingInstrument()]),
        builder.compile(InMemorySaver()),
    )
    for app in (instrumented, plain):
        app.invoke({"x": 1}, thread_id="1")
    assert instrumented.get_state(thread_id="1").values == plain.get_state(thread_id="1").values
    assert [state.values for state in instrumented.get_state_history(thread_id="1")] == [
        state.values for state in plain.get_state_history(thread_id="1")
    ]


def test_committed_events_have_the_saved_checkpoints() -> None:
    record = RecordingInstrument()
    app = graph(a=log_word("a")).compile(InMemorySaver(), instruments=[record])
    app.invoke({"x": 1}, thread_id="1")
    saved = [state.config["configurable"]["checkpoint_id"] for state in app.get_state_history(thread_id="1")]
    checkpoints = [event.data.checkpoint for event in record.of_kind("committed")]
    assert all(isinstance(checkpoint, Checkpoint) for checkpoint in checkpoints)
    assert [checkpoint.id for checkpoint in checkpoints] == saved[::-1]
