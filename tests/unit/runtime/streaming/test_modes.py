"""Stream modes: what each shows, and in which shape."""

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
from statewright.runtime.streaming.modes import MODES, PartList, StreamView, checked_modes, interrupt_dict

SCHEMA = {"log": append, "x": int}
QUESTION = Interrupt(id=InterruptId("0" * 32), value="how many?")


def say(word: str) -> Any:
    return lambda state: {"log": [word]}


def chain(*words: str, schema: Any = SCHEMA) -> StateGraph:
    built = StateGraph(schema)
    for word in words:
        built.add_node(word, say(word))
    return built.add_sequence([START, *words])


# -- modes


@pytest.mark.parametrize(
    ("given", "modes"),
    [("values", ("values",)), (["updates"], ("updates",)), (("tasks", "values"), ("tasks", "values")), (MODES, MODES)],
)
def test_modes_are_one_or_several(given: Any, modes: Sequence[str]) -> None:
    assert checked_modes(given) == modes


@pytest.mark.parametrize(
    ("given", "said"),
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
def test_what_is_no_mode_is_named(given: Any, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        checked_modes(given)
    assert said in str(caught.value)
    assert [mode for mode in MODES if mode not in str(caught.value)] == []


# -- shapes


def shown(make: Any, event: Event, *, version: Any = "v1", several: bool = False, subgraphs: bool = False) -> list[Any]:
    """The parts that a reader of the mode `custom` gets of an event."""
    program = make.program(make.graph("a").add_edge(START, "a"))
    view = StreamView(program, ["custom"], several=several, subgraphs=subgraphs, version=version)
    for kind, listener in view.listeners():
        if kind == event.kind:
            listener(event)
    return view.buffer.take()


@pytest.mark.parametrize(
    ("options", "namespace", "part"),
    [
        ({}, "", "said"),
        ({"several": True}, "", ("custom", "said")),
        ({"subgraphs": True}, "", ((), "said")),
        ({"subgraphs": True}, "a:1|b:2", (("a:1", "b:2"), "said")),
        ({"subgraphs": True, "several": True}, "a:1", (("a:1",), "custom", "said")),
        ({"version": "v2"}, "", {"type": "custom", "ns": (), "data": "said"}),
        ({"version": "v2", "several": True}, "", {"type": "custom", "ns": (), "data": "said"}),
        ({"version": "v2", "subgraphs": True}, "a:1", {"type": "custom", "ns": ("a:1",), "data": "said"}),
    ],
)
def test_the_shape_of_a_part(make: Any, options: dict[str, Any], namespace: str, part: Any) -> None:
    assert shown(make, Event("custom", "said", namespace=namespace), **options) == [part]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_what_happens_in_subgraphs_shows_only_if_asked_for(make: Any, version: str) -> None:
    assert shown(make, Event("custom", "said", namespace="a:1"), version=version) == []


def test_parts_that_come_of_one_event_are_parts_of_their_own(make: Any) -> None:
    assert shown(make, Event("custom", PartList(["one", "two"])), several=True) == [
        ("custom", "one"),
        ("custom", "two"),
    ]


def test_a_list_that_a_node_wrote_is_one_part(make: Any) -> None:
    assert shown(make, Event("custom", ["one", "two"])) == [["one", "two"]]


@pytest.mark.parametrize(
    ("modes", "live"), [(["values", "updates"], False), (["custom"], True), (["values", "messages"], True)]
)
def test_modes_that_should_be_read_while_tasks_run_are_live(make: Any, modes: Any, live: bool) -> None:
    program = make.program(make.graph("a").add_edge(START, "a"))
    view = StreamView(program, modes, several=True, subgraphs=False, version="v1")
    assert view.buffer.live is live


# -- what each mode shows


def test_values_are_the_state_after_the_input_and_after_each_superstep() -> None:
    parts = chain("a", "b").compile().stream({"x": 1}, stream_mode="values")
    assert [part["log"] for part in parts] == [[], ["a"], ["a", "b"]]


def test_a_part_of_values_is_a_copy_of_its_own() -> None:
    parts = chain("a", "b").compile().stream({"x": 1}, stream_mode="values")
    for part in parts:
        part["x"] = "changed by the reader"
    assert chain("a", "b").compile().invoke({"x": 1})["x"] == 1
    assert part["log"] == ["a", "b"]


def test_updates_show_each_task_under_the_name_of_its_node() -> None:
    built = chain("a").add_node("none", lambda state: None).add_edge("a", "none")
    assert list(built.compile().stream({"x": 1})) == [{"a": {"log": ["a"]}}, {"none": None}]


def test_updates_of_one_node_that_ran_twice_are_two_parts() -> None:
    built = StateGraph(SCHEMA).add_node("a", lambda state: {"log": [state["n"]]})
    built.add_conditional_edges(START, lambda state: [Send("a", {"n": n}) for n in range(2)], ["a"])
    parts = built.compile().stream({})
    assert sorted(part["a"]["log"] for part in parts) == [[0], [1]]


def test_an_error_handler_is_shown_under_the_name_of_its_node() -> None:
    def handle(state: Any, error: NodeError) -> dict[str, Any]:
        return {"log": ["handled"]}

    built = StateGraph(SCHEMA).add_node("a", lambda state: 1 / 0, error_handler=handle).add_edge(START, "a")
    assert list(built.compile().stream({})) == [{"a": {"log": ["handled"]}}]


@pytest.mark.parametrize("mode", ["values", "updates"])
def test_questions_are_a_part_under_a_key_of_their_own(mode: str) -> None:
    built = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    *_, last = built.compile(InMemorySaver()).stream({"x": 1}, thread_id="1", stream_mode=mode)
    assert list(last) == ["__interrupt__"]
    assert [one.value for one in last["__interrupt__"]] == ["how many?"]


def test_questions_stand_beside_the_data_in_version_two() -> None:
    built = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    *_, last = built.compile(InMemorySaver()).stream({"x": 1}, thread_id="1", stream_mode="values", version="v2")
    assert (last["type"], last["ns"]) == ("values", ())
    assert [one.value for one in last["interrupts"]] == ["how many?"]


def test_custom_shows_what_nodes_wrote_whatever_it_is() -> None:
    written = [1, None, {"a": 1}, [], "text"]

    def node(state: Any, runtime: Runtime[Any]) -> None:
        for value in written:
            runtime.stream_writer(value)

    app = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").compile()
    assert list(app.stream({}, stream_mode="custom")) == written
    assert app.invoke({}) == {"log": []}


def test_tasks_show_how_each_task_starts_and_how_it_ends() -> None:
    started, finished = chain("a").compile().stream({"x": 1}, stream_mode="tasks")
    assert (started["name"], started["input"]) == ("a", {"x": 1, "log": []})
    assert finished == {
        "id": started["id"],
        "name": "a",
        "error": None,
        "interrupts": [],
        "result": {"log": ["a"]},
    }


def test_tasks_show_errors_and_questions() -> None:
    failing = StateGraph(SCHEMA).add_node("a", lambda state: 1 / 0).add_edge(START, "a").compile()
    parts = failing.stream({}, stream_mode="tasks")
    next(parts)
    failed = next(parts)
    parts.close()
    assert (failed["result"], failed["error"]) == (None, "ZeroDivisionError: division by zero")
    asking = StateGraph(SCHEMA).add_node("a", lambda state: {"x": interrupt("how many?")}).add_edge(START, "a")
    _, paused = asking.compile(InMemorySaver()).stream({}, thread_id="1", stream_mode="tasks")
    assert [(one["value"], one["kind"]) for one in paused["interrupts"]] == [("how many?", "question")]
    assert (paused["result"], paused["error"]) == (None, None)


def test_checkpoints_show_what_is_saved_and_what_is_due() -> None:
    app = chain("a", "b").compile(InMemorySaver())
    parts = list(app.stream({"x": 1}, thread_id="1", stream_mode="checkpoints"))
    assert [(part["step"], part["next"]) for part in parts] == [(0, ["a"]), (1, ["b"]), (2, [])]
    assert [part["values"]["log"] for part in parts] == [[], ["a"], ["a", "b"]]
    saved = [one.config["configurable"]["checkpoint_id"] for one in app.get_state_history(thread_id="1")]
    assert [part["checkpoint_id"] for part in parts] == saved[::-1]
    assert [[task["name"] for task in part["tasks"]] for part in parts] == [["a"], ["b"], []]


def test_the_tasks_of_a_checkpoint_have_the_ids_under_which_they_run() -> None:
    parts = list(
        chain("a", "b").compile(InMemorySaver()).stream({}, thread_id="1", stream_mode=["checkpoints", "tasks"])
    )
    due = [task["id"] for mode, part in parts if mode == "checkpoints" for task in part["tasks"]]
    started = [part["id"] for mode, part in parts if mode == "tasks" and "input" in part]
    assert due == started


def test_debug_wraps_tasks_and_checkpoints_with_step_and_kind() -> None:
    parts = list(chain("a").compile().stream({"x": 1}, stream_mode="debug"))
    assert [(part["type"], part["step"]) for part in parts] == [
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
    ]
    plain = chain("a").compile().stream({"x": 1}, stream_mode=["tasks", "checkpoints"])
    assert [set(part["payload"]) for part in parts] == [set(part) for _, part in plain]


def test_parts_of_several_modes_come_in_the_order_in_which_things_happened() -> None:
    modes = ["updates", "values", "custom"]

    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("said")
        return {"x": 2}

    app = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").compile()
    assert [mode for mode, _ in app.stream({"x": 1}, stream_mode=modes)] == ["values", "custom", "updates", "values"]


# -- messages


def talking(*answers: Any) -> StateGraph:
    """A node for each answer, one after another."""
    built = StateGraph(MessagesState)
    names = [f"n{number}" for number in range(len(answers))]
    for name, answer in zip(names, answers, strict=True):
        built.add_node(name, lambda state, answer=answer: answer, tags=["talks"])
    return built.add_sequence([START, *names])


def test_messages_show_what_nodes_answer_with_where_it_comes_from() -> None:
    app = talking({"messages": [Message("hello", role="assistant"), Message("again", role="assistant")]}).compile()
    parts = list(app.stream({"messages": ["hi"]}, stream_mode="messages", run_id="r"))
    assert [message.content for message, _ in parts] == ["hello", "again"]
    origin = parts[0][1]
    assert (origin["node"], origin["step"], origin["run_id"], origin["tags"]) == ("n0", 1, "r", ["talks"])


def test_a_message_of_which_pieces_were_seen_is_not_shown_again_as_a_whole() -> None:
    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        for piece in ("hel", "lo"):
            runtime.push_message(Message(piece, role="assistant", id="m1"))
        whole = Message("hello", role="assistant", id="m1")
        return {"messages": [whole, Message("other", role="assistant", id="m2")]}

    app = StateGraph(MessagesState).add_node("a", node).add_edge(START, "a").compile()
    shown = [message.content for message, _ in app.stream({"messages": []}, stream_mode="messages")]
    assert shown == ["hel", "lo", "other"]


def test_a_message_that_is_answered_twice_is_shown_once() -> None:
    message = Message("hello", role="assistant", id="m1")
    app = talking({"messages": [message]}, {"messages": [message]}).compile()
    assert len(list(app.stream({"messages": []}, stream_mode="messages"))) == 1


def test_each_stream_sees_messages_anew() -> None:
    app = talking({"messages": [Message("hello", role="assistant", id="m1")]}).compile()
    for _ in range(2):
        assert len(list(app.stream({"messages": []}, stream_mode="messages"))) == 1


def test_a_message_of_a_subgraph_is_shown_once_if_subgraphs_are() -> None:
    inner = talking({"messages": [Message("hello", role="assistant", id="m1")]}).compile()
    app = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner").compile()
    shown = list(app.stream({"messages": []}, stream_mode="messages", subgraphs=True))
    assert [(len(path), message.content) for path, (message, _) in shown] == [(1, "hello")]


# -- the rest


@pytest.mark.parametrize(
    ("interrupt", "plain"),
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
def test_a_question_as_plain_data(interrupt: Interrupt, plain: dict[str, Any]) -> None:
    assert interrupt_dict(interrupt) == plain


def test_a_resumed_stream_shows_the_task_that_asked() -> None:
    built = StateGraph(SCHEMA).add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge(START, "ask")
    app = built.compile(InMemorySaver())
    app.invoke({"x": 1}, thread_id="1")
    assert list(app.stream(Command(resume=5), thread_id="1")) == [{"ask": {"x": 5}}]


class Shown(TypedDict):
    x: int


def test_only_what_the_output_schema_shows_is_in_values_and_checkpoints() -> None:
    built = StateGraph(SCHEMA, output_schema=Shown).add_node("a", say("a")).add_edge(START, "a")
    parts = built.compile().stream({"x": 1}, stream_mode=["values", "checkpoints"])
    assert [part if mode == "values" else part["values"] for mode, part in parts] == [{"x": 1}] * 4
