"""Iterating over the supersteps of a run."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, Send, StateGraph, append, interrupt
from statewright.runtime.streaming.iterate import Step

SCHEMA = {"log": append, "x": int}


class Output(TypedDict):
    x: int


def log_word(word: str, ran: list[str] | None = None) -> Any:
    def node(state: Any) -> dict[str, Any]:
        if ran is not None:
            ran.append(word)
        return {"log": [word]}

    return node


def chain(*words: str, ran: list[str] | None = None) -> StateGraph:
    builder = StateGraph(SCHEMA)
    for word in words:
        builder.add_node(word, log_word(word, ran))
    return builder.add_sequence([START, *words])


def test_each_superstep_is_a_step_with_its_nodes_values_and_next_nodes() -> None:
    steps = list(chain("a", "b", "c").compile().iter({"x": 1}))
    assert steps == [
        Step(1, ("a",), {"x": 1, "log": ["a"]}, ("b",)),
        Step(2, ("b",), {"x": 1, "log": ["a", "b"]}, ("c",)),
        Step(3, ("c",), {"x": 1, "log": ["a", "b", "c"]}, ()),
    ]


def test_concurrent_tasks_are_one_step() -> None:
    builder = StateGraph(SCHEMA).add_node("a", log_word("a")).add_node("b", log_word("b"))
    builder.add_edge(START, "b").add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: [Send("b", state), Send("b", state)], ["b"])
    steps = list(builder.compile().iter({}))
    assert [(set(step.nodes), step.next) for step in steps] == [({"a", "b"}, ("b", "b")), ({"b"}, ())]
    assert [len(step.nodes) for step in steps] == [2, 2]


def test_nothing_runs_between_two_steps() -> None:
    ran: list[str] = []
    steps = chain("a", "b", "c", ran=ran).compile().iter({})
    assert ran == []
    next(steps)
    assert ran == ["a"]
    next(steps)
    assert ran == ["a", "b"]


def test_the_outcome_is_available_after_the_last_step() -> None:
    steps = chain("a").compile().iter({})
    assert steps.rest is None
    list(steps)
    assert steps.rest is not None
    assert (steps.rest.status, steps.halted, steps.interrupts) == ("completed", False, ())


def test_iteration_halts_after_the_step_that_meets_the_condition() -> None:
    ran: list[str] = []
    steps = chain("a", "b", "c", ran=ran).compile().iter({}, halt=lambda step: "b" in step.nodes)
    assert [step.nodes for step in steps] == [("a",), ("b",)]
    assert (steps.halted, steps.rest, ran) == (True, None, ["a", "b"])
    assert list(steps) == []


def test_an_unmet_condition_does_not_halt_the_iteration() -> None:
    steps = chain("a", "b").compile().iter({}, halt=lambda step: False)
    assert len(list(steps)) == 2
    assert not steps.halted


def test_a_halted_run_on_a_thread_can_be_continued() -> None:
    app = chain("a", "b", "c").compile(InMemorySaver())
    with app.iter({"x": 1}, thread_id="1", halt=lambda step: step.number == 1) as steps:
        list(steps)
    assert app.get_state(thread_id="1").next == ("b",)
    assert [step.nodes for step in app.iter(None, thread_id="1")] == [("b",), ("c",)]


@pytest.mark.parametrize("method", ["close", "with"])
def test_closing_the_iterator_abandons_the_run(method: str) -> None:
    ran: list[str] = []
    app = chain("a", "b", ran=ran).compile(InMemorySaver())
    steps = app.iter({}, thread_id="1")
    if method == "with":
        with steps:
            next(steps)
    else:
        next(steps)
        steps.close()
    assert list(steps) == []
    assert (ran, app.get_state(thread_id="1").next) == (["a"], ("b",))


def test_iteration_ends_at_a_breakpoint() -> None:
    app = chain("a", "b", "c").compile(InMemorySaver(), interrupt_before="c")
    steps = app.iter({}, thread_id="1")
    assert [step.nodes for step in steps] == [("a",), ("b",)]
    assert steps.rest is not None
    assert steps.rest.status == "paused"
    assert [step.nodes for step in app.iter(None, thread_id="1")] == [("c",)]


def test_iteration_ends_at_a_question_and_continues_with_the_answer() -> None:
    builder = chain("a").add_node("ask", lambda state: {"x": interrupt("how many?")}).add_edge("a", "ask")
    app = builder.compile(InMemorySaver())
    steps = app.iter({}, thread_id="1")
    assert [step.nodes for step in steps] == [("a",)]
    assert [question.value for question in steps.interrupts] == ["how many?"]
    (step,) = app.iter(Command(resume=3), thread_id="1")
    assert (step.nodes, step.values["x"]) == (("ask",), 3)


def test_an_error_of_a_node_is_raised_after_the_steps_before_it() -> None:
    builder = chain("a").add_node("fail", lambda state: 1 / 0).add_edge("a", "fail")
    steps = builder.compile().iter({})
    assert next(steps).nodes == ("a",)
    with pytest.raises(ZeroDivisionError) as caught:
        next(steps)
    assert any("in node 'fail'" in note for note in caught.value.__notes__)
    assert steps.rest is not None
    assert steps.rest.status == "failed"


def test_a_subgraph_is_part_of_the_step_of_its_node() -> None:
    inner = chain("deep", "deeper").compile()
    builder = StateGraph(SCHEMA).add_node("inner", inner).add_edge(START, "inner")
    steps = list(builder.compile().iter({"x": 1}))
    assert [step.nodes for step in steps] == [("inner",)]
    assert steps[0].values["log"] == ["deep", "deeper"]


def test_values_of_a_step_have_only_fields_of_the_output_schema() -> None:
    builder = StateGraph(SCHEMA, output_schema=Output).add_node("a", lambda state: {"x": 2, "log": ["a"]})
    (step,) = builder.add_edge(START, "a").compile().iter({"x": 1})
    assert step.values == {"x": 2}


def test_the_first_step_raises_the_error_of_an_invalid_input() -> None:
    from statewright.errors import InvalidUpdateError

    steps = chain("a").compile().iter(5)
    with pytest.raises(InvalidUpdateError):
        next(steps)


def test_a_stop_iteration_of_a_node_is_an_error() -> None:
    def node(state: Any) -> Any:
        return next(iter(()))

    app = StateGraph({"n": int}).add_node("a", node).add_edge(START, "a").compile()
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(app.iter({}))
