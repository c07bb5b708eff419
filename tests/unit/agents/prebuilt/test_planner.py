"""A model that plans, and agents that execute the steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from statewright import START, Command, StateGraph
from statewright.agents import AgentState, create_agent, tool
from statewright.agents.prebuilt.planner import create_planner
from statewright.agents.prebuilt.supervisor import create_supervisor
from statewright.checkpoint import Checkpointer
from statewright.errors import EmptyInputError, InvalidConfig, ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel

GO = {"input": "the task"}


def plan(*steps: str) -> str:
    """Return the JSON of a plan; `c after a b` is a step that needs two others."""
    parsed = [step.partition(" after ") for step in steps]
    return json.dumps(
        {"steps": [{"id": name, "task": f"do {name}", "after": others.split()} for name, _, others in parsed]}
    )


def answer(text: str) -> str:
    return json.dumps({"response": text})


def worker(**options: Any) -> Any:
    """Return an agent that answers with the last line of its last message."""
    model = ScriptedModel(lambda request: f"did {request.messages[-1].text.splitlines()[-1]}")
    return create_agent(model, name="worker", **options)


def results(state: Any) -> dict[str, str]:
    return {step["id"]: step["result"] for step in state["past_steps"]}


def test_the_planner_makes_a_plan_executes_it_and_answers() -> None:
    model = ScriptedModel([plan("a", "b after a"), plan("b after a"), answer("It is done.")])
    result = create_planner(model, executor=worker()).invoke(GO)

    assert results(result) == {"a": "did do a", "b": "did do b"}
    assert (result["response"], result["stop_reason"]) == ("It is done.", "completed")
    assert [message.text for message in result["messages"]] == ["It is done."]


def test_a_step_receives_the_task_and_the_results_of_required_steps() -> None:
    steps = ScriptedModel(lambda request: f"result {len(steps.requests)}")
    model = ScriptedModel([plan("a", "b after a", "c after b"), "done"])
    create_planner(model, executor=create_agent(steps, name="worker"), replan=False).invoke(GO)

    last = steps.requests[2].messages[-1].text
    assert "the task" in last
    assert last.endswith("do c")
    assert "result 2" in last
    assert "result 1" not in last


class BarrierModel:
    """A model that answers only when the expected number of calls is running."""

    def __init__(self, parties: int) -> None:
        self._barrier = asyncio.Barrier(parties)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await asyncio.wait_for(self._barrier.wait(), 600)
        return ModelResponse(Message(f"did {request.messages[-1].text[-1]}", "assistant"))


def test_independent_steps_run_concurrently() -> None:
    model = ScriptedModel([plan("a", "b", "c"), "done"])
    result = create_planner(model, executor=create_agent(BarrierModel(3), name="worker"), replan=False).invoke(GO)

    assert results(result) == {"a": "did a", "b": "did b", "c": "did c"}
    assert list(results(result)) == ["a", "b", "c"], "in the order of the plan"


def test_a_step_waits_for_all_required_steps() -> None:
    model = ScriptedModel([plan("c after a b", "a", "b after a"), "done"])
    result = create_planner(model, executor=worker(), replan=False).invoke(GO)

    assert list(results(result)) == ["a", "b", "c"]


def test_results_can_change_the_plan() -> None:
    model = ScriptedModel([plan("a", "b after a"), plan("other after a"), answer("done")])
    result = create_planner(model, executor=worker()).invoke(GO)

    assert list(results(result)) == ["a", "other"]
    assert "Result: did do a" in model.requests[1].messages[-1].text
    assert "- b: do b" in model.requests[1].messages[-1].text


def test_without_replanning_the_model_is_called_twice() -> None:
    model = ScriptedModel([plan("a", "b after a", "c after b"), "all done"])
    result = create_planner(model, executor=worker(), replan=False).invoke(GO)

    assert (result["response"], result["stop_reason"], len(model.requests)) == ("all done", "completed", 2)
    assert "Result: did do c" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("replan", [True, False])
def test_max_steps_ends_the_plan_and_the_model_is_told_what_is_missing(replan: bool) -> None:
    model = ScriptedModel([plan("a", "b", "c", "d after c"), "that is all"])
    result = create_planner(model, executor=worker(), max_steps=2, replan=replan).invoke(GO)

    assert list(results(result)) == ["a", "b"]
    assert (result["response"], result["stop_reason"]) == ("that is all", "max_steps")
    assert "not been done:\n- c: do c\n- d: do d" in model.requests[-1].messages[-1].text


def test_tools_are_listed_for_the_planner_and_called_by_steps() -> None:
    def look(place: str) -> str:
        """Look at a place."""
        return f"seen {place}"

    def script(request: ModelRequest) -> Any:
        if request.output is not None:
            return plan("a") if request.output.name == "Plan" else answer("done")
        last = request.messages[-1]
        return last.text if last.role == "tool" else ToolCall("1", "look", {"place": "here"})

    model = ScriptedModel(script)
    result = create_planner(model, [look], planner_prompt="Plan well.").invoke(GO)
    assert results(result) == {"a": "seen here"}
    assert model.requests[0].system.startswith("Plan well.")
    assert "- look: Look at a place." in model.requests[0].system
    assert not model.requests[0].tools


# -- invalid plans


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ("I will begin with a.", "form"),
        ('{"steps": []}', "The plan has no steps."),
        (plan("a", "a"), "Two steps have the id 'a'."),
        (plan("first", "b after frist"), "Step 'b' comes after 'frist', which is not a step. Did you mean 'first'?"),
        (plan("a after b", "b after a"), "Steps wait for each other"),
        (plan("a after a"), "Steps wait for each other"),
        ('{"steps": [{"id": "a", "task": " "}]}', "needs an id and a task"),
    ],
)
def test_an_invalid_plan_is_requested_again(invalid: str, message: str) -> None:
    model = ScriptedModel([invalid, plan("a"), answer("done")])

    assert create_planner(model, executor=worker()).invoke(GO)["response"] == "done"
    assert message in model.requests[1].messages[-1].text


def test_a_model_without_a_valid_plan_raises_after_three_attempts() -> None:
    model = ScriptedModel([plan("a after b", "b after a")], repeat_last=True)

    with pytest.raises(ModelAnswerInvalid, match="Steps wait for each other"):
        create_planner(model, executor=worker()).invoke(GO)
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (plan("a"), "Step 'a' has been done"),
        (json.dumps({"response": "done", "steps": [{"id": "b", "task": "b"}]}), "Give one of them."),
        ("{}", "The plan has no steps."),
    ],
)
def test_an_invalid_new_plan_is_requested_again(invalid: str, message: str) -> None:
    model = ScriptedModel([plan("a"), invalid, answer("done")])

    assert create_planner(model, executor=worker()).invoke(GO)["response"] == "done"
    assert message in model.requests[2].messages[-1].text


# -- threads, interrupts and other graphs


def test_the_task_can_be_the_last_message_of_a_conversation() -> None:
    model = ScriptedModel([plan("a"), answer("done")])
    messages = [Message("before"), Message("yes?", "assistant"), Message("now this")]
    result = create_planner(model, executor=worker()).invoke({"messages": messages})

    assert result["input"] == "now this"
    assert [message.text for message in model.requests[0].messages] == ["before", "yes?", "now this"]
    assert [message.text for message in result["messages"]] == ["before", "yes?", "now this", "done"]


def test_a_new_turn_of_a_thread_starts_a_new_plan(saver: Checkpointer) -> None:
    model = ScriptedModel([plan("a", "b"), answer("one"), plan("a"), answer("two")])
    app = create_planner(model, executor=worker(), checkpointer=saver)
    app.invoke({"input": "first"}, thread_id="1")
    result = app.invoke({"input": "second"}, thread_id="1")

    assert (list(results(result)), result["response"], result["input"]) == (["a"], "two", "second")


def test_an_interrupt_in_a_step_is_resumed_without_repeating_steps(saver: Checkpointer) -> None:
    @tool(approve=lambda arguments, context: arguments["what"] == "b")
    def send(what: str) -> str:
        """Send."""
        return f"sent {what}"

    def script(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return last.text if last.role == "tool" else ToolCall("1", "send", {"what": last.text[-1]})

    model, steps = ScriptedModel([plan("a", "b"), answer("done")]), ScriptedModel(script)
    app = create_planner(model, executor=create_agent(steps, [send], name="worker"), checkpointer=saver)

    waiting = app.invoke(GO, thread_id="1")
    assert [question.value["arguments"] for question in waiting["__interrupt__"]] == [{"what": "b"}]
    result = asyncio.run(app.ainvoke(Command(resume="yes"), thread_id="1"))
    assert results(result) == {"a": "sent a", "b": "sent b"}
    assert (len(model.requests), len(steps.requests)) == (2, 4), "no step is repeated"


def test_the_diagram_shows_the_nodes_of_the_planner() -> None:
    def arrows(**options: Any) -> set[tuple[str, str]]:
        drawing = create_planner(ScriptedModel([]), **options).get_graph()
        return {(edge.source.split(":")[-1], edge.target.split(":")[-1]) for edge in drawing.edges}

    assert {("plan", "execute"), ("execute", "replan"), ("replan", "execute"), ("replan", "answer")} < arrows()
    assert {("execute", "advance"), ("advance", "execute"), ("advance", "answer")} < arrows(replan=False)


def test_messages_of_steps_are_streamed() -> None:
    app = create_planner(ScriptedModel([plan("a"), "all done"]), executor=worker(), replan=False)
    chunks = {(chunk.name, chunk.text) for chunk, _ in app.stream(GO, stream_mode="messages")}

    assert {("worker", "did"), ("planner", "all")} <= chunks


def test_a_planner_can_be_an_agent_of_a_supervisor_and_a_node_of_a_graph() -> None:
    def planner() -> Any:
        return create_planner(ScriptedModel([plan("a"), answer("planned")]), executor=worker())

    head = ScriptedModel([ToolCall("1", "transfer_to_planner", {"task": "plan"}), "done"])
    team = create_supervisor([planner()], model=head).invoke({"messages": ["hi"]})
    assert "planned" in [message.text for message in team["messages"]]

    app = StateGraph(AgentState).add_node("planner", planner()).add_edge(START, "planner").compile()
    assert [message.text for message in app.invoke({"messages": ["hi"]})["messages"]] == ["hi", "planned"]


# -- errors


def look() -> str:
    """Look."""
    return ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: create_planner(ScriptedModel([]), max_steps=0), "max_steps of planner 'planner' is 0"),
        (lambda: create_planner(ScriptedModel([]), [look], executor=worker()), "an executor and tools"),
        (lambda: create_planner(ScriptedModel([]), executor=ScriptedModel([])), "not a compiled graph"),  # type: ignore[arg-type]
        (lambda: create_planner(None), "The model is None"),
    ],
)
def test_invalid_definitions_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        make()


@pytest.mark.parametrize("value", [{"input": " "}, {"messages": [("assistant", "hi")]}])
def test_a_run_without_a_task_is_refused(value: Any) -> None:
    with pytest.raises(EmptyInputError, match="Planner 'planner' has no task"):
        create_planner(ScriptedModel([]), executor=worker()).invoke(value)
