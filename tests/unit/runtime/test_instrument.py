"""The port for those who observe: what they hear, on which thread, and that a run does not notice them."""

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
    built = StateGraph(SCHEMA)
    for name, function in functions.items():
        built.add_node(name, function).add_edge(START, name)
    return built


def say(word: str) -> Any:
    return lambda state: {"log": [word]}


def test_an_instrument_that_overrides_nothing_costs_no_events() -> None:
    app = graph(a=say("a")).compile(instruments=[Instrument()])
    assert app.invoke({"x": 1}) == {"x": 1, "log": ["a"]}


def test_what_the_data_of_each_event_is() -> None:
    record = RecordingInstrument()
    graph(a=say("a")).compile(InMemorySaver(), instruments=[record]).invoke({"x": 1}, thread_id="1")
    kinds = {event.kind: event.data for event in record.events}
    assert kinds["run_started"] == {"x": 1}
    assert isinstance(kinds["run_finished"], RunOutcome)
    assert [task.node for task in kinds["superstep_started"]] == ["a"]
    task, given = kinds["task_started"]
    assert (task.node, given["x"]) == ("a", 1)
    assert isinstance(kinds["task_finished"], TaskResult)
    assert isinstance(kinds["committed"], Commit)


def test_events_carry_the_run_and_the_step() -> None:
    record = RecordingInstrument()
    app = graph(a=say("a")).add_node("b", say("b")).add_edge("a", "b").compile(InMemorySaver(), instruments=[record])
    app.invoke({"x": 1}, thread_id="t", run_id="r")
    assert {(event.run_id, event.thread_id) for event in record.events} == {("r", "t")}
    assert [(event.node, event.step) for event in record.of_kind("task_finished")] == [("a", 1), ("b", 2)]


def test_a_failed_task_is_told_with_its_error_and_the_run_with_its_rest() -> None:
    record = RecordingInstrument()
    with pytest.raises(ZeroDivisionError):
        graph(a=lambda state: 1 / 0).compile(instruments=[record]).invoke({"x": 1})
    (failed,) = record.of_kind("task_finished")
    assert isinstance(failed.data, Failure)
    assert isinstance(failed.data.error, ZeroDivisionError)
    (finished,) = record.of_kind("run_finished")
    assert (finished.data.status, finished.data.node) == ("failed", "a")


def test_a_run_that_waits_is_told_as_waiting() -> None:
    from statewright import interrupt

    record = RecordingInstrument()
    graph(a=lambda state: {"x": interrupt("?")}).compile(InMemorySaver(), instruments=[record]).invoke(
        {}, thread_id="1"
    )
    (finished,) = record.of_kind("run_finished")
    assert (finished.data.status, [one.value for one in finished.data.interrupts]) == ("waiting", ["?"])


def test_several_instruments_hear_the_same_in_their_order() -> None:
    heard: list[tuple[str, str]] = []

    class Named(Instrument):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_superstep(self, event: Event) -> None:
            heard.append((self.name, event.kind))

    graph(a=say("a")).compile(instruments=[Named("one"), Named("two")]).invoke({})
    assert heard == [("one", "superstep_started"), ("two", "superstep_started")]


def test_an_instrument_is_called_on_the_thread_where_it_happened() -> None:
    threads: dict[str, set[threading.Thread]] = {"node": set(), "instrument": set()}
    together = threading.Barrier(2)

    def node(state: Any) -> None:
        together.wait(600)
        threads["node"].add(threading.current_thread())

    class Hearing(Instrument):
        def on_task_started(self, event: Event) -> None:
            threads["instrument"].add(threading.current_thread())

    graph(a=node, b=node).compile(instruments=[Hearing()]).invoke({})
    assert threads["node"] == threads["instrument"]
    assert len(threads["node"]) == 2


def test_instruments_hear_of_subgraphs_too_in_their_namespace() -> None:
    outer, inner = RecordingInstrument(), RecordingInstrument()
    called = graph(deep=say("deep")).compile(instruments=[inner])
    StateGraph(SCHEMA).add_node("sub", called).add_edge(START, "sub").compile(instruments=[outer]).invoke({"x": 1})
    assert [(event.node, event.namespace.partition(":")[0]) for event in outer.of_kind("task_started")] == [
        ("sub", ""),
        ("deep", "sub"),
    ]
    assert [event.node for event in inner.of_kind("task_started")] == ["deep"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream", "iter", "batch"])
def test_however_a_graph_is_run_its_instruments_hear_of_it(way: str) -> None:
    record = RecordingInstrument()
    app = graph(a=say("a")).compile(instruments=[record])

    async def read() -> list[Any]:
        return [part async for part in app.astream({"x": 1})]

    ways: dict[str, Any] = {
        "invoke": lambda: app.invoke({"x": 1}),
        "ainvoke": lambda: asyncio.run(app.ainvoke({"x": 1})),
        "stream": lambda: list(app.stream({"x": 1})),
        "astream": lambda: asyncio.run(read()),
        "iter": lambda: list(app.iter({"x": 1})),
        "batch": lambda: app.batch([{"x": 1}]),
    }
    ways[way]()
    task = ["task_started", "task_ended", "task_finished"]
    assert record.kinds == ["run_started", "superstep_started", *task, "run_finished"]


def test_a_run_is_the_same_with_an_instrument_and_without() -> None:
    built = graph(a=say("a"), b=say("b")).add_node("c", say("c")).add_edge(["a", "b"], "c")
    watched, alone = built.compile(InMemorySaver(), instruments=[RecordingInstrument()]), built.compile(InMemorySaver())
    for app in (watched, alone):
        app.invoke({"x": 1}, thread_id="1")
    assert watched.get_state(thread_id="1").values == alone.get_state(thread_id="1").values
    assert [one.values for one in watched.get_state_history(thread_id="1")] == [
        one.values for one in alone.get_state_history(thread_id="1")
    ]


def test_the_commit_that_is_told_holds_the_checkpoint_that_was_saved() -> None:
    record = RecordingInstrument()
    app = graph(a=say("a")).compile(InMemorySaver(), instruments=[record])
    app.invoke({"x": 1}, thread_id="1")
    saved = [one.config["configurable"]["checkpoint_id"] for one in app.get_state_history(thread_id="1")]
    told = [event.data.checkpoint for event in record.of_kind("committed")]
    assert all(isinstance(one, Checkpoint) for one in told)
    assert [one.id for one in told] == saved[::-1]
