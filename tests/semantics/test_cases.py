"""Cases 1 to 12 of the conformance table (runs-and-agents.md, section 4), one test each."""

import asyncio
import itertools
from typing import Any

import pytest

from statewright import (
    END,
    START,
    AppendReducer,
    Command,
    EphemeralReducer,
    MessagesStateGraph,
    OverwriteReducer,
    StateGraph,
)


def connect(graph: StateGraph, *names: str) -> StateGraph:
    """Connect nodes in a row."""
    graph.set_entry_point(names[0])
    for start, end in itertools.pairwise(names):
        graph.add_edge(start, end)
    return graph.set_finish_point(names[-1])


def test_case_01_append_reducer(driver: Any) -> None:
    graph = StateGraph({"messages": AppendReducer})
    graph.add_node("A", "first", lambda s: {"messages": ["A"]}).add_node("B", "second", lambda s: {"messages": ["B"]})

    assert driver.invoke(connect(graph, "A", "B").compile(), {"messages": ["start"]}) == {
        "messages": ["start", "A", "B"]
    }


def test_case_02_overwrite(driver: Any) -> None:
    graph = StateGraph({"summary": OverwriteReducer}).add_node("A", lambda s: {"summary": "new"})

    assert driver.invoke(connect(graph, "A").compile(), {"summary": "old"}) == {"summary": "new"}


def test_case_03_custom_sum_in_parallel(driver: Any, paint: Any) -> None:
    seen: list[int] = []

    def count(state: Any) -> Any:
        seen.append(state["count"])
        return {"count": 1}

    graph = StateGraph({"count": lambda old, new: old + new})
    graph.add_node("X", paint(count)).add_node("Y", paint(count)).add_edge(START, "X").add_edge(START, "Y")

    assert driver.invoke(graph.compile(), {"count": 0}) == {"count": 2}
    assert seen == [0, 0]


def test_case_04_parallel_append_is_in_the_order_of_definition(driver: Any, within: Any) -> None:
    async def b1(state: Any) -> Any:
        for _ in range(5):
            await asyncio.sleep(0)
        return {"messages": ["b1"]}

    async def b2(state: Any) -> Any:
        return {"messages": ["b2"]}

    graph = (
        StateGraph({"messages": AppendReducer}).add_node("a", lambda s: {"messages": ["a"]}).add_node(b1).add_node(b2)
    )
    app = graph.add_edge(START, "a").add_edge("a", "b1").add_edge("a", "b2").compile()

    for _ in range(20):
        assert driver.invoke(app, {"messages": []}) == {"messages": ["a", "b1", "b2"]}


def test_case_05_unregistered_key(driver: Any) -> None:
    value = {"k": 0}
    graph = StateGraph({"messages": AppendReducer}).add_node("A", lambda s: {"k": 1}).add_node("B", lambda s: {"k": 2})

    assert driver.invoke(connect(graph, "A", "B").compile(), value)["k"] == 2
    assert value == {"k": 0}


def test_case_06_ephemeral_lasts_for_the_next_step(driver: Any) -> None:
    seen: dict[str, Any] = {}

    def log(name: str) -> Any:
        return lambda state: seen.update({name: state.get("error_signal", "absent")})

    graph = StateGraph({"error_signal": EphemeralReducer, "x": OverwriteReducer})
    graph.add_node("A", lambda s: {"error_signal": "boom"}).add_node("B", log("B")).add_node("C", log("C"))

    result = driver.invoke(connect(graph, "A", "B", "C").compile(), {"x": 1})

    assert seen == {"B": "boom", "C": "absent"}
    assert result == {"x": 1}


def test_case_07_ephemeral_is_seen_by_the_router(driver: Any) -> None:
    graph = StateGraph({"error_signal": EphemeralReducer, "path": AppendReducer})
    graph.add_node("A", lambda s: {"error_signal": "boom"})
    graph.add_node("handle", lambda s: {"path": "handle"}).add_node("go", lambda s: {"path": "go"})
    graph.add_conditional_edges("A", lambda s: "handle" if s.get("error_signal") else "go", ["handle", "go"])

    assert driver.invoke(graph.set_entry_point("A").compile(), {"path": []}) == {"path": ["handle"]}


def test_case_08_ephemeral_rewritten(driver: Any) -> None:
    seen: dict[str, Any] = {}

    def read_signal(name: str, **update: Any) -> Any:
        def node(state: Any) -> Any:
            seen[name] = state.get("signal", "absent")
            return update

        return node

    graph = StateGraph({"signal": EphemeralReducer, "x": OverwriteReducer})
    graph.add_node("A", read_signal("A", signal="1")).add_node("B", read_signal("B", signal="2"))
    graph.add_node("C", read_signal("C")).add_node("D", read_signal("D"))
    driver.invoke(connect(graph, "A", "B", "C", "D").compile(), {"x": 1})

    assert seen == {"A": "absent", "B": "1", "C": "2", "D": "absent"}


def messages_after(driver: Any, *answers: Any) -> list[tuple[str | None, str]]:
    graph = MessagesStateGraph()
    names = [f"n{number}" for number in range(len(answers))]
    for name, answer in zip(names, answers, strict=True):
        graph.add_node(name, lambda state, answer=answer: answer)
    result = driver.invoke(connect(graph, *names).compile(), {"messages": []})
    return [(message.id, message.text) for message in result["messages"]]


def message(message_id: str | None, text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"id": message_id} if message_id else {})}


def test_case_09_message_upsert(driver: Any) -> None:
    messages = messages_after(driver, [message("m1", "Thinking...")], [message("m1", "The answer is 42.")])

    assert messages == [("m1", "The answer is 42.")]


def test_case_10_upsert_and_append(driver: Any) -> None:
    messages = messages_after(
        driver,
        [message("1", "1"), message("2", "2")],
        [message("1", "1'"), message("3", "3")],
        message(None, "x"),
        message(None, "x"),
    )

    assert messages[:3] == [("1", "1'"), ("2", "2"), ("3", "3")]
    assert [text for _, text in messages[3:]] == ["x", "x"]
    assert len({message_id for message_id, _ in messages}) == 5


def test_case_11_command_goto(driver: Any, paint: Any) -> None:
    ran: list[str] = []

    def add(name: str, amount: int) -> Any:
        def node(state: Any) -> Any:
            ran.append(name)
            return {"count": amount}

        return paint(node)

    graph = StateGraph({"count": lambda old, new: old + new})
    graph.add_node("A", paint(lambda s: Command(goto="C", update={"count": 1})))
    graph.add_node("B", add("B", 10)).add_node("C", add("C", 100))

    assert driver.invoke(connect(graph, "A", "B", "C").compile(), {"count": 0}) == {"count": 101}
    assert ran == ["C"]


@pytest.mark.parametrize("goto", [END, [END]])
def test_case_12_command_end_with_update(driver: Any, goto: Any) -> None:
    ran: list[str] = []
    graph = StateGraph({"key": OverwriteReducer})
    graph.add_node("A", lambda s: Command(goto=goto, update={"key": "value"})).add_node("B", lambda s: ran.append("B"))

    assert driver.invoke(connect(graph, "A", "B").compile(), {"key": ""}) == {"key": "value"}
    assert ran == []
