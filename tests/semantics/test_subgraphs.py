"""Part I section 4.5: subgraphs as nodes and called in nodes, their memory, and nesting of both drivers."""

import asyncio
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import (
    END,
    START,
    Command,
    InMemorySaver,
    MessagesState,
    Send,
    StateGraph,
    add_messages,
    append,
    interrupt,
)
from statewright.errors import InvalidConfig, InvalidResume, InvalidUpdateError, NamespaceBusy, UnknownTarget


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


class Out(TypedDict, total=False):
    log: Annotated[list[Any], append]


class Child(TypedDict, total=False):
    x: int
    found: Annotated[list[Any], append]


RUNS: list[str] = []


@pytest.fixture(autouse=True)
def runs() -> list[str]:
    """The names of the nodes that ran in this test, in order of their starts."""
    RUNS.clear()
    return RUNS


def say(name: str, field: str = "log") -> Any:
    def node(state: Any) -> dict[str, Any]:
        RUNS.append(name)
        return {field: [name]}

    node.__name__ = name
    return node


def ask(name: str, field: str = "log") -> Any:
    def node(state: Any) -> dict[str, Any]:
        RUNS.append(name)
        return {field: [(name, interrupt(f"{name}?"))]}

    node.__name__ = name
    return node


def parallel(*nodes: Any, schema: Any = State) -> StateGraph:
    """A graph whose nodes run in parallel."""
    graph = StateGraph(schema)
    for node in nodes:
        graph.add_node(node).add_edge(START, node.__name__)
    return graph


def with_child(child: Any, *nodes: Any, **options: Any) -> StateGraph:
    """A graph that runs the subgraph `child` in parallel with other nodes."""
    return parallel(*nodes).add_node("child", child, **options).add_edge(START, "child")


def ids(result: Any) -> dict[str, str]:
    return {question.value: question.id for question in result["__interrupt__"]}


# -- as a node, and called in a node


def test_a_subgraph_as_a_node_shares_the_common_fields(driver: Any, paint: Any) -> None:
    def inside(state: Any) -> Any:
        assert set(state) == {"x", "found"}
        return {"x": state["x"] + 1, "found": ["private"]}

    child = StateGraph(Child).add_node("inside", paint(inside)).add_edge(START, "inside").compile()
    app = with_child(child).add_node("after", paint(lambda s: {"log": [s["x"]]})).add_edge("child", "after").compile()

    assert driver.invoke(app, {"x": 1}) == {"x": 2, "log": [2]}


def test_a_node_can_call_a_subgraph(driver: Any, paint: Any) -> None:
    child = parallel(paint(say("inner"))).compile()
    app = StateGraph(State)
    app.add_node("call", lambda s: {"log": ["got", *child.invoke({"x": 1})["log"]]}).add_edge(START, "call")

    assert driver.invoke(app.compile(), {"x": 1})["log"] == ["got", "inner"]


def test_a_coroutine_node_can_await_subgraphs(driver: Any, paint: Any) -> None:
    child = parallel(paint(say("inner")), paint(say("twin"))).compile()

    async def call(state: Any) -> Any:
        results = await asyncio.gather(child.ainvoke({"x": 1}), child.ainvoke({"x": 2}))
        return {"log": [result["log"] for result in results]}

    app = parallel(call).compile()

    assert driver.invoke(app, {"x": 1})["log"] == [["inner", "twin"], ["inner", "twin"]]


def test_a_send_can_start_a_subgraph(driver: Any) -> None:
    child = (
        StateGraph(State, output_schema=Out)
        .add_node("double", lambda s: {"log": [s["x"] * 2]})
        .add_edge(START, "double")
        .compile()
    )
    app = StateGraph(State).add_node("s", lambda s: [Send("child", {"x": n}) for n in range(3)], destinations=["child"])
    app.add_node("child", child).add_edge(START, "s")

    assert driver.invoke(app.compile(), {"x": 1})["log"] == [0, 2, 4]


def test_the_context_of_the_run_reaches_its_subgraphs(driver: Any) -> None:
    child = (
        StateGraph(State).add_node("inside", lambda s, runtime: {"log": [runtime.context]}).add_edge(START, "inside")
    )

    assert driver.invoke(with_child(child.compile()).compile(), {"x": 1}, context="ctx")["log"] == ["ctx"]


def test_an_exception_in_a_subgraph_has_notes_that_name_both_nodes(driver: Any, paint: Any) -> None:
    def bad(state: Any) -> None:
        raise KeyError("inside")

    app = with_child(parallel(bad).compile()).compile()

    with pytest.raises(KeyError, match="inside") as caught:
        driver.invoke(app, {"x": 1})
    assert [note.split(",")[0] for note in caught.value.__notes__] == ["in node 'bad'", "in node 'child'"]


def test_a_subgraph_uses_the_saver_of_its_caller(driver: Any) -> None:
    own = InMemorySaver()
    child = parallel(ask("a")).compile(own)
    app = with_child(child).compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert own.load("1") is None
    assert driver.invoke(app, Command(resume=1), thread_id="1")["log"] == [("a", 1)]


def test_a_call_with_a_thread_id_is_a_separate_run(driver: Any) -> None:
    child = parallel(say("inner")).compile(InMemorySaver())
    app = StateGraph(State).add_node("call", lambda s: {"log": child.invoke({"x": 1}, thread_id="mine")["log"]})
    app = app.add_edge(START, "call").compile()

    driver.invoke(app, {"x": 1})
    driver.invoke(app, {"x": 1})
    assert child.get_state(thread_id="mine").values["log"] == ["inner", "inner"]


# -- fields with reducers in both graphs


class Counting(TypedDict):
    total: Annotated[int, lambda old, new: old + new]
    messages: Annotated[list[Any], add_messages]


def adding(by: int, *, depth: int = 1) -> Any:
    """A graph that adds `by` twice, nested to a depth."""
    graph = StateGraph(Counting).add_sequence([("one", lambda s: {"total": by}), ("two", lambda s: {"total": by})])
    app = graph.add_edge(START, "one").compile()
    for _ in range(depth - 1):
        app = StateGraph(Counting).add_node("deeper", app).add_edge(START, "deeper").compile()
    return app


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_updates_of_a_subgraph_are_merged_once_at_any_depth(driver: Any, depth: int) -> None:
    app = StateGraph(Counting).add_node("a", adding(1, depth=depth)).add_node("b", adding(10, depth=depth))
    app.add_edge(START, "a").add_edge(START, "b")

    assert driver.invoke(app.compile(), {"total": 100, "messages": []})["total"] == 122


@dataclass
class Defaults:
    total: Annotated[int, operator.add] = 10
    log: Annotated[list[str], operator.add] = field(default_factory=lambda: ["start"])
    kept: Annotated[list[str], append] = field(default_factory=lambda: ["kept"])
    words: Annotated[int, lambda old, new: old + len(new)] = 3


class DefaultsModel(BaseModel):
    total: Annotated[int, operator.add] = 10
    log: Annotated[list[str], operator.add] = ["start"]
    kept: Annotated[list[str], append] = ["kept"]
    words: Annotated[int, lambda old, new: old + len(new)] = 3


class Sparse(TypedDict, total=False):
    total: Annotated[int, operator.add]
    log: Annotated[list[str], operator.add]
    other: int


SEEN: list[Any] = []


def look(state: Any) -> dict[str, Any]:
    SEEN.append(state.copy() if isinstance(state, dict) else dict(vars(state)))
    return {"total": 1, "log": ["look"], "kept": ["look"], "words": "look"}


def nested_in(inner: Any, schema: Any, depth: int, memory: Any = "call", **options: Any) -> Any:
    for _ in range(depth):
        inner = StateGraph(schema).add_node("in", inner, memory=memory).add_edge(START, "in").compile(**options)
    return inner


@pytest.mark.parametrize("input_", [{}, {"total": 5, "log": ["given"], "words": "five"}])
@pytest.mark.parametrize("memory", ["call", "thread", "none"])
@pytest.mark.parametrize("validate", ["input", "all", "off"])
@pytest.mark.parametrize("schema", [Defaults, DefaultsModel])
def test_a_node_sees_the_same_state_at_any_depth(
    driver: Any, schema: Any, validate: Any, memory: Any, input_: Any
) -> None:
    """Defaults are applied once at any depth: the caller's state is not an update of them."""

    def outcome(depth: int) -> Any:
        SEEN.clear()
        inner = StateGraph(schema).add_node("look", look).add_edge(START, "look").compile(validate=validate)
        app = nested_in(inner, schema, depth, memory, validate=validate).with_services(checkpointer=InMemorySaver())
        result = driver.invoke(app, input_, thread_id="1")
        return list(SEEN), result if isinstance(result, dict) else dict(vars(result))

    flat = outcome(0)
    assert flat[0][0]["total"] == (15 if input_ else 10)
    assert [outcome(depth) for depth in (1, 2, 3)] == [flat] * 3


def test_a_subgraph_uses_its_defaults_for_fields_that_its_caller_lacks(driver: Any) -> None:
    inner = StateGraph(Defaults).add_node("look", look).add_edge(START, "look").compile()
    app = nested_in(inner, Sparse, 1)
    SEEN.clear()
    assert driver.invoke(app, {"log": ["given"]}) == {"total": 1, "log": ["given", "look"]}
    assert SEEN == [{"total": 0, "log": ["given"], "kept": ["kept"], "words": 3}]


def test_a_subgraph_sees_the_mapping_of_its_send(driver: Any) -> None:
    inner = StateGraph(Defaults).add_node("look", look).add_edge(START, "look").compile()
    app = StateGraph(Defaults).add_node("look", inner)
    app.add_node("send", lambda s: [Send("look", {"total": 5, "log": ["sent"]})], destinations=["look"])
    SEEN.clear()
    driver.invoke(app.add_edge(START, "send").compile(), {})
    assert [(seen["total"], seen["log"], seen["kept"]) for seen in SEEN] == [(5, ["sent"], ["kept"])]


def test_the_conditional_entry_of_a_subgraph_sees_the_state_of_its_nodes(driver: Any) -> None:
    inner = StateGraph(Defaults).add_node("look", look)
    inner.add_conditional_edges(START, lambda state: "look" if state.total == 10 else END, ["look", END])
    SEEN.clear()
    assert driver.invoke(nested_in(inner.compile(), Defaults, 1), {})["total"] == 11
    assert len(SEEN) == 1


def test_the_argument_of_a_call_is_an_input(driver: Any) -> None:
    inner = StateGraph(Defaults).add_node("look", look).add_edge(START, "look").compile()
    results: list[Any] = []
    app = (
        StateGraph(State).add_node("call", lambda s: results.append(inner.invoke({"total": 5}))).add_edge(START, "call")
    )
    driver.invoke(app.compile(), {})
    assert results == [driver.invoke(inner, {"total": 5})]
    assert results[0]["total"] == 16


def test_a_resumed_subgraph_returns_the_writes_before_its_interrupt(driver: Any) -> None:
    child = StateGraph(Counting).add_node("one", lambda s: {"total": 1})
    child.add_node("two", lambda s: {"total": interrupt("how many?")}).add_edge(START, "one").add_edge("one", "two")
    app = StateGraph(Counting).add_node("child", child.compile()).add_edge(START, "child").compile(InMemorySaver())

    driver.invoke(app, {"total": 100, "messages": []}, thread_id="1")
    assert driver.invoke(app, Command(resume=5), thread_id="1")["total"] == 106


def test_parallel_subgraphs_can_edit_one_conversation(driver: Any) -> None:
    def editing(number: int) -> Any:
        edit = {"id": f"m{number}", "role": "user", "content": "edited"}
        graph = StateGraph(Counting).add_node("edit", lambda s: {"messages": [edit, f"from {number}"]})
        return graph.add_edge(START, "edit").compile()

    app = StateGraph(Counting).add_node("a", editing(0)).add_node("b", editing(1))
    app.add_edge(START, "a").add_edge(START, "b")
    messages = [{"id": f"m{number}", "role": "user", "content": "first"} for number in range(3)]

    result = driver.invoke(app.compile(), {"total": 0, "messages": messages})
    assert [message.content for message in result["messages"]] == ["edited", "edited", "first", "from 0", "from 1"]


def test_a_subgraph_with_thread_memory_writes_its_updates_once(driver: Any) -> None:
    app = StateGraph(Counting).add_node("child", adding(1), memory="thread").add_edge(START, "child")
    app = app.compile(InMemorySaver())

    assert driver.invoke(app, {"total": 0}, thread_id="1")["total"] == 2
    assert driver.invoke(app, {"total": 0}, thread_id="1")["total"] == 4


# -- memory="call"


def test_each_call_of_a_subgraph_begins_with_fresh_state(driver: Any) -> None:
    child = (
        StateGraph(Child).add_node("n", lambda s: {"found": [1], "x": len(s["found"])}).add_edge(START, "n").compile()
    )
    app = (
        StateGraph(State).add_node("child", child).add_node("log", lambda s: {"log": [s["x"]]}).add_edge("child", "log")
    )
    app.add_conditional_edges("log", lambda s: "child" if len(s["log"]) < 3 else END, ["child", END])
    app = app.add_edge(START, "child").compile(InMemorySaver())

    assert driver.invoke(app, {"x": 9}, thread_id="1")["log"] == [0, 0, 0]
    assert driver.invoke(app, {"x": 9}, thread_id="1")["log"] == [0, 0, 0, 0]


@pytest.mark.parametrize("form", ["node", "called", "awaited"])
def test_a_run_reports_and_answers_questions_of_its_subgraphs(driver: Any, paint: Any, form: str) -> None:
    child = parallel(paint(ask("a"))).compile()

    async def awaits(state: Any) -> Any:
        return {"log": (await child.ainvoke({"x": 1}))["log"]}

    graph = StateGraph(State).add_edge(START, "n")
    if form == "node":
        graph.add_node("n", child)
    else:
        graph.add_node("n", awaits if form == "awaited" else lambda s: {"log": child.invoke({"x": 1})["log"]})
    app = graph.compile(InMemorySaver())

    first = driver.invoke(app, {"x": 1}, thread_id="1")
    assert list(ids(first)) == ["a?"]
    assert driver.invoke(app, Command(resume="yes"), thread_id="1")["log"] == [("a", "yes")]


def test_finished_siblings_in_a_subgraph_do_not_run_again(driver: Any, paint: Any, runs: list[str]) -> None:
    child = parallel(paint(say("ok")), paint(ask("ask"))).compile()
    app = with_child(child, paint(say("sibling"))).compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    result = driver.invoke(app, Command(resume="yes"), thread_id="1")

    assert result["log"] == ["sibling", "ok", ("ask", "yes")]
    assert sorted(runs) == ["ask", "ask", "ok", "sibling"]


def test_finished_siblings_do_not_run_again_at_any_depth(driver: Any, paint: Any, runs: list[str]) -> None:
    leaf = parallel(paint(say("ok3")), paint(ask("ask3"))).add_node("then", paint(say("then"))).add_edge("ask3", "then")
    mid = parallel(paint(say("ok2")), paint(ask("ask2"))).add_node("leaf", leaf.compile()).add_edge(START, "leaf")
    top = parallel(paint(say("ok1"))).add_node("mid", mid.compile()).add_edge(START, "mid")
    app = top.compile(InMemorySaver())

    first = ids(driver.invoke(app, {"x": 1}, thread_id="1"))
    assert sorted(first) == ["ask2?", "ask3?"]
    second = driver.invoke(app, Command(resume={first["ask3?"]: 3}), thread_id="1")
    assert list(ids(second)) == ["ask2?"]
    third = driver.invoke(app, Command(resume={first["ask2?"]: 2}), thread_id="1")

    assert third["log"] == ["ok1", "ok2", ("ask2", 2), "ok3", ("ask3", 3), "then"]
    assert sorted(runs) == ["ask2", "ask2", "ask3", "ask3", "ok1", "ok2", "ok3", "then"]


def test_supersteps_of_a_subgraph_before_its_question_do_not_run_again(driver: Any, runs: list[str]) -> None:
    child = StateGraph(State).add_sequence([say("one"), say("two"), ask("three"), say("four")]).add_edge(START, "one")
    app = with_child(child.compile()).compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, Command(resume=3), thread_id="1")["log"] == ["one", "two", ("three", 3), "four"]
    assert runs == ["one", "two", "three", "three", "four"]


def test_a_failed_subgraph_continues_at_the_failed_node(driver: Any, runs: list[str]) -> None:
    def flaky(state: Any) -> Any:
        RUNS.append("flaky")
        if RUNS.count("flaky") == 1:
            raise ValueError("once")
        return {"log": ["flaky"]}

    child = StateGraph(State).add_sequence([say("one"), flaky]).add_edge(START, "one").compile()
    app = with_child(child).compile(InMemorySaver())

    with pytest.raises(ValueError, match="once"):
        driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, None, thread_id="1")["log"] == ["one", "flaky"]
    assert runs == ["one", "flaky", "flaky"]


def test_calls_in_one_node_are_identified_by_their_order(driver: Any, runs: list[str]) -> None:
    first, second = parallel(say("first")).compile(), parallel(ask("second")).compile()

    def call(state: Any) -> Any:
        return {
            "log": [*first.invoke({"x": 1})["log"], *second.invoke({"x": 2})["log"], *first.invoke({"x": 3})["log"]]
        }

    app = parallel(call).compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")

    result = driver.invoke(app, Command(resume="yes"), thread_id="1")

    assert result["log"] == ["first", ("second", "yes"), "first"]
    assert runs == ["first", "second", "second", "first"], "a finished call is not repeated"


def test_questions_of_several_sends_to_a_subgraph_are_answered_separately(driver: Any) -> None:
    child = StateGraph(State, output_schema=Out).add_node("a", lambda s: {"log": [interrupt(s["x"])]})
    child = child.add_edge(START, "a").compile()
    app = StateGraph(State).add_node("s", lambda s: [Send("child", {"x": n}) for n in (1, 2)], destinations=["child"])
    app = app.add_node("child", child).add_edge(START, "s").compile(InMemorySaver())

    questions = ids(driver.invoke(app, {"x": 0}, thread_id="1"))
    partly = driver.invoke(app, Command(resume={questions[2]: "two"}), thread_id="1")  # type: ignore[index]

    assert [question.value for question in partly["__interrupt__"]] == [1]
    assert driver.invoke(app, Command(resume="one"), thread_id="1")["log"] == ["one", "two"]


def test_questions_of_one_subgraph_can_be_answered_separately(driver: Any, runs: list[str]) -> None:
    app = with_child(parallel(ask("a"), ask("b")).compile()).compile(InMemorySaver())
    questions = ids(driver.invoke(app, {"x": 1}, thread_id="1"))

    with pytest.raises(InvalidResume, match="2 questions"):
        driver.invoke(app, Command(resume="?"), thread_id="1")
    assert list(ids(driver.invoke(app, Command(resume={questions["b?"]: "B"}), thread_id="1"))) == ["a?"]
    assert driver.invoke(app, Command(resume="A"), thread_id="1")["log"] == [("a", "A"), ("b", "B")]


def test_a_subgraph_can_ask_questions_in_sequence(driver: Any, runs: list[str]) -> None:
    child = StateGraph(State).add_sequence([ask("a"), ask("b")]).add_edge(START, "a").compile()
    app = with_child(child).compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    second = driver.invoke(app, Command(resume="A"), thread_id="1")
    assert list(ids(second)) == ["b?"]
    assert driver.invoke(app, Command(resume="B"), thread_id="1")["log"] == [("a", "A"), ("b", "B")]
    assert runs == ["a", "a", "b", "b"]


def test_a_breakpoint_in_a_subgraph_pauses_the_whole_run(driver: Any, runs: list[str]) -> None:
    child = (
        StateGraph(State).add_sequence([say("one"), say("two")]).add_edge(START, "one").compile(interrupt_before="two")
    )
    app = with_child(child).compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert runs == ["one"]
    assert driver.invoke(app, None, thread_id="1")["log"] == ["one", "two"]
    assert runs == ["one", "two"]


def test_a_replay_asks_the_questions_of_its_subgraphs_again(driver: Any, runs: list[str]) -> None:
    app = with_child(parallel(ask("a")).compile()).compile(InMemorySaver())
    first = ids(driver.invoke(app, {"x": 1}, thread_id="1"))
    start = app.get_state(thread_id="1")
    driver.invoke(app, Command(resume="one"), thread_id="1")

    replayed = driver.invoke(app, None, start.config)
    assert ids(replayed) == first
    assert driver.invoke(app, Command(resume="two"), thread_id="1")["log"] == [("a", "two")]


@pytest.mark.parametrize("with_question", [False, True])
def test_finished_calls_leave_no_namespaces(driver: Any, with_question: bool) -> None:
    saver = InMemorySaver()
    leaf = parallel(say("leaf")).compile()
    child = with_child(leaf, say("inner")).compile()
    app = with_child(child, *([ask("a")] if with_question else [])).compile(saver)
    driver.invoke(app, {"x": 1}, thread_id="1")
    if with_question:
        driver.invoke(app, Command(resume=1), thread_id="1")

    (start,) = app.get_state_history(thread_id="1", filter={"source": "input"})
    for task in start.tasks:
        assert saver.load("1", namespace=f"{task.name}:{task.id}") is None
    assert {space for space in saver._threads["1"].commits} == {""}  # noqa: C416


def test_a_subgraph_with_memory_none_saves_nothing_and_restarts(driver: Any, runs: list[str]) -> None:
    child = StateGraph(State).add_sequence([say("one"), ask("two")]).add_edge(START, "one").compile()
    app = with_child(child, memory="none").compile(InMemorySaver())

    driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, Command(resume=2), thread_id="1")["log"] == ["one", ("two", 2)]
    assert runs == ["one", "two", "one", "two"]


# -- ids


@pytest.mark.parametrize("saves", [False, True])
def test_message_ids_of_a_subgraph_differ_from_those_of_its_caller(driver: Any, saves: bool) -> None:
    def speak(text: str) -> Any:
        return lambda state: {"messages": [text]}

    child = StateGraph(MessagesState).add_node("c", speak("child")).add_edge(START, "c").compile()
    app = StateGraph(MessagesState).add_node("p", speak("parent")).add_node("child", child)
    app.add_node("call", lambda s: {"messages": child.invoke({"messages": ["question"]})["messages"]})
    app = app.add_sequence(["p", "child", "call"]).add_edge(START, "p").compile(InMemorySaver() if saves else None)

    result = driver.invoke(app, {"messages": ["in"]}, **({"thread_id": "1"} if saves else {}))

    assert [message.text for message in result["messages"]] == ["in", "parent", "child", "question", "child"]


@pytest.mark.filterwarnings("ignore::statewright.errors.NoCheckpointerWarning")
def test_questions_of_a_graph_and_its_subgraphs_have_different_ids(driver: Any) -> None:
    leaf = parallel(ask("leaf")).compile()
    app = with_child(with_child(leaf, ask("mid")).compile(), ask("top")).compile()

    assert len(set(ids(driver.invoke(app, {"x": 1})).values())) == 3


# -- Command.PARENT


def escaping(**command: Any) -> Any:
    def leave(state: Any) -> Any:
        return Command(graph=Command.PARENT, **command)

    return parallel(leave).compile()


def test_a_command_for_the_parent_updates_it_and_jumps(driver: Any) -> None:
    child = escaping(update={"log": ["from below"]}, goto="other")
    app = with_child(child, destinations=["other"]).add_node("other", say("other")).add_node("next", say("next"))

    assert driver.invoke(app.add_edge("child", "next").compile(), {"x": 1})["log"] == ["from below", "other"]


def test_a_command_for_the_parent_without_goto_follows_its_edges(driver: Any) -> None:
    app = with_child(escaping(update={"x": 7})).add_node("next", say("next")).add_edge("child", "next").compile()

    assert driver.invoke(app, {"x": 1}) == {"x": 7, "log": ["next"]}


def test_a_command_for_the_parent_passes_through_a_calling_node(driver: Any) -> None:
    child = escaping(goto="other")
    app = StateGraph(State).add_node("call", lambda s: child.invoke({"x": 1}), destinations=["other"])
    app.add_node("other", say("other")).add_edge(START, "call")

    assert driver.invoke(app.compile(), {"x": 1})["log"] == ["other"]


def test_a_command_for_the_parent_to_an_unknown_node_is_an_error(driver: Any) -> None:
    app = with_child(escaping(goto="othr")).add_node("other", say("other")).add_edge("child", "other").compile()

    with pytest.raises(UnknownTarget, match=r"'child'.*'othr'.*Did you mean 'other'") as caught:
        driver.invoke(app, {"x": 1})
    assert any("'child'" in note for note in getattr(caught.value, "__notes__", [])), "as for any error of a task"


def test_a_command_for_the_parent_to_an_unknown_node_with_siblings_is_an_error(driver: Any, paint: Any) -> None:
    app = with_child(escaping(goto="othr"), paint(say("a"))).add_node("other", say("other")).add_edge("child", "other")

    with pytest.raises(UnknownTarget, match="'othr'"):
        driver.invoke(app.compile(), {"x": 1})


def test_a_command_for_the_parent_keeps_the_updates_of_siblings(driver: Any, paint: Any) -> None:
    child = escaping(update={"log": ["up"]}, goto="other")
    app = with_child(child, paint(say("a")), paint(say("b")), destinations=["other"]).add_node(
        "other", paint(say("other"))
    )

    assert driver.invoke(app.compile(InMemorySaver()), {"x": 1}, thread_id="1")["log"] == ["a", "b", "up", "other"]


def test_a_command_for_the_parent_goes_up_one_level(driver: Any) -> None:
    leaf = escaping(goto="here")
    mid = with_child(leaf, destinations=["here"]).add_node("here", say("mid here")).compile()
    app = with_child(mid, destinations=["here"]).add_node("here", say("top here")).add_edge("child", END).compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["mid here"]


def test_except_exception_does_not_swallow_a_command_for_the_parent(driver: Any) -> None:
    child = escaping(goto="other")

    def call(state: Any) -> Any:
        try:
            return child.invoke({"x": 1})
        except Exception:
            return {"log": ["swallowed"]}

    app = StateGraph(State).add_node("call", call, destinations=["other"]).add_node("other", say("other"))

    assert driver.invoke(app.add_edge(START, "call").compile(), {"x": 1})["log"] == ["other"]


# -- nesting of the two drivers


def nested(levels: list[str], width: int) -> Any:
    """Nested graphs, each with `width` nodes of the kind of its level that call the next graph."""
    inner: Any = None
    for kind in reversed(levels):
        graph = StateGraph(State)
        for number in range(width):
            graph.add_node(f"n{number}", _caller(kind, inner)).add_edge(START, f"n{number}")
        inner = graph.compile()
    return inner


def _caller(kind: str, inner: Any) -> Any:
    def plain(state: Any) -> Any:
        return {"log": inner.invoke({"x": 1})["log"] if inner else [1]}

    async def blocking(state: Any) -> Any:
        await asyncio.sleep(0)
        return plain(state)

    async def awaiting(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": (await inner.ainvoke({"x": 1}))["log"] if inner else [1]}

    return {"plain": plain, "blocking": blocking, "awaiting": awaiting}[kind]


KINDS = ("plain", "blocking", "awaiting")


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("levels", [[a, b, c, "awaiting"] for a in KINDS for b in KINDS for c in KINDS], ids="-".join)
def test_all_kinds_of_nodes_can_call_each_other_at_any_depth(
    driver: Any, within: Any, levels: list[str], width: int
) -> None:
    app = nested(levels, width)

    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == [1] * width ** len(levels)


def test_invoke_works_within_a_running_loop(within: Any) -> None:
    app = nested(["awaiting", "plain"], 2)

    async def main() -> Any:
        return app.invoke({"x": 1})["log"]

    assert within(lambda: asyncio.run(main())) == [1] * 4


# -- identifying calls, and choosing their memory


def test_4_5_calls_with_keys_can_change_their_order(driver: Any) -> None:
    child = parallel(ask("a")).compile()
    order = ["first", "second"]

    def caller(state: Any) -> dict[str, Any]:
        for key in order:
            child.invoke({"x": 1}, call_key=key)
        return {"log": ["through"]}

    app = StateGraph(State).add_node(caller).add_edge(START, "caller").compile(InMemorySaver())
    (first,) = driver.invoke(app, {"x": 1}, thread_id="1")["__interrupt__"]
    order.reverse()
    (second,) = driver.invoke(app, Command(resume={first.id: 1}), thread_id="1")["__interrupt__"]
    assert second.id != first.id
    assert driver.invoke(app, Command(resume={second.id: 2}), thread_id="1")["log"] == ["through"]


def test_4_5_using_a_call_key_twice_is_refused(driver: Any) -> None:
    child = parallel(say("inner")).compile()

    def caller(state: Any) -> None:
        child.invoke({"x": 1}, call_key="same")
        child.invoke({"x": 1}, call_key="same")

    app = StateGraph(State).add_node(caller).add_edge(START, "caller").compile()
    with pytest.raises(InvalidUpdateError, match="call_key 'same' twice"):
        driver.invoke(app, {"x": 1})


@pytest.mark.parametrize("memory", ["call", "thread"])
@pytest.mark.parametrize("key", ["", "#1", "#2", "%", "%#1", "x|inner", "a:b", "1"])
def test_4_5_call_keys_do_not_collide_with_positions_or_nested_calls(driver: Any, key: str, memory: Any) -> None:
    def logger(name: str) -> Any:
        def inner(state: Any) -> dict[str, Any]:
            return {"log": [name, *deep.invoke({}, memory=memory)["log"]]} if name == "x" else {"log": [name]}

        return StateGraph(Out).add_node("inner", inner).add_edge(START, "inner").compile()

    deep = parallel(ask("deep"), schema=Out).compile()

    def caller(state: Any) -> dict[str, Any]:
        calls = [logger("one").invoke({}), logger("two").invoke({}, memory="call"), logger("three").invoke({})]
        calls.append(logger("x").invoke({}, call_key="x", memory=memory))
        calls.append(logger("keyed").invoke({}, call_key=key, memory=memory))
        calls.extend(logger(other).invoke({}, call_key=other, memory=memory) for other in sorted(others))
        return {"log": [call["log"] for call in calls]}

    others = {"", "#1", "%", "%#1", "%23", "%7C", "x|inner|x"} - {key}
    app = StateGraph(State).add_node(caller).add_edge(START, "caller").compile(InMemorySaver())
    (question,) = driver.invoke(app, {"x": 1}, thread_id="1")["__interrupt__"]
    assert question.value == "deep?"
    result = driver.invoke(app, Command(resume="yes"), thread_id="1")
    expected = [["one"], ["two"], ["three"], ["x", ("deep", "yes")], ["keyed"], *([other] for other in sorted(others))]
    assert result["log"] == expected


def test_4_5_a_call_can_choose_its_memory(driver: Any) -> None:
    child = parallel(say("inner")).compile()

    def caller(state: Any) -> dict[str, Any]:
        return {"log": [len(child.invoke({"x": 1}, memory="thread", call_key="k")["log"])]}

    app = StateGraph(State).add_node(caller).add_edge(START, "caller").compile(InMemorySaver())
    assert [driver.invoke(app, {"x": 1}, thread_id="1")["log"][-1] for _ in range(3)] == [1, 2, 3]


def test_4_5_concurrent_calls_that_share_a_memory_are_refused(driver: Any) -> None:
    async def slow(state: Any) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"log": ["inner"]}

    child = StateGraph(State).add_node(slow).add_edge(START, "slow").compile()
    graph = StateGraph(State).add_node("child", child, memory="thread")
    graph.add_node("s", lambda s: [Send("child", {"x": n}) for n in range(2)], destinations=["child"])
    app = graph.add_edge(START, "s").compile(InMemorySaver())

    with pytest.raises(NamespaceBusy, match="call_key"):
        driver.invoke(app, {"x": 1}, thread_id="1")


def test_4_5_a_failed_call_releases_its_memory(driver: Any) -> None:
    failing = [True]

    def inner(state: Any) -> dict[str, Any]:
        if failing[0]:
            raise KeyError("x")
        return {"log": ["ok"]}

    child = StateGraph(State).add_node(inner).add_edge(START, "inner").compile()
    app = with_child(child, memory="thread").compile(InMemorySaver())
    with pytest.raises(KeyError):
        driver.invoke(app, {"x": 1}, thread_id="1")
    failing[0] = False
    assert driver.invoke(app, None, thread_id="1")["log"] == ["ok"]


def test_4_5_calls_are_removed_with_their_task_unless_keep_calls_is_set(driver: Any) -> None:
    child = parallel(say("inner")).compile()
    for keep, count in ((False, 0), (True, 1)):
        saver = InMemorySaver()
        app = with_child(child).compile(saver, keep_calls=keep)
        driver.invoke(app, {"x": 1}, thread_id="1")
        assert len([space for space in saver._threads["1"].commits if space]) == count


# -- the states of subgraphs


def two_deep(saver: Any) -> Any:
    inner = parallel(ask("deep")).compile()
    middle = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
    return StateGraph(State).add_node("middle", middle).add_edge(START, "middle").compile(saver)


def test_4_5_get_state_returns_the_state_of_subgraphs_at_any_depth(driver: Any) -> None:
    app = two_deep(InMemorySaver())
    driver.invoke(app, {"x": 5}, thread_id="1")

    assert app.get_state(thread_id="1").tasks[0].state is None
    middle = app.get_state(thread_id="1", subgraphs=True).tasks[0].state
    inner = middle.tasks[0].state
    assert (middle.next, inner.next, inner.values["x"]) == (("inner",), ("deep",), 5)
    assert app.get_state(inner.config).values == inner.values
    named = {"thread_id": "1", "namespace": inner.config["configurable"]["namespace"]}
    assert [snapshot.next for snapshot in app.get_state_history(named)] == [("deep",)]


def test_4_5_update_state_changes_the_state_of_a_waiting_subgraph(driver: Any) -> None:
    app = two_deep(InMemorySaver())
    driver.invoke(app, {"x": 5}, thread_id="1")
    inner = app.get_state(thread_id="1", subgraphs=True).tasks[0].state.tasks[0].state
    latest = {"configurable": {k: v for k, v in inner.config["configurable"].items() if k != "checkpoint_id"}}
    app.update_state(latest, {"log": ["by hand"]}, as_node="deep")

    assert driver.invoke(app, None, thread_id="1")["log"] == ["by hand"]


def test_4_5_get_subgraphs_lists_subgraphs_at_any_depth(driver: Any) -> None:
    app = two_deep(None)

    assert [path for path, _ in app.get_subgraphs()] == ["middle"]
    assert [path for path, _ in app.get_subgraphs(recurse=True)] == ["middle", "middle|inner"]
    assert [path for path, _ in app.get_subgraphs("middle:abc|inner")] == ["middle|inner"]


def test_4_5_an_unknown_namespace_is_refused(driver: Any) -> None:
    app = two_deep(InMemorySaver())
    driver.invoke(app, {"x": 5}, thread_id="1")

    with pytest.raises(InvalidConfig, match=r"'midle'.*Did you mean 'middle'"):
        app.get_state(thread_id="1", namespace="midle")
    with pytest.raises(InvalidConfig, match="a run begins at the root"):
        driver.invoke(app, None, thread_id="1", namespace="middle")


def test_4_5_a_node_can_pass_its_config_to_a_call(driver: Any) -> None:
    child = parallel(ask("a")).compile()

    def caller(state: Any, config: Any) -> dict[str, Any]:
        return {"log": child.invoke({"x": 1}, config)["log"]}

    app = StateGraph(State).add_node(caller).add_edge(START, "caller").compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")
    assert driver.invoke(app, Command(resume="yes"), thread_id="1")["log"] == [("a", "yes")]
