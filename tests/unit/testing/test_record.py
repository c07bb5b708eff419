"""Recordings of real runs, whose files have the same bytes every time."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    Message,
    MessagesStateGraph,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    task,
)
from statewright.errors import InvalidConfig, NewerFormat, SerdeError
from statewright.runtime.instrument import Instrument
from statewright.serde.serde import Serde
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock, RecordingInstrument, read_recording, record, replay
from statewright.testing.replay.file import FORMAT
from statewright.testing.replay.records import Completed, Failed, Interrupted


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: Any


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.replay"


def one_node(node: Any, saver: Any = None, **options: Any) -> Any:
    return StateGraph(State).add_node("a", node, **options).add_edge(START, "a").compile(saver)


def ask(state: Any, runtime: Runtime) -> Any:
    paid = runtime.step("charge", lambda amount: amount * 2, 21)
    return {"log": [paid, interrupt("sure?")]}


# -- contents of the file


def test_a_recording_contains_input_outcomes_frontiers_and_states(file: Path) -> None:
    def spread(state: Any) -> Any:
        return Command(update={"x": 2}, goto=[Send("b", 1)])

    graph = StateGraph(State).add_node("a", spread, destinations=["b"]).add_node("b", lambda n: {"log": [n]})
    app = graph.add_edge(START, "a").compile()
    with record(app, file) as recorded:
        recorded.invoke({"x": 1})

    [call] = read_recording(file, app).calls

    assert (call.input, call.graph, call.thread_id, call.saves) == ({"x": 1}, app.name, None, False)
    entry, first, second = call.steps
    assert (entry.is_input, entry.tasks, entry.after.changes) == (True, [], {"log": [], "x": 1})
    assert first.tasks[0].outcome == Completed({"x": 2}, [Send("b", 1)], True)
    assert (first.after.changes, first.after.frontier) == ({"x": 2}, [["b", 1]])
    assert (second.tasks[0].node, second.tasks[0].arg) == ("b", 1)
    assert list(second.after.changes["log"].items) == [1]
    assert len({step.after.fingerprint for step in call.steps}) == 3
    assert (call.end.status, call.end.error) == ("completed", None)


def test_a_recording_contains_questions_answers_and_the_journal(file: Path) -> None:
    app = one_node(ask, InMemorySaver())
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1")
        recorded.invoke(Command(resume="yes"), thread_id="1")

    first, second = read_recording(file, app).calls

    asking, answered = first.steps[-1].tasks[0], second.steps[0].tasks[0]
    assert isinstance(asking.outcome, Interrupted)
    assert [question.id for question in asking.outcome.interrupts] == first.end.interrupts
    assert asking.id == answered.id
    assert [entry[:3] + entry[4:] for entry in asking.journal] == [["", "charge", 0, 42]]
    assert asking.journal == answered.journal
    assert second.input.resume == "yes"
    assert first.steps[-1].after is None


def test_a_recording_contains_the_results_of_called_tasks(file: Path) -> None:
    @task
    def double(n: int) -> int:
        return n * 2

    @entrypoint()
    def flow(n: int) -> int:
        return double(n).result() + double(n).result()

    with record(flow, file) as recorded:
        assert recorded.invoke(4) == 16
    journal = read_recording(file, flow).calls[0].steps[1].tasks[0].journal
    assert [entry[1:3] + entry[4:] for entry in journal] == [["double", 0, 8], ["double", 1, 8]]


def test_a_recording_contains_errors_and_attempts(file: Path) -> None:
    def fail(state: Any) -> Any:
        raise ConnectionError("no luck")

    app = one_node(fail, retry_policy=RetryPolicy(initial_interval=0, max_attempts=2))
    with record(app, file) as recorded, pytest.raises(ConnectionError):
        recorded.invoke({})
    call = read_recording(file, app).calls[0]
    failed = call.steps[1].tasks[0]
    assert isinstance(failed.outcome, Failed)
    assert (failed.attempts, str(failed.outcome.error)) == (2, "no luck")
    assert (call.end.status, call.end.node, call.end.error) == (
        "failed",
        "a",
        ["builtins.ConnectionError", "no luck"],
    )


def test_a_recording_contains_subgraphs_in_the_tasks_that_call_them(file: Path) -> None:
    inner = one_node(ask)
    outer = StateGraph(State).add_node("sub", inner).add_edge(START, "sub").compile(InMemorySaver())
    with record(outer, file) as recorded:
        recorded.invoke({"x": 1}, thread_id="1")

    sub = read_recording(file, outer).calls[0].steps[1].tasks[0]

    [call] = sub.calls
    assert (call.namespace, call.input, call.number) == (f"sub:{sub.id}", {"x": 1, "log": []}, 1)
    assert call.end.interrupts == [question.id for question in sub.outcome.interrupts]


def test_a_graph_called_by_a_node_is_recorded(file: Path) -> None:
    inner = one_node(lambda state: {"log": [1]})
    app = one_node(lambda state: {"x": [inner.invoke({}), inner.invoke({})]}, InMemorySaver())
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1")
    task = read_recording(file, app).calls[0].steps[1].tasks[0]
    assert [call.namespace for call in task.calls] == [f"a:{task.id}", f"a:{task.id}:#1"]


def test_long_lists_are_stored_once(file: Path) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {"log": ["x" * 1000]}).add_edge(START, "a")
    app = graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 50 else "__end__").compile()
    with record(app, file) as recorded:
        recorded.invoke({})
    assert file.stat().st_size < 150_000  # twice: as a write and as a change


# -- reproducible bytes


def conversation(saver: Any) -> Any:
    def answer(state: Any) -> Any:
        verdict = interrupt({"seen": len(state["messages"])})
        return [Message("more", id=state["messages"][0].id), ("assistant", verdict)]

    inner = MessagesStateGraph().add_node("answer", answer).add_edge(START, "answer").compile(name="inner")
    graph = MessagesStateGraph().add_node("hello", lambda state: ("assistant", "hi")).add_node("sub", inner)
    return graph.add_edge(START, "hello").add_edge("hello", "sub").compile(saver)


def converse(file: Path, saver: Any, clock: Any = None, **options: Any) -> bytes:
    app = conversation(saver)
    with record(app, file) as recorded:
        for answer in ("yes", "no"):
            first = recorded.invoke({"messages": "hey"}, thread_id="1", **options)
            by_id = {first["__interrupt__"][0].id: answer}
            recorded.invoke(Command(resume=by_id), thread_id="1", **options)
    return file.read_bytes()


def test_the_same_runs_give_the_same_bytes(file: Path, tmp_path: Path) -> None:
    first = converse(file, InMemorySaver())
    assert converse(file, InMemorySaver()) == first
    with SqliteSaver(tmp_path / "threads.db") as saver:
        assert converse(file, saver) == first


def test_async_runs_give_the_same_bytes(file: Path) -> None:
    def app() -> Any:
        async def node(item: Any) -> Any:
            await asyncio.sleep(0.001 * (3 - item))
            return {"log": [item]}

        graph = StateGraph(State).add_node("item", node)
        return graph.add_conditional_edges(START, lambda state: [Send("item", n) for n in range(3)], ["item"]).compile()

    async def run() -> bytes:
        with record(app(), file) as recorded:
            await recorded.ainvoke({})
        return file.read_bytes()

    with record(app(), file) as recorded:
        recorded.invoke({})
    assert asyncio.run(run()) == file.read_bytes()


SETS = """
import sys
from statewright import START, StateGraph
from statewright.testing import record
graph = StateGraph({"x": set}).add_node("a", lambda state: {"x": {"one", "two", "three", "four"}})
with record(graph.add_edge(START, "a").compile(), sys.argv[1]) as recorded:
    recorded.invoke({"x": {"five", "six"}})
"""


def test_another_process_gives_the_same_bytes(file: Path) -> None:
    contents = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", SETS, str(file)]
        subprocess.run(command, check=True, timeout=600, env={"PYTHONHASHSEED": seed})
        contents.add(file.read_bytes())
    assert len(contents) == 1


def test_the_file_contains_no_random_id(file: Path) -> None:
    instrument = RecordingInstrument()
    app = StateGraph(State).add_node("a", ask).add_edge(START, "a").compile(InMemorySaver(), instruments=[instrument])
    with record(app, file) as recorded:
        result = recorded.invoke({}, thread_id="1")
    random_ids = {event.run_id for event in instrument.events} | {question.id for question in result["__interrupt__"]}
    random_ids |= {event.data.checkpoint.id for event in instrument.of_kind("committed")}
    ids = set(re.findall("[0-9a-f]{32}", file.read_bytes().decode(errors="ignore")))
    assert ids
    assert not ids & random_ids
    assert instrument.events, "the graph's own instruments receive events, too"


# -- writing the file


def test_a_block_that_raises_keeps_the_previous_recording(file: Path) -> None:
    app = one_node(lambda state: {"log": [1]})
    with record(app, file) as recorded:
        recorded.invoke({})
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError), record(app, file) as recorded:
        assert 1 / len(recorded.invoke({"x": 1})["log"][1:])
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_graph_itself_is_not_recorded(file: Path) -> None:
    app = one_node(lambda state: {"log": [1]})
    with record(app, file) as recorded:
        recorded.invoke({"x": 1})
        app.invoke({"x": 2})
    assert [call.input for call in read_recording(file, app).calls] == [{"x": 1}]


def test_a_block_without_a_run_is_an_error(file: Path) -> None:
    with pytest.raises(InvalidConfig, match="No run was recorded"), record(one_node(ask), file):
        pass
    assert not file.exists()


def test_a_value_that_cannot_be_stored_is_reported_after_the_run(file: Path) -> None:
    class Unknown:
        pass

    app = one_node(lambda state: {"x": {"deep": [Unknown()]}})
    with (
        pytest.raises(SerdeError, match=r"superstep 1, a\.writes\.x\.deep\[0\] cannot be stored"),
        record(app, file) as recorded,
    ):
        assert "deep" in recorded.invoke({})["x"]
    assert not file.exists()


class WaitingInstrument(Instrument):
    """Delays the event of task `first` until the main thread waits for it, and lets `second` end meanwhile."""

    def __init__(self) -> None:
        self.is_publishing = threading.Event()

    def on_task_finished(self, event: Any) -> None:
        if event.node == "first":
            self.is_publishing.set()
            while not self._main_thread_waits():
                time.sleep(0.001)

    @staticmethod
    def _main_thread_waits() -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        while frame is not None:
            if frame.f_code is threading.Condition.wait_for.__code__ and "recorder" in frame.f_back.f_code.co_filename:
                return True
            frame = frame.f_back
        return False


def test_the_first_error_is_reported_if_a_result_is_published_late(file: Path) -> None:
    class Unknown:
        pass

    instrument = WaitingInstrument()

    def second(state: Any) -> Any:
        assert instrument.is_publishing.wait(60)

    graph = StateGraph(State).add_node("first", lambda state: {"x": Unknown()}).add_node("second", second)
    graph.add_edge(START, "first").add_edge(START, "second")
    with (
        pytest.raises(SerdeError, match=r"superstep 1, first\.writes\.x"),
        record(graph.compile(InMemorySaver(), instruments=[instrument]), file) as recorded,
    ):
        recorded.invoke({}, thread_id="1", durability="sync")


class Custom:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and other.n == self.n

    __hash__ = None


def test_a_serde_can_register_more_types(file: Path) -> None:
    serde = Serde()
    serde.register(Custom, encode=lambda custom: custom.n, decode=Custom)
    app = one_node(lambda state: {"x": Custom(3)})
    with record(app, file, serde=serde) as recorded:
        recorded.invoke({})
    assert replay(file, app, serde=serde)[0].value["x"] == Custom(3)
    with pytest.raises(SerdeError, match="Custom"):
        replay(file, app)


def test_recording_does_not_change_the_run(file: Path) -> None:
    class FailingInstrument(Instrument):
        def on_superstep(self, event: Any) -> None:
            raise ValueError("no luck")

    app = one_node(lambda state: {"log": [1]}, InMemorySaver())
    with record(app, file) as recorded:
        assert recorded.invoke({}, thread_id="1") == {"log": [1]}
        assert app.get_state(thread_id="1").values == {"log": [1]}
        assert type(recorded) is type(app)


# -- the format


def test_the_first_line_names_the_format(file: Path) -> None:
    with record(one_node(lambda state: None), file) as recorded:
        recorded.invoke({})
    assert file.read_bytes().startswith(b"statewright replay 1\n")


def recorded_body(file: Path) -> tuple[Any, bytes]:
    app = one_node(lambda state: {"log": [1]})
    with record(app, file) as recorded:
        recorded.invoke({})
    return app, file.read_bytes().partition(b"\n")[2]


def test_a_newer_format_is_rejected(file: Path) -> None:
    app, body = recorded_body(file)
    file.write_bytes(f"statewright replay {FORMAT + 1}\n".encode() + body)
    with pytest.raises(
        NewerFormat, match=rf"format {FORMAT + 1}, and this version of Statewright reads up to {FORMAT}"
    ):
        replay(file, app)


def test_an_older_format_is_rejected(file: Path) -> None:
    app, body = recorded_body(file)
    file.write_bytes(b"statewright replay 0\n" + body)
    with pytest.raises(SerdeError, match="it has format 0, and this version reads 1"):
        replay(file, app)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04\n", b"statewright replay\n", b"statewright replay x\n"])
def test_a_file_that_is_not_a_recording_is_rejected(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(SerdeError, match="it is not a recording"):
        replay(file, one_node(ask))


def test_a_damaged_recording_is_rejected(file: Path) -> None:
    app, body = recorded_body(file)
    file.write_bytes(b"statewright replay 1\n" + body[: len(body) // 2])
    with pytest.raises(SerdeError, match="was truncated"):
        replay(file, app)
    file.write_bytes(b"statewright replay 1\n" + Serde().encode([1, 2]))
    with pytest.raises(SerdeError, match="does not contain a recording"):
        replay(file, app)


def test_a_missing_file_raises_file_not_found_error(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replay(file, one_node(ask))


def test_threads_with_a_fake_clock_are_recorded(file: Path) -> None:
    app = StateGraph(State).add_node("a", ask).add_edge(START, "a").compile(InMemorySaver(), clock=FakeClock())
    with record(app, file) as recorded:
        recorded.invoke({}, thread_id="1")
    assert replay(file, app)[0].status == "waiting"
