"""Structured output of each type is saved in each kind of graph and loaded again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import START, Command, InMemorySaver, MessagesState, StateGraph
from statewright.agents import create_agent, create_supervisor, create_swarm, tool
from statewright.messages import ToolCall
from statewright.models import ModelRequest, ScriptedModel
from statewright.storage.sqlite import SqliteSaver


class Place(BaseModel):
    name: str


class Trip(BaseModel):
    to: Place
    days: int


@dataclass
class Plan:
    to: str
    days: int


class Note(TypedDict):
    to: str
    days: int


SCHEMA: dict[str, Any] = {
    "title": "Trip",
    "type": "object",
    "properties": {"to": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["to", "days"],
}
FORMS: dict[str, tuple[Any, Any]] = {
    "model": (Trip, Trip(to=Place(name="Bergen"), days=2)),
    "dataclass": (Plan, Plan("Bergen", 2)),
    "typed dict": (Note, {"to": "Bergen", "days": 2}),
    "JSON Schema": (SCHEMA, {"to": "Bergen", "days": 2}),
}


def _model(answer: Any) -> ScriptedModel:
    text = answer.model_dump_json() if isinstance(answer, BaseModel) else json.dumps(vars_of(answer))
    return ScriptedModel(lambda request: text if request.output is not None else "I know.")


def vars_of(answer: Any) -> Any:
    return answer if isinstance(answer, dict) else vars(answer)


class Answered(MessagesState):
    structured_response: Any


def _alone(form: Any, answer: Any) -> Any:
    return create_agent(_model(answer), response_format=form)


def _supervisor(form: Any, answer: Any) -> Any:
    worker = create_agent(ScriptedModel(["done"], repeat_last=True), name="worker")
    return create_supervisor([worker], model=_model(answer), response_format=form)


def _swarm(form: Any, answer: Any) -> Any:
    member = create_agent(_model(answer), response_format=form, name="member")
    return create_swarm([member], default_active_agent="member", state_schema=None)


def _node(form: Any, answer: Any) -> Any:
    return StateGraph(Answered).add_node("agent", _alone(form, answer)).add_edge(START, "agent").compile()


def _node_of_a_node(form: Any, answer: Any) -> Any:
    return StateGraph(Answered).add_node("inner", _node(form, answer)).add_edge(START, "inner").compile()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "graph", [_alone, _supervisor, _swarm, _node, _node_of_a_node], ids=lambda graph: graph.__name__
)
def test_structured_output_is_saved_and_loaded_by_another_saver(
    driver: Any, graph: Callable[[Any, Any], Any], form: str, tmp_path: Path
) -> None:
    kind, answer = FORMS[form]
    for turn in (1, 2):
        with SqliteSaver(tmp_path / "threads.db") as saver:
            app = graph(kind, answer).with_services(checkpointer=saver)
            before = app.get_state(thread_id="t").values
            assert turn == 1 or before.get("structured_response", answer) == answer
            result = driver.invoke(app, {"messages": [f"turn {turn}"]}, thread_id="t")
            assert result.get("structured_response", answer) == answer
            if graph is not _swarm:  # members of a swarm share only the conversation
                assert app.get_state(thread_id="t").values["structured_response"] == answer


def test_allowed_types_are_saved_in_fields_of_type_any(driver: Any, tmp_path: Path) -> None:
    class Result(TypedDict, total=False):
        hit: Any

    graph = StateGraph(Result).add_node("search", lambda state: {"hit": [Plan("Bergen", 2)]}).add_edge(START, "search")
    graph.allow_types(Plan)
    for saver in (InMemorySaver(checks_values=True), SqliteSaver(tmp_path / "threads.db")):
        with saver:
            assert driver.invoke(graph.compile(saver), {}, thread_id="t") == {"hit": [Plan("Bergen", 2)]}
    with SqliteSaver(tmp_path / "threads.db") as saver:
        assert graph.compile(saver).get_state(thread_id="t").values == {"hit": [Plan("Bergen", 2)]}


def test_the_model_is_informed_of_an_update_that_cannot_be_saved(driver: Any, tmp_path: Path) -> None:
    called: list[str] = []

    @tool
    def note() -> Any:
        """Note something."""
        called.append("note")
        return Command(update={"structured_response": object()})

    def answer(request: ModelRequest) -> Any:
        return request.messages[-1].text if request.messages[-1].role == "tool" else [ToolCall("1", "note", {})]

    with SqliteSaver(tmp_path / "threads.db") as saver:
        app = create_agent(ScriptedModel(answer), [note], checkpointer=saver)
        answer_text = driver.invoke(app, {"messages": ["go"]}, thread_id="t")["messages"][-1].text
    assert "Tool 'note' wrote a value to the state that cannot be saved" in answer_text
    assert called == ["note"]
