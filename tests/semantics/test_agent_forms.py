"""Structured answers: how often a model is asked for one, and which are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from statewright import START, InMemorySaver, MessagesState, RetryPolicy, StateGraph
from statewright.agents import create_agent, create_planner, create_reflection
from statewright.errors import ModelAnswerInvalid
from statewright.models import ModelRequest, ScriptedModel

ANY = RetryPolicy(max_attempts=4, retry_on=Exception, initial_interval=0, jitter=False)
NAMED = RetryPolicy(max_attempts=4, retry_on=ModelAnswerInvalid, initial_interval=0, jitter=False)
Answers = Callable[[ModelRequest], Any]


class Form(BaseModel):
    good: bool = True


def prebuilt(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    """An agent with a form, its input, and the model that is asked for the form."""
    model = ScriptedModel(answers)
    app = create_agent(model, response_format=Form, retries=retries, name="a")
    return app, {"messages": ["x"]}, model


def planner(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    model = ScriptedModel(answers)
    worker = create_agent(ScriptedModel(lambda request: "done"), name="worker")
    return create_planner(model, executor=worker, retries=retries), {"input": "x"}, model


def reflection(answers: Answers, retries: Any) -> tuple[Any, Any, ScriptedModel]:
    critic = ScriptedModel(answers)
    app = create_reflection(ScriptedModel(lambda request: "draft"), critic_model=critic, retries=retries)
    return app, {"messages": ["x"]}, critic


FORMS = [prebuilt, planner, reflection]


def forms_of(model: ScriptedModel) -> int:
    """How often the model was asked for a form."""
    return sum(request.output is not None for request in model.requests)


@pytest.mark.parametrize("make", FORMS)
@pytest.mark.parametrize("retries", [0, 4, ANY, NAMED], ids=["none", "usual", "any", "named"])
def test_a_policy_does_not_multiply_the_tries_at_a_form(make: Any, retries: Any) -> None:
    app, given, model = make(lambda request: "no form", retries)
    with pytest.raises(ModelAnswerInvalid, match="3 times"):
        app.invoke(given)
    assert forms_of(model) == 3


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["unsaved", "saved"])
@pytest.mark.parametrize("policy", [ANY, NAMED], ids=["any", "named"])
def test_nor_does_a_policy_of_the_node_that_holds_the_agent(saver: Any, policy: RetryPolicy) -> None:
    app, given, model = prebuilt(lambda request: "no form", 4)
    graph = StateGraph(MessagesState).add_node("a", app, retry_policy=policy).add_edge(START, "a").compile(saver)
    with pytest.raises(ModelAnswerInvalid, match="3 times"):
        graph.invoke(given, **({"thread_id": f"t{policy.retry_on}"} if saver else {}))
    assert forms_of(model) == 3


def test_other_failures_of_the_node_are_retried() -> None:
    faults = [ConnectionError("cut"), ConnectionError("cut")]

    def answers(request: ModelRequest) -> Any:
        if faults:
            raise faults.pop()
        return '{"good": true}' if request.output is not None else "free"

    app, given, _ = prebuilt(answers, ANY)
    assert app.invoke(given)["structured_response"] == Form()
