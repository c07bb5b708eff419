"""Stream modes: the parts of each mode and their shape."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    Message,
    MessagesState,
    Runtime,
    Send,
    StateGraph,
    append,
    interrupt,
)
from statewright.checkpoint import Interrupt
from statewright.errors import InvalidConfig
from statewright.events import Event
from statewright.graph import NodeError
from statewright.ids import InterruptId
from statewright.runtime.streaming.modes import MODES, PartList, StreamFormatter, checked_modes, interrupt_dict

SCHEMA = {"log": append, "x": int}
QUESTION = Interrupt(id=InterruptId("0" * 32), value="how many?")


def log_word(word: str) -> Any:
    return lambda state: {"log": [word]}


def chain(*words: str, schema: Any = SCHEMA) -> StateGraph:
    builder = StateGraph(schema)
    for word in words:
        builder.add_node(word, log_word(word))
    return builder.add_sequence([START, *words])


# -- modes


@pytest.mark.parametrize(
    ("argument", "modes"),
    [("values", ("values",)), (["updates"], ("updates",)), (("tasks", "values"), ("tasks", "values")), (MODES, MODES)],
)
def test_stream_mode_can_be_one_or_several_modes(argument: Any, modes: Sequence[str]) -> None:
    assert checked_modes(argument) == modes


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("value", "Unknown stream_mode 'value'. Did you mean 'values'?"),
        (["values", "update"], "'update'. Did you mean 'updates'"),
        ([], "Modes: "),
        ("", "Modes: "),
        pytest.param([None], "Unknown stream_mode None"),
        pytest.param(None, "Unknown stream_mode None"),
        pytest.param(5, "Unknown stream_mode 5"),
    ],
)
def test_an_unknown_mode_is_refused_with_a_list_of_the_modes(argument: Any, message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        checked_modes(argument)
    assert message in str(caught.value)
    assert [mode for mode in MODES if mode not in str(caught.value)] == []


# -- shapes


def parts_of(
    make: Any, event: Event, *, version: Any = "v1", shows_mode: bool = False, subgraphs: bool = False
) -> list[Any]:
    """Return the parts of an event in the mode `custom`."""
    program = make.program(make.graph("a").add_edge(START, "a"))
    formatter = StreamFormatter(program, ["custom"], shows_mode=shows_mode, subgraphs=subgraphs, version=version)
    for kind, listener in formatter.listeners():
        if kind == event.kind:
            listener(event)
    return formatter.buffer.take()


@pytest.mark.parametrize(
    ("options", "namespace", "part"),
    [
        ({}, "", "data"),
        ({"shows_mode": True}, "", ("custom", "data")),
        ({"subgraphs": True}, "", ((), "data")),
        ({"subgraphs": True}, "a:1|b:2", (("a:1", "b:2"), "data")),
        ({"subgraphs": True, "shows_mode": True}, "a:1", (("a:1",), "custom", "data")),
        ({"version": "v2"}, "", {"type": "custom", "ns": (), "data": "data"}),
        ({"version": "v2", "shows_mode": True}, "", {"type": "custom", "ns": (), "data": "data"}),
        ({"version": "v2", "subgraphs": True}, "a:1", {"type": "custom", "ns": ("a:1",), "data": "data"}),
    ],
)
def test_the_shape_of_a_part_depends_on_version_modes_and_subgraphs(
    make: Any, options: dict[str, Any], namespace: str, part: Any
) -> None:
    assert parts_of(make, Event("custom", "data", namespace=namespace), **options) == [part]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_events_of_subgraphs_are_omitted_by_default(make: Any, version: str) -> None:
    assert parts_of(make, Event("custom", "data", namespace="a:1"), version=version) == []


def test_a_part_list_becomes_several_parts(make: Any) -> None:
    assert parts_of(make, Event("custom", PartList(["one", "two"])), shows_mode=True) == [
        ("custom", "one"),
        ("custom", "two"),
    ]


def test_a_list_written_by_a_node_is_one_part(make: Any) -> None:
    assert parts_of(make, Event("custom", ["one", "two"])) == [["one", "two"]]


@pytest.mark.parametrize(
    ("modes", "live"), [(["values", "updates"], False), (["custom"], True), (["values", "messages"], True)]
)
def test_custom_and_messages_are_live_modes(make: Any, modes: Any, live: bool) -> None:
    program = make.program(make.graph("a").add_edge(START, "a"))
    formatter = StreamFormatter(program, modes, shows_mode=True, subgraphs=False, version="v1")
    assert formatter.buffer.flushes_during_tasks is live


# -- the parts of each mode


def test_values_are_the_state_after_the_input_and_after_each_superstep() -> None:
    parts = chain("a", "b").compile().stream({"x": 1}, stream_mode="values")
    assert [part["log"] for part in parts] == [[], ["a"], ["a", "b"]]


def test_changing_a_part_of_values_does_not_change_the_state() -> None:
    seen: list[Any] = []
    for part in chain("a", "b").compile().stream({"x": 1}, stream_mode="values"):
        seen.append((part["x"], part["log"]))
        part["x"] = "changed by the reader"
    assert seen == [(1, []), (1, ["a"]), (1, ["a", "b"])]


def test_updates_have_the_result_of_each_task_by_node() -> None:
    builder = chain("a").add_node("none", lambda state: None).add_edge("a", "none")
    assert list(builder.compile().stream({"x": 1})) == [{"a": {"log": ["a"]}}, {"none": None}]


def test_two_tasks_of_one_node_are_two_updates() -> None:
    builder = StateGraph(SCHEMA).add_node("a", lambda state: {"log": [state["n"]]})
    builder.add_conditional_edges(START, lambda state: [Send("a", {"n": n}) for n in range(2)], ["a"])
    parts = builder.compile().stream({})
    assert sorted(part["a"]["log"] for part in parts) == [[0], [1]]


def test_the_update_of_an_error_handler_has_the_name_of_its_node() -> None:
    def handle(state: Any, error: NodeError) -> dict[str, Any]:
        return {"log": ["handled"]}

    builder = StateGraph(SCHEMA).add_node("a", lambda state: 1 / 0, error_handler=handle).add_edge(START, "a")
    assert list(builder.compile().stream({})) == [{"a": {"log": ["handled"]}}]


@pytest.mark.parametrize("mode", ["values", "updates"])
def test_questions_are_the_last_part_under_interrupt(mode: str) -> None:
    builder = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    *_, last = builder.compile(InMemorySaver()).stream({"x": 1}, thread_id="1", stream_mode=mode)
    assert list(last) == ["__interrupt__"]
    assert [question.value for question in last["__interrupt__"]] == ["how many?"]


def test_version_2_has_questions_in_a_separate_key() -> None:
    builder = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    *_, last = builder.compile(InMemorySaver()).stream({"x": 1}, thread_id="1", stream_mode="values", version="v2")
    assert (last["type"], last["ns"]) == ("values", ())
    assert [question.value for question in last["interrupts"]] == ["how many?"]


def test_custom_parts_are_the_written_values() -> None:
    written = [1, None, {"a": 1}, [], "text"]

    def node(state: Any, runtime: Runtime[Any]) -> None:
        for value in written:
            runtime.stream_writer(value)

    app = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").compile()
    assert list(app.stream({}, stream_mode="custom")) == written
    assert app.invoke({}) == {"log": []}


def test_tasks_have_a_part_for_the_start_and_the_end_of_each_task() -> None:
    started, finished = chain("a").compile().stream({"x": 1}, stream_mode="tasks")
    assert (started["name"], started["input"]) == ("a", {"x": 1, "log": []})
    assert finished == {
        "id": started["id"],
        "name": "a",
        "error": None,
        "interrupts": [],
        "result": {"log": ["a"]},
    }


def test_task_parts_have_errors_and_questions() -> None:
    failing = StateGraph(SCHEMA).add_node("a", lambda state: 1 / 0).add_edge(START, "a").compile()
    parts = failing.stream({}, stream_mode="tasks")
    next(parts)
    failed = next(parts)
    parts.close()
    assert (failed["result"], failed["error"]) == (None, "ZeroDivisionError: division by zero")
    questioning = StateGraph(SCHEMA).add_node("a", lambda state: {"x": interrupt("how many?")}).add_edge(START, "a")
    _, paused = questioning.compile(InMemorySaver()).stream({}, thread_id="1", stream_mode="tasks")
    assert [(question["value"], question["kind"]) for question in paused["interrupts"]] == [("how many?", "question")]
    assert (paused["result"], paused["error"]) == (None, None)


def test_checkpoint_parts_have_the_saved_values_and_due_tasks() -> None:
    app = chain("a", "b").compile(InMemorySaver())
    parts = list(app.stream({"x": 1}, thread_id="1", stream_mode="checkpoints"))
    assert [(part["step"], part["next"]) for part in parts] == [(0, ["a"]), (1, ["b"]), (2, [])]
    assert [part["values"]["log"] for part in parts] == [[], ["a"], ["a", "b"]]
    saved = [state.config["configurable"]["checkpoint_id"] for state in app.get_state_history(thread_id="1")]
    assert [part["checkpoint_id"] for part in parts] == saved[::-1]
    assert [[task["name"] for task in part["tasks"]] for part in parts] == [["a"], ["b"], []]


def test_tasks_of_a_checkpoint_part_have_the_ids_of_task_parts() -> None:
    parts = list(
        chain("a", "b").compile(InMemorySaver()).stream({}, thread_id="1", stream_mode=["checkpoints", "tasks"])
    )
    due = [task["id"] for mode, part in parts if mode == "checkpoints" for task in part["tasks"]]
    started = [part["id"] for mode, part in parts if mode == "tasks" and "input" in part]
    assert due == started


def test_debug_parts_have_the_type_and_step_of_tasks_and_checkpoints() -> None:
    parts = list(chain("a").compile().stream({"x": 1}, stream_mode="debug"))
    assert [(part["type"], part["step"]) for part in parts] == [
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
    ]
    plain = chain("a").compile().stream({"x": 1}, stream_mode=["tasks", "checkpoints"])
    assert [set(part["payload"]) for part in parts] == [set(part) for _, part in plain]


def test_parts_of_several_modes_are_in_order_of_events() -> None:
    modes = ["updates", "values", "custom"]

    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("data")
        return {"x": 2}

    app = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").compile()
    assert [mode for mode, _ in app.stream({"x": 1}, stream_mode=modes)] == ["values", "custom", "updates", "values"]


# -- messages


def message_graph(*answers: Any) -> StateGraph:
    """Return a graph with a node for each answer, in sequence."""
    builder = StateGraph(MessagesState)
    names = [f"n{number}" for number in range(len(answers))]
    for name, answer in zip(names, answers, strict=True):
        builder.add_node(name, lambda state, answer=answer: answer, tags=["tagged"])
    return builder.add_sequence([START, *names])


def test_message_parts_have_the_messages_of_nodes_and_their_origin() -> None:
    app = message_graph(
        {"messages": [Message("hello", role="assistant"), Message("again", role="assistant")]}
    ).compile()
    parts = list(app.stream({"messages": ["hi"]}, stream_mode="messages", run_id="r"))
    assert [message.content for message, _ in parts] == ["hello", "again"]
    origin = parts[0][1]
    assert (origin["node"], origin["step"], origin["run_id"], origin["tags"]) == ("n0", 1, "r", ["tagged"])


def test_a_message_streamed_in_pieces_is_not_repeated() -> None:
    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        for piece in ("hel", "lo"):
            runtime.push_message(Message(piece, role="assistant", id="m1"))
        complete = Message("hello", role="assistant", id="m1")
        return {"messages": [complete, Message("other", role="assistant", id="m2")]}

    app = StateGraph(MessagesState).add_node("a", node).add_edge(START, "a").compile()
    contents = [message.content for message, _ in app.stream({"messages": []}, stream_mode="messages")]
    assert contents == ["hel", "lo", "other"]


def test_a_message_returned_twice_is_streamed_once() -> None:
    message = Message("hello", role="assistant", id="m1")
    app = message_graph({"messages": [message]}, {"messages": [message]}).compile()
    assert len(list(app.stream({"messages": []}, stream_mode="messages"))) == 1


def test_each_stream_has_all_messages() -> None:
    app = message_graph({"messages": [Message("hello", role="assistant", id="m1")]}).compile()
    for _ in range(2):
        assert len(list(app.stream({"messages": []}, stream_mode="messages"))) == 1


def test_a_message_of_a_subgraph_is_streamed_once() -> None:
    inner = message_graph({"messages": [Message("hello", role="assistant", id="m1")]}).compile()
    app = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner").compile()
    parts = list(app.stream({"messages": []}, stream_mode="messages", subgraphs=True))
    assert [(len(path), message.content) for path, (message, _) in parts] == [(1, "hello")]


# -- other


@pytest.mark.parametrize(
    ("interrupt", "expected"),
    [
        (QUESTION, {"id": "0" * 32, "value": "how many?", "kind": "question"}),
        (
            Interrupt(id=QUESTION.id, value=None, kind="event", event="paid"),
            {"id": "0" * 32, "value": None, "kind": "event", "event": "paid"},
        ),
        (
            Interrupt(id=QUESTION.id, value=None, kind="timer", due_at=datetime(2026, 1, 2, tzinfo=UTC)),
            {"id": "0" * 32, "value": None, "kind": "timer", "due_at": datetime(2026, 1, 2, tzinfo=UTC)},
        ),
    ],
)
def test_interrupt_dict_returns_plain_data(interrupt: Interrupt, expected: dict[str, Any]) -> None:
    assert interrupt_dict(interrupt) == expected


def test_a_resumed_stream_has_the_update_of_the_task_that_asked() -> None:
    builder = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    app = builder.compile(InMemorySaver())
    app.invoke({"x": 1}, thread_id="1")
    assert list(app.stream(Command(resume=5), thread_id="1")) == [{"ask": {"x": 5}}]


class OnlyX(TypedDict):
    x: int


def test_values_and_checkpoints_have_only_fields_of_the_output_schema() -> None:
    builder = StateGraph(SCHEMA, output_schema=OnlyX).add_node("a", log_word("a")).add_edge(START, "a")
    parts = builder.compile().stream({"x": 1}, stream_mode=["values", "checkpoints"])
    assert [part if mode == "values" else part["values"] for mode, part in parts] == [{"x": 1}] * 4
