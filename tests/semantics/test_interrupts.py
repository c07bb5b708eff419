"""Part I sections 6.1 (questions), 6.2 and 6.3: pausing, answering, breakpoints."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Interrupt, Runtime, Send, StateGraph, append, interrupt
from statewright.errors import EmptyInputError, InvalidGraph, InvalidResume, InvalidUpdateError
from statewright.graph import GraphBuilder


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


def log_name(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def ask_name(name: str, **options: Any) -> Any:
    """Return a node that asks one question and logs the answer."""

    def node(state: Any) -> dict[str, Any]:
        return {"log": [(name, interrupt(f"{name}?", **options))]}

    node.__name__ = name
    return node


def app_of(*nodes: Any, saver: Any = None, **options: Any) -> Any:
    """Compile a graph of concurrent nodes."""
    graph = StateGraph(State)
    for node in nodes:
        graph.add_node(node).add_edge(START, node.__name__)
    return graph.compile(InMemorySaver() if saver is None else saver, **options)


def questions(result: Any) -> dict[Any, str]:
    """Return the ids of the open questions of a result, by value."""
    return {question.value: question.id for question in result["__interrupt__"]}


# -- 6.1 questions


def test_an_interrupt_pauses_its_node_and_returns_the_answer(driver: Any, paint: Any) -> None:
    app = app_of(paint(ask_name("a")))

    first = driver.invoke(app, {"x": 1}, thread_id="1")
    (question,) = first["__interrupt__"]

    assert isinstance(question, Interrupt)
    assert (question.value, question.kind, first["log"]) == ("a?", "question", [])
    assert driver.invoke(app, Command(resume="yes"), thread_id="1") == {"x": 1, "log": [("a", "yes")]}


def test_a_resumed_node_runs_again_from_its_first_line(driver: Any) -> None:
    lines: list[str] = []

    def node(state: Any) -> Any:
        lines.append("before")
        answer = interrupt("?")
        lines.append("after")
        return {"log": [answer]}

    app = app_of(node)
    driver.invoke(app, {"x": 1}, thread_id="1")
    driver.invoke(app, Command(resume=1), thread_id="1")

    assert lines == ["before", "before", "after"]


def test_catching_exception_in_a_node_does_not_swallow_an_interrupt(driver: Any) -> None:
    def careful(state: Any) -> Any:
        try:
            return {"log": [interrupt("?")]}
        except Exception:
            return {"log": ["swallowed"]}

    assert questions(driver.invoke(app_of(careful), {"x": 1}, thread_id="1"))


def test_several_questions_of_one_node_are_asked_in_turn_with_different_ids(driver: Any, paint: Any) -> None:
    def many(state: Any) -> Any:
        return {"log": [interrupt("one"), interrupt("two"), interrupt("three")]}

    app = app_of(paint(many))
    ids = set()
    result = driver.invoke(app, {"x": 1}, thread_id="1")
    for number, name in enumerate(("one", "two", "three")):
        ids.add(questions(result)[name])
        result = driver.invoke(app, Command(resume=number), thread_id="1")

    assert result["log"] == [0, 1, 2]
    assert len(ids) == 3


def test_the_id_of_a_question_is_stable_for_its_task(driver: Any) -> None:
    app = app_of(ask_name("a"), ask_name("b"))
    first = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    again = questions(driver.invoke(app, None, thread_id="1"))
    other = questions(driver.invoke(app, {"x": 1}, thread_id="2"))

    assert first == again
    assert len({*first.values(), *other.values()}) == 4


def test_a_key_identifies_a_question_in_any_order(driver: Any) -> None:
    orders = iter([["a", "b"], ["b", "a"], ["b", "a"], ["a", "b"]])

    def node(state: Any) -> Any:
        answers = {key: interrupt(f"{key}?", key=key) for key in next(orders)}
        return {"log": [answers["a"], answers["b"]]}

    app = app_of(node)
    first = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    second = questions(driver.invoke(app, Command(resume={first["a?"]: "A"}), thread_id="1"))

    assert list(second) == ["b?"]
    assert driver.invoke(app, Command(resume={second["b?"]: "B"}), thread_id="1")["log"] == ["A", "B"]


def test_a_key_cannot_be_used_twice_by_a_task(driver: Any) -> None:
    def node(state: Any) -> Any:
        return {"log": [interrupt(1, key="k"), interrupt(2, key="k")]}

    app = app_of(node)
    driver.invoke(app, {"x": 1}, thread_id="1")
    with pytest.raises(InvalidUpdateError, match="'k' twice"):
        driver.invoke(app, Command(resume=1), thread_id="1")


def test_interrupt_outside_a_node_is_an_error() -> None:
    with pytest.raises(InvalidUpdateError, match="outside a node"):
        interrupt("?")


def test_siblings_finish_and_all_open_questions_are_reported_together(driver: Any, paint: Any) -> None:
    app = app_of(paint(ask_name("a")), paint(log_name("b")), paint(ask_name("c")))

    result = driver.invoke(app, {"x": 1}, thread_id="1")
    assert list(questions(result)) == ["a?", "c?"]
    assert [task.result for task in app.get_state(thread_id="1").tasks] == [None, {"log": ["b"]}, None]
    assert [question.value for question in app.get_state(thread_id="1").interrupts] == ["a?", "c?"]


def test_open_questions_are_reported_in_the_stream(driver: Any) -> None:
    app = app_of(ask_name("a"), log_name("b"))

    updates = driver.stream(app, {"x": 1}, thread_id="1", stream_mode="updates")
    values = driver.stream(app, {"x": 1}, thread_id="2", stream_mode="values")

    assert updates[0] == {"b": {"log": ["b"]}}
    assert [question.value for question in updates[-1]["__interrupt__"]] == ["a?"]
    assert [question.value for question in values[-1]["__interrupt__"]] == ["a?"]


# -- 6.2 answers


@pytest.mark.parametrize("answer", [None, False, 0, "", {}, [], {"a": 1}, "text"])
def test_any_value_can_be_an_answer(driver: Any, answer: Any) -> None:
    app = app_of(ask_name("a"))
    driver.invoke(app, {"x": 1}, thread_id="1")

    assert driver.invoke(app, Command(resume=answer), thread_id="1")["log"] == [("a", answer)]


def test_a_mapping_has_answers_by_id_only_if_all_its_keys_look_like_ids(driver: Any) -> None:
    app = app_of(ask_name("a"))
    question = questions(driver.invoke(app, {"x": 1}, thread_id="1"))["a?"]
    mapping = {question: "no", "text": "yes"}

    assert driver.invoke(app, Command(resume=mapping), thread_id="1")["log"] == [("a", mapping)]


def test_several_questions_can_be_answered_by_id(driver: Any, paint: Any) -> None:
    app = app_of(paint(ask_name("a")), paint(ask_name("b")))
    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))

    result = driver.invoke(app, Command(resume={ids["b?"]: "B", ids["a?"]: "A"}), thread_id="1")

    assert result["log"] == [("a", "A"), ("b", "B")]


def test_a_task_does_not_run_again_until_its_question_is_answered(driver: Any) -> None:
    runs: list[str] = []

    def recording(name: str) -> Any:
        def node(state: Any) -> Any:
            runs.append(name)
            return {"log": [interrupt(name)]}

        node.__name__ = name
        return node

    app = app_of(recording("a"), recording("b"))
    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    second = driver.invoke(app, Command(resume={ids["a"]: "A"}), thread_id="1")

    assert list(questions(second)) == ["b"]
    assert sorted(runs) == ["a", "a", "b"]
    assert driver.invoke(app, Command(resume="B"), thread_id="1")["log"] == ["A", "B"]
    assert sorted(runs) == ["a", "a", "b", "b"]


def test_continuing_without_an_answer_reports_the_question_again(driver: Any) -> None:
    runs: list[int] = []

    def node(state: Any) -> Any:
        runs.append(1)
        return {"log": [interrupt("?")]}

    app = app_of(node)
    driver.invoke(app, {"x": 1}, thread_id="1")

    assert questions(driver.invoke(app, None, thread_id="1"))
    assert len(runs) == 1


def test_an_ambiguous_answer_is_refused_and_lists_the_open_questions(driver: Any) -> None:
    app = app_of(ask_name("a"), ask_name("b"))
    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))

    with pytest.raises(InvalidResume, match="2 questions are open") as caught:
        driver.invoke(app, Command(resume="which"), thread_id="1")
    assert set(caught.value.open_ids) == set(ids.values())
    assert all(question_id in str(caught.value) for question_id in ids.values())


def test_an_unknown_id_is_refused_and_nothing_changes(driver: Any) -> None:
    app = app_of(ask_name("a"))
    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    before = app.get_state(thread_id="1")

    with pytest.raises(InvalidResume, match="0" * 32) as caught:
        driver.invoke(app, Command(resume={"0" * 32: 1}), thread_id="1")
    assert caught.value.open_ids == (ids["a?"],)
    assert app.get_state(thread_id="1") == before


def test_an_answer_without_an_open_question_is_refused(driver: Any) -> None:
    app = app_of(log_name("a"))
    driver.invoke(app, {"x": 1}, thread_id="1")

    with pytest.raises(InvalidResume, match="No question is open"):
        driver.invoke(app, Command(resume=1), thread_id="1")
    with pytest.raises(InvalidResume, match="no saved run"):
        driver.invoke(app, Command(resume=1), thread_id="new")


def test_an_answered_question_cannot_be_answered_again(driver: Any) -> None:
    app = app_of(ask_name("a"), ask_name("b"))
    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    driver.invoke(app, Command(resume={ids["a?"]: 1}), thread_id="1")

    with pytest.raises(InvalidResume, match=ids["a?"]):
        driver.invoke(app, Command(resume={ids["a?"]: 2}), thread_id="1")


@pytest.mark.filterwarnings("ignore::statewright.errors.NoCheckpointerWarning")
def test_resuming_without_a_saver_is_refused(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", ask_name("a")).add_edge(START, "a")
    app = graph.compile()

    assert list(questions(driver.invoke(app, {"x": 1}))) == ["a?"]
    with pytest.raises(InvalidResume, match="checkpointer"):
        driver.invoke(app, Command(resume=1))


def test_an_empty_command_is_refused(driver: Any) -> None:
    app = app_of(ask_name("a"))
    driver.invoke(app, {"x": 1}, thread_id="1")

    with pytest.raises(EmptyInputError, match="resume"):
        driver.invoke(app, Command(), thread_id="1")


def test_an_answer_must_fit_the_schema_of_its_question(driver: Any) -> None:
    app = app_of(ask_name("a", schema=int))
    driver.invoke(app, {"x": 1}, thread_id="1")

    with pytest.raises(InvalidResume, match="does not fit"):
        driver.invoke(app, Command(resume="many"), thread_id="1")
    assert driver.invoke(app, Command(resume=3), thread_id="1")["log"] == [("a", 3)]


def test_a_failure_after_the_answer_keeps_the_answer(driver: Any) -> None:
    runs: list[int] = []

    def node(state: Any) -> Any:
        answer = interrupt("?")
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("once")
        return {"log": [answer]}

    app = app_of(node)
    driver.invoke(app, {"x": 1}, thread_id="1")
    with pytest.raises(ValueError, match="once"):
        driver.invoke(app, Command(resume="kept"), thread_id="1")

    assert driver.invoke(app, None, thread_id="1")["log"] == ["kept"]


def test_sends_ask_separate_questions(driver: Any) -> None:
    graph = StateGraph(State).add_node("s", lambda s: [Send("w", n) for n in range(3)], destinations=["w"])
    app = graph.add_node("w", lambda n: {"log": [interrupt(n)]}).add_edge(START, "s").compile(InMemorySaver())

    ids = questions(driver.invoke(app, {"x": 1}, thread_id="1"))
    result = driver.invoke(app, Command(resume={question_id: n * 10 for n, question_id in ids.items()}), thread_id="1")

    assert len(set(ids.values())) == 3
    assert result["log"] == [0, 10, 20]


def test_a_resume_may_include_an_update_and_a_goto(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("a", ask_name("a"))
        .add_node("b", log_name("b"))
        .add_edge(START, "a")
        .add_edge("b", END)
    )
    graph.add_conditional_edges("a", lambda s: END, ["b", END])
    app = graph.compile(InMemorySaver())
    driver.invoke(app, {"x": 1}, thread_id="1")

    result = driver.invoke(app, Command(resume="yes", update={"x": 7}, goto="b"), thread_id="1")

    assert result["x"] == 7
    assert sorted(map(str, result["log"])) == ["('a', 'yes')", "b"]


def test_a_question_can_be_answered_by_another_process(driver: Any) -> None:
    saver = InMemorySaver()
    ids = questions(driver.invoke(app_of(ask_name("a"), saver=saver), {"x": 1}, thread_id="1"))

    assert driver.invoke(app_of(ask_name("a"), saver=saver), Command(resume={ids["a?"]: 1}), thread_id="1")["log"] == [
        ("a", 1)
    ]


def test_a_result_of_version_2_has_interrupts(driver: Any) -> None:
    app = app_of(ask_name("a"))

    output = driver.invoke(app, {"x": 1}, thread_id="1", version="v2")

    assert output.value == {"x": 1, "log": []}
    assert [question.value for question in output.interrupts] == ["a?"]


# -- 6.3 breakpoints


def chain() -> GraphBuilder:
    graph = StateGraph(State)
    return graph.add_sequence([log_name("a"), log_name("b"), log_name("c")]).add_edge(START, "a")


@pytest.mark.parametrize("set_by", ["compile", "call"])
@pytest.mark.parametrize(
    ("option", "first", "due"), [("interrupt_before", ["a"], ("b",)), ("interrupt_after", ["a", "b"], ("c",))]
)
def test_a_run_stops_before_or_after_a_node_and_continues_with_none(
    driver: Any, set_by: str, option: str, first: list[str], due: tuple[str, ...]
) -> None:
    app = chain().compile(InMemorySaver(), **({option: ["b"]} if set_by == "compile" else {}))
    options = {option: "b"} if set_by == "call" else {}

    assert driver.invoke(app, {"x": 1}, thread_id="1", **options)["log"] == first
    assert app.get_state(thread_id="1").next == due
    assert driver.invoke(app, None, thread_id="1", **options)["log"] == ["a", "b", "c"]


def test_a_star_stops_at_every_node(driver: Any) -> None:
    for option, stops in (("interrupt_before", [[], ["a"], ["a", "b"]]), ("interrupt_after", [["a"], ["a", "b"]])):
        app = chain().compile(InMemorySaver(), **{option: "*"})
        logs = [driver.invoke(app, {"x": 1}, thread_id="1")["log"]]
        while app.get_state(thread_id="1").next:
            logs.append(driver.invoke(app, None, thread_id="1")["log"])
        assert logs == [*stops, ["a", "b", "c"]]


def test_a_result_at_a_breakpoint_has_no_question(driver: Any) -> None:
    app = chain().compile(InMemorySaver(), interrupt_before="b")

    assert "__interrupt__" not in driver.invoke(app, {"x": 1}, thread_id="1")


def test_a_breakpoint_in_a_loop_stops_in_each_iteration(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: {"x": s["x"] + 1})
    graph.add_conditional_edges("a", lambda s: "a" if s["x"] < 3 else END, ["a", END])
    app = graph.add_edge(START, "a").compile(InMemorySaver(), interrupt_before="a")

    seen = [driver.invoke(app, {"x": 0}, thread_id="1")["x"]]
    while app.get_state(thread_id="1").next:
        seen.append(driver.invoke(app, None, thread_id="1")["x"])
    assert seen == [0, 1, 2, 3]


def test_a_breakpoint_before_one_of_several_nodes_stops_them_all(driver: Any) -> None:
    app = app_of(log_name("a"), log_name("b"), interrupt_before="b")

    assert driver.invoke(app, {"x": 1}, thread_id="1")["log"] == []
    assert driver.invoke(app, None, thread_id="1")["log"] == ["a", "b"]


def test_a_drain_at_a_breakpoint_does_not_skip_it(driver: Any) -> None:
    from statewright import RunControl
    from statewright.errors import GraphDrained

    control = RunControl()
    graph = StateGraph(State).add_node("a", lambda s: control.request_drain()).add_node("b", log_name("b"))
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver(), interrupt_before="b")
    with pytest.raises(GraphDrained):
        driver.invoke(app, {"x": 1}, thread_id="1", control=control)

    assert driver.invoke(app, None, thread_id="1")["log"] == [], "the breakpoint has not been reported yet"
    assert driver.invoke(app, None, thread_id="1")["log"] == ["b"]


def test_a_question_after_a_breakpoint_is_asked_after_resuming(driver: Any) -> None:
    graph = (
        StateGraph(State)
        .add_node("a", log_name("a"))
        .add_node("b", ask_name("b"))
        .add_edge(START, "a")
        .add_edge("a", "b")
    )
    app = graph.compile(InMemorySaver(), interrupt_before="b")

    assert "__interrupt__" not in driver.invoke(app, {"x": 1}, thread_id="1")
    assert questions(driver.invoke(app, None, thread_id="1"))
    assert driver.invoke(app, Command(resume="yes"), thread_id="1")["log"] == ["a", ("b", "yes")]


class Conversation(TypedDict, total=False):
    log: Annotated[list[str], append]
    reply: str


def test_an_answer_at_a_breakpoint_is_written_to_the_answers_to_field(driver: Any) -> None:
    graph = StateGraph(Conversation, answers_to="reply").add_node("a", lambda state: {"log": ["a"]})
    graph.add_node("b", lambda state: {"log": [f"b {state.get('reply')}"]})
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver(), interrupt_before=["b"])
    driver.invoke(app, {}, {"configurable": {"thread_id": "t"}})
    result = driver.invoke(app, Command(resume="go on"), {"configurable": {"thread_id": "t"}})
    assert result == {"log": ["a", "b go on"], "reply": "go on"}


def test_an_answer_at_a_breakpoint_is_refused_without_an_answers_to_field(driver: Any) -> None:
    graph = StateGraph(Conversation).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), interrupt_before=["a"])
    driver.invoke(app, {}, {"configurable": {"thread_id": "t"}})
    with pytest.raises(InvalidResume, match="No question is open"):
        driver.invoke(app, Command(resume="go on"), {"configurable": {"thread_id": "t"}})


def test_the_answers_to_field_must_exist() -> None:
    graph = StateGraph(Conversation, answers_to="repl").add_node("a", lambda state: {}).add_edge(START, "a")
    with pytest.raises(InvalidGraph, match=r"answers_to='repl'.*Did you mean 'reply'"):
        graph.compile()


def test_a_node_started_by_a_send_can_read_the_state(driver: Any) -> None:
    seen: list[Any] = []

    def sent(arg: dict[str, int], runtime: Runtime) -> None:
        seen.append((arg, dict(runtime.state)))

    graph = StateGraph(Conversation).add_node(
        "go", lambda state: Command(goto=[Send("sent", {"n": 1})]), destinations=["sent"]
    )
    app = graph.add_node("sent", sent).add_edge(START, "go").compile()
    driver.invoke(app, {"reply": "x"})
    assert seen == [({"n": 1}, {"log": [], "reply": "x"})]
