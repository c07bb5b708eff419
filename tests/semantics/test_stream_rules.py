"""Part I section 8, beyond `test_streams`: event logs, messages, parts of version 2, back-pressure."""

import asyncio
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    Message,
    MessagesState,
    MessagesStateGraph,
    Runtime,
    StateGraph,
    append,
    interrupt,
)

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


def asking(saver: Any) -> Any:
    graph = StateGraph(State).add_node("first", lambda s: {"log": ["first"]})
    graph.add_node("ask", lambda s: {"log": [interrupt("?")]})
    return graph.add_edge(START, "first").add_edge("first", "ask").compile(saver)


def test_8_1_the_events_of_a_run_are_numbered_without_gaps(driver: Any) -> None:
    app = asking(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD, run_id="run")
    driver.invoke(app, Command(resume=1), THREAD, run_id="run")

    log = app.get_events(THREAD, run_id="run")
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert [
        (event.kind, event.node or (event.data or {} if isinstance(event.data, dict) else {}).get("status"))
        for event in log
    ] == [
        ("run_started", None),
        ("task_finished", "first"),
        ("superstep_finished", None),
        ("interrupted", None),
        ("run_finished", "waiting"),
        ("run_started", None),
        ("task_finished", "ask"),
        ("superstep_finished", None),
        ("run_finished", "completed"),
    ]
    assert all(event.at is not None and event.thread_id == "1" for event in log)
    assert [event.seq for event in app.get_events(THREAD, run_id="run", after=7)] == [8, 9]


def test_8_1_events_are_saved_with_their_commit(driver: Any) -> None:
    saver, seen = InMemorySaver(), []

    def second(state: State) -> None:
        seen.extend(event.kind for event in saver.events("1"))

    graph = StateGraph(State).add_node("first", lambda s: None).add_node(second)
    driver.invoke(graph.add_edge(START, "first").add_edge("first", "second").compile(saver), {"x": 1}, THREAD)
    assert seen == ["run_started", "task_finished", "superstep_finished"]


def test_8_1_the_event_log_records_the_failure_of_a_run(driver: Any) -> None:
    def bad(state: State) -> None:
        raise KeyError("why")

    app = StateGraph(State).add_node(bad).add_edge(START, "bad").compile(InMemorySaver())
    with pytest.raises(KeyError):
        driver.invoke(app, {"x": 1}, THREAD)
    assert app.get_events(THREAD)[-1].data == {"status": "failed", "error": "KeyError: 'why'"}


def test_8_1_the_event_log_of_a_run_includes_its_subgraphs(driver: Any) -> None:
    child = StateGraph(State).add_node("inner", lambda s: {"log": [1]}).add_edge(START, "inner").compile()
    app = StateGraph(State).add_node("child", child).add_edge(START, "child").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    log = app.get_events(THREAD)
    assert [event.node for event in log if event.kind == "task_finished"] == ["inner", "child"]
    assert [event.kind for event in log].count("run_started") == 1
    assert log[1].namespace.startswith("child:")


# -- messages


def test_8_2_returned_messages_are_streamed_with_their_origin(driver: Any, paint: Any) -> None:
    graph = MessagesStateGraph().add_node(
        "talk", paint(lambda s: ["one", {"role": "assistant", "content": "two"}]), tags=["t"]
    )
    parts = driver.stream(graph.add_edge(START, "talk").compile(), "hello", stream_mode="messages")

    assert [(message.content, origin["node"], origin["step"], origin["tags"]) for message, origin in parts] == [
        ("one", "talk", 1, ["t"]),
        ("two", "talk", 1, ["t"]),
    ]


def test_8_2_a_message_streamed_in_pieces_is_not_streamed_again(driver: Any) -> None:
    def talk(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        for piece in ("Hel", "lo"):
            runtime.push_message(Message(piece, role="assistant", id="m1"))
        return {"messages": [Message("Hello", role="assistant", id="m1"), "and more"]}

    app = StateGraph(MessagesState).add_node(talk).add_edge(START, "talk").compile()
    parts = driver.stream(app, {"messages": []}, stream_mode="messages")
    assert [message.content for message, _ in parts] == ["Hel", "lo", "and more"]


def test_8_4_messages_of_subgraphs_are_streamed_once(driver: Any) -> None:
    child = MessagesStateGraph().add_node("talk", lambda s: "inside").add_edge(START, "talk").compile()
    app = MessagesStateGraph().add_node("child", child).add_edge(START, "child").compile()

    parts = driver.stream(app, "hello", stream_mode="messages", subgraphs=True)
    assert [(len(path), message.content) for path, (message, _) in parts] == [(1, "inside")]


# -- version 2


def test_8_2_version_2_parts_carry_open_questions(driver: Any) -> None:
    parts = driver.stream(asking(InMemorySaver()), {"x": 1}, version="v2", **THREAD)

    assert [part["type"] for part in parts] == ["updates", "updates"]
    assert [question.value for question in parts[1]["interrupts"]] == ["?"]


def test_8_2_version_2_results_separate_value_and_questions(driver: Any) -> None:
    output = driver.invoke(asking(InMemorySaver()), {"x": 1}, version="v2", **THREAD)

    assert output.value == {"x": 1, "log": ["first"]}
    assert [question.value for question in output.interrupts] == ["?"]


# -- back-pressure


def test_8_3_a_run_waits_for_a_slow_reader() -> None:
    ran: list[int] = []

    async def node(state: State) -> dict[str, Any]:
        ran.append(1)
        return {"x": state["x"] + 1}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda s: "node" if s["x"] < 5000 else "__end__", ["node", "__end__"])
    app = graph.compile()

    async def main() -> int:
        parts = app.astream({"x": 0}, recursion_limit=6000)
        await anext(parts)
        for _ in range(3000):
            await asyncio.sleep(0)
        seen = len(ran)
        await parts.aclose()
        return seen

    assert asyncio.run(main()) < 2500


def test_8_3_updates_are_never_dropped() -> None:
    def chatty(state: State, writer: Any) -> dict[str, Any]:
        for n in range(15_000):
            writer(n)
        return {"log": ["done"]}

    app = StateGraph(State).add_node(chatty).add_edge(START, "chatty").compile()

    async def main() -> list[Any]:
        parts = app.astream({"x": 1}, stream_mode=["custom", "updates"])
        return [part async for part in parts]

    read = asyncio.run(main())
    assert read[-1] == ("updates", {"chatty": {"log": ["done"]}})
    assert len(read) <= 15_001
