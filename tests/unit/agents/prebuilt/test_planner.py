"""A model that plans, and agents that execute the steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright import START, Command, InMemorySaver, StateGraph
from statewright.agents import AgentState, create_agent, tool
from statewright.agents.prebuilt.planner import create_planner
from statewright.agents.prebuilt.supervisor import create_supervisor
from statewright.checkpoint import Checkpointer
from statewright.errors import EmptyInputError, InvalidConfig, ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel
from statewright.storage.sqlite import SqliteSaver

GO = {"input": "the task"}


def plan(*steps: str) -> str:
    """The JSON of a plan: `c after a b` is a step that needs two others."""
    parsed = [one.partition(" after ") for one in steps]
    return json.dumps(
        {"steps": [{"id": name, "task": f"do {name}", "after": others.split()} for name, _, others in parsed]}
    )


def answer(text: str) -> str:
    return json.dumps({"response": text})


def worker(**options: Any) -> Any:
    """An agent that answers with the last line of what it is told."""
    model = ScriptedModel(lambda request: f"did {request.messages[-1].text.splitlines()[-1]}")
    return create_agent(model, name="worker", **options)


def results(state: Any) -> dict[str, str]:
    return {step["id"]: step["result"] for step in state["past_steps"]}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(str(tmp_path / "runs.db")) as opened:
        yield opened


def test_a_plan_is_made_followed_and_answered() -> None:
    model = ScriptedModel([plan("a", "b after a"), plan("b after a"), answer("It is done.")])
    result = create_planner(model, executor=worker()).invoke(GO)

    assert results(result) == {"a": "did do a", "b": "did do b"}
    assert (result["response"], result["stop_reason"]) == ("It is done.", "completed")
    assert [message.text for message in result["messages"]] == ["It is done."]


def test_a_step_is_shown_the_task_and_the_results_that_it_needs() -> None:
    steps = ScriptedModel(lambda request: f"result {len(steps.requests)}")
    model = ScriptedModel([plan("a", "b after a", "c after b"), "done"])
    create_planner(model, executor=create_agent(steps, name="worker"), replan=False).invoke(GO)

    last = steps.requests[2].messages[-1].text
    assert "the task" in last
    assert last.endswith("do c")
    assert "result 2" in last
    assert "result 1" not in last


class Meeting:
    """A model that answers when as many as are expected have been asked."""

    def __init__(self, parties: int) -> None:
        self._barrier = asyncio.Barrier(parties)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await asyncio.wait_for(self._barrier.wait(), 600)
        return ModelResponse(Message(f"did {request.messages[-1].text[-1]}", "assistant"))


def test_steps_that_do_not_need_each_other_are_done_beside_each_other() -> None:
    model = ScriptedModel([plan("a", "b", "c"), "done"])
    result = create_planner(model, executor=create_agent(Meeting(3), name="worker"), replan=False).invoke(GO)

    assert results(result) == {"a": "did a", "b": "did b", "c": "did c"}
    assert list(results(result)) == ["a", "b", "c"], "in the order of the plan"


def test_a_step_waits_for_all_that_it_needs() -> None:
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
def test_the_most_steps_are_met_and_the_answer_says_what_is_missing(replan: bool) -> None:
    model = ScriptedModel([plan("a", "b", "c", "d after c"), "that is all"])
    result = create_planner(model, executor=worker(), max_steps=2, replan=replan).invoke(GO)

    assert list(results(result)) == ["a", "b"]
    assert (result["response"], result["stop_reason"]) == ("that is all", "max_steps")
    assert "not been done:\n- c: do c\n- d: do d" in model.requests[-1].messages[-1].text


def test_tools_are_told_to_the_planner_and_used_by_steps() -> None:
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


# -- plans that are none


@pytest.mark.parametrize(
    ("bad", "told"),
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
def test_an_invalid_plan_is_requested_again(bad: str, told: str) -> None:
    model = ScriptedModel([bad, plan("a"), answer("done")])

    assert create_planner(model, executor=worker()).invoke(GO)["response"] == "done"
    assert told in model.requests[1].messages[-1].text


def test_a_model_that_makes_no_plan_is_given_up() -> None:
    model = ScriptedModel([plan("a after b", "b after a")], repeat_last=True)

    with pytest.raises(ModelAnswerInvalid, match="Steps wait for each other"):
        create_planner(model, executor=worker()).invoke(GO)
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (plan("a"), "Step 'a' has been done"),
        (json.dumps({"response": "done", "steps": [{"id": "b", "task": "b"}]}), "Give one of them."),
        ("{}", "The plan has no steps."),
    ],
)
def test_an_invalid_new_plan_is_requested_again(bad: str, told: str) -> None:
    model = ScriptedModel([plan("a"), bad, answer("done")])

    assert create_planner(model, executor=worker()).invoke(GO)["response"] == "done"
    assert told in model.requests[2].messages[-1].text


# -- threads and other graphs


def test_the_task_may_be_the_last_message_of_a_conversation() -> None:
    model = ScriptedModel([plan("a"), answer("done")])
    messages = [Message("before"), Message("yes?", "assistant"), Message("now this")]
    result = create_planner(model, executor=worker()).invoke({"messages": messages})

    assert result["input"] == "now this"
    assert [message.text for message in model.requests[0].messages] == ["before", "yes?", "now this"]
    assert [message.text for message in result["messages"]] == ["before", "yes?", "now this", "done"]


def test_a_new_turn_of_a_thread_begins_anew(saver: Checkpointer) -> None:
    model = ScriptedModel([plan("a", "b"), answer("one"), plan("a"), answer("two")])
    app = create_planner(model, executor=worker(), checkpointer=saver)
    app.invoke({"input": "first"}, thread_id="1")
    result = app.invoke({"input": "second"}, thread_id="1")

    assert (list(results(result)), result["response"], result["input"]) == (["a"], "two", "second")


def test_a_question_of_a_steps_tool_is_answered_in_place(saver: Checkpointer) -> None:
    @tool(approve=lambda arguments, context: arguments["what"] == "b")
    def send(what: str) -> str:
        """Send."""
        return f"sent {what}"

    def script(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return last.text if last.role == "tool" else ToolCall("1", "send", {"what": last.text[-1]})

    model, steps = ScriptedModel([plan("a", "b"), answer("done")]), ScriptedModel(script)
    app = create_planner(model, executor=create_agent(steps, [send], name="worker"), checkpointer=saver)

    asked = app.invoke(GO, thread_id="1")
    assert [one.value["arguments"] for one in asked["__interrupt__"]] == [{"what": "b"}]
    result = asyncio.run(app.ainvoke(Command(resume="yes"), thread_id="1"))
    assert results(result) == {"a": "sent a", "b": "sent b"}
    assert (len(model.requests), len(steps.requests)) == (2, 4), "no step is done twice"


def test_it_is_drawn_with_its_steps() -> None:
    def arrows(**options: Any) -> set[tuple[str, str]]:
        drawing = create_planner(ScriptedModel([]), **options).get_graph()
        return {(edge.source.split(":")[-1], edge.target.split(":")[-1]) for edge in drawing.edges}

    assert {("plan", "execute"), ("execute", "replan"), ("replan", "execute"), ("replan", "answer")} < arrows()
    assert {("execute", "advance"), ("advance", "execute"), ("advance", "answer")} < arrows(replan=False)


def test_what_steps_say_is_streamed() -> None:
    app = create_planner(ScriptedModel([plan("a"), "all done"]), executor=worker(), replan=False)
    said = {(chunk.name, chunk.text) for chunk, _ in app.stream(GO, stream_mode="messages")}

    assert {("worker", "did"), ("planner", "all")} <= said


def test_it_is_an_agent_of_a_supervisor_and_a_node_of_a_graph() -> None:
    def planner() -> Any:
        return create_planner(ScriptedModel([plan("a"), answer("planned")]), executor=worker())

    head = ScriptedModel([ToolCall("1", "transfer_to_planner", {"task": "plan"}), "done"])
    team = create_supervisor([planner()], model=head).invoke({"messages": ["hi"]})
    assert "planned" in [message.text for message in team["messages"]]

    app = StateGraph(AgentState).add_node("planner", planner()).add_edge(START, "planner").compile()
    assert [message.text for message in app.invoke({"messages": ["hi"]})["messages"]] == ["hi", "planned"]


# -- what goes wrong


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
def test_what_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        make()


@pytest.mark.parametrize("given", [{"input": " "}, {"messages": [("assistant", "hi")]}])
def test_a_run_without_a_task_is_refused(given: Any) -> None:
    with pytest.raises(EmptyInputError, match="Planner 'planner' has no task"):
        create_planner(ScriptedModel([]), executor=worker()).invoke(given)
