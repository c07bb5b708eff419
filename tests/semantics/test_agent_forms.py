"""Structured output, incomplete answers and refused answers of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from statewright import START, InMemorySaver, MessagesState, RetryPolicy, StateGraph
from statewright.agents import Agent, create_agent, create_planner, create_reflection, create_supervisor
from statewright.errors import ModelAnswerInvalid
from statewright.messages import Message, ToolCall
from statewright.models import FinishReason, ModelRequest, ModelResponse, ScriptedModel

ANY = RetryPolicy(max_attempts=4, retry_on=Exception, initial_interval=0, jitter=False)
NAMED = RetryPolicy(max_attempts=4, retry_on=ModelAnswerInvalid, initial_interval=0, jitter=False)
Answers = Callable[[ModelRequest], Any]


class Answer(BaseModel):
    good: bool = True


def prebuilt(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    """Return an agent with structured output, its input, and the model that is asked for the structured answer."""
    model = ScriptedModel(answers)
    app = create_agent(model, response_format=Answer, retries=retries, name="a")
    return app, {"messages": ["x"]}, model


def planner(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    model = ScriptedModel(answers)
    worker = create_agent(ScriptedModel(lambda request: "done"), name="worker")
    return create_planner(model, executor=worker, retries=retries), {"input": "x"}, model


def reflection(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    critic = ScriptedModel(answers)
    app = create_reflection(ScriptedModel(lambda request: "draft"), critic_model=critic, retries=retries)
    return app, {"messages": ["x"]}, critic


AGENTS = [prebuilt, planner, reflection]


def structured_requests(model: ScriptedModel) -> int:
    """Return the number of requests for a structured answer."""
    return sum(request.output is not None for request in model.requests)


@pytest.mark.parametrize("make", AGENTS)
@pytest.mark.parametrize("retries", [0, 4, ANY, NAMED], ids=["none", "usual", "any", "named"])
def test_a_retry_policy_does_not_multiply_attempts_at_a_structured_answer(make: Any, retries: Any) -> None:
    app, agent_input, model = make(lambda request: "not structured", retries)
    with pytest.raises(ModelAnswerInvalid, match="3 answers"):
        app.invoke(agent_input)
    assert structured_requests(model) == 3


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["unsaved", "saved"])
@pytest.mark.parametrize("policy", [ANY, NAMED], ids=["any", "named"])
def test_a_policy_of_the_agents_node_does_not_multiply_attempts_at_a_structured_answer(
    saver: Any, policy: RetryPolicy
) -> None:
    app, agent_input, model = prebuilt(lambda request: "not structured", 4)
    graph = StateGraph(MessagesState).add_node("a", app, retry_policy=policy).add_edge(START, "a").compile(saver)
    with pytest.raises(ModelAnswerInvalid, match="3 answers"):
        graph.invoke(agent_input, **({"thread_id": f"t{policy.retry_on}"} if saver else {}))
    assert structured_requests(model) == 3


def test_other_failures_of_the_node_are_retried() -> None:
    faults = [ConnectionError("cut"), ConnectionError("cut")]

    def answers(request: ModelRequest) -> Any:
        if faults:
            raise faults.pop()
        return '{"good": true}' if request.output is not None else "free"

    app, agent_input, _ = prebuilt(answers, ANY)
    assert app.invoke(agent_input)["structured_response"] == Answer()


# -- incomplete answers


def respond(text: str, reason: FinishReason | None = None, *calls: ToolCall) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), finish_reason=reason)


PLAN = '{"steps": [{"id": "1", "task": "t"}]}'
VALID = {prebuilt: '{"good": true}', planner: PLAN, reflection: '{"satisfied": true}'}
REASONS: list[FinishReason] = ["length", "refused"]


@pytest.mark.parametrize("make", AGENTS)
@pytest.mark.parametrize("reason", REASONS)
def test_an_incomplete_structured_answer_is_rejected_although_it_is_valid(make: Any, reason: FinishReason) -> None:
    app, agent_input, model = make(lambda request: respond(VALID[make], reason), 4)
    with pytest.raises(ModelAnswerInvalid, match="cut off" if reason == "length" else "refused"):
        app.invoke(agent_input)
    assert structured_requests(model) == (3 if reason == "length" else 1)


def test_a_truncated_structured_answer_is_requested_again() -> None:
    answers = iter([respond("free"), respond('{"good": false}', "length"), respond('{"good": true}')])
    app, agent_input, model = prebuilt(lambda request: next(answers), 4)
    assert app.invoke(agent_input)["structured_response"] == Answer(good=True)
    assert "cut off" in model.requests[-1].messages[-1].text


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("drafts", [1, 3])
@pytest.mark.parametrize("satisfied", [True, False])
def test_a_reflection_reports_the_finish_reason_of_its_last_draft(
    reason: FinishReason, drafts: int, satisfied: bool
) -> None:
    judgement = f'{{"satisfied": {str(satisfied).lower()}, "critique": "more"}}'
    critic = ScriptedModel(lambda request: judgement)
    app = create_reflection(
        ScriptedModel(lambda request: respond("half", reason)), critic_model=critic, max_iterations=drafts
    )
    end = app.invoke({"messages": ["x"]})
    assert (end["stop_reason"], end["messages"][-1].finish_reason) == (reason, reason)


def test_a_reflection_ignores_the_finish_reasons_of_replaced_drafts() -> None:
    author = ScriptedModel([respond("half", "length"), respond("whole"), respond("another")])
    critic = ScriptedModel(['{"satisfied": false, "critique": "more"}', '{"satisfied": true}', '{"satisfied": true}'])
    app = create_reflection(author, critic_model=critic, checkpointer=InMemorySaver())
    for _ in range(2):
        end = app.invoke({"messages": ["x"]}, thread_id="t")
        assert (end["stop_reason"], end["messages"][-1].finish_reason) == ("satisfied", "stop")


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("replan", [True, False])
def test_a_planner_is_told_which_results_are_incomplete(reason: FinishReason, replan: bool) -> None:
    model = ScriptedModel([PLAN, '{"response": "r"}' if replan else "r"])
    worker = create_agent(ScriptedModel(lambda request: respond("half a res", reason)), name="worker")
    end = create_planner(model, executor=worker, replan=replan).invoke({"input": "x"})
    assert end["past_steps"] == [{"id": "1", "task": "t", "result": "half a res", "finish_reason": reason}]
    prompt = model.requests[-1].messages[-1].text
    assert f"Result ({'incomplete' if reason == 'length' else 'not done'}" in prompt


@pytest.mark.parametrize("reason", REASONS)
def test_a_planner_reports_the_finish_reason_of_its_answer(reason: FinishReason) -> None:
    model = ScriptedModel([PLAN, respond("half", reason)])
    worker = create_agent(ScriptedModel(lambda request: "done"), name="worker")
    end = create_planner(model, executor=worker, replan=False).invoke({"input": "x"})
    assert (end["response"], end["stop_reason"], end["messages"][-1].finish_reason) == ("half", reason, reason)


# -- tool calls of refused answers


@pytest.mark.parametrize("form", ["network", "prebuilt", "supervisor"])
def test_tool_calls_of_a_refused_answer_are_not_made(form: str) -> None:
    ran: list[int] = []

    def pay(amount: int = 0) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    refused = respond("I cannot.", "refused", ToolCall("1", "pay", {"amount": 5}))
    refused.message.metadata = {"provider": {"parts": ["the call"]}}
    model = ScriptedModel([refused])
    if form == "network":
        run = Agent("A", model=model, tools=[pay], max_iter=3).alone().run("x")
        assert run.last_result is not None
        last, reason = run.last_result.messages[-1], run.stop_reason
    else:
        app = create_agent(model, [pay], name="a")
        if form == "supervisor":
            worker = create_agent(ScriptedModel(lambda request: "done"), name="worker")
            app = create_supervisor([worker], model=model, tools=[pay])
        last = app.invoke({"messages": ["x"]})["messages"][-1]
        reason = last.finish_reason
    assert ran == []
    assert (last.text, last.tool_calls, last.finish_reason, reason) == ("I cannot.", (), "refused", "refused")
    assert last.metadata == {"finish_reason": "refused"}
    assert len(model.requests) == 1
