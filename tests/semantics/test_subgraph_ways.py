"""Entering and leaving a subgraph: sends with a mapping, and computed gotos to the parent graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import END, START, Command, InMemorySaver, Send, StateGraph, interrupt
from statewright.channels import append
from statewright.errors import InvalidGraph


class ChildModel(BaseModel):
    prompt: str
    answers: Annotated[list[str], append] = []


class ParentModel(BaseModel):
    prompts: list[str]
    answers: Annotated[list[str], append] = []


@dataclass
class ParentData:
    prompts: list[str]
    answers: Annotated[list[str], append] = field(default_factory=list[str])


class ParentDict(TypedDict, total=False):
    prompts: list[str]
    answers: Annotated[list[str], append]


def prompts_of(state: Any) -> list[str]:
    return state["prompts"] if isinstance(state, dict) else state.prompts


@pytest.mark.parametrize("parent", [ParentModel, ParentData, ParentDict])
@pytest.mark.parametrize("as_instance", [False, True])
def test_a_subgraph_reads_a_send_with_its_own_input_schema(driver: Any, parent: Any, as_instance: bool) -> None:
    child = StateGraph(ChildModel).add_node("ask", lambda s: {"answers": [f"{s.prompt}: {interrupt(s.prompt)}"]})

    def assign(state: Any) -> list[Send]:
        return [Send("child", ChildModel(prompt=p) if as_instance else {"prompt": p}) for p in prompts_of(state)]

    graph = StateGraph(parent).add_node("child", child.add_edge(START, "ask").compile())
    app = graph.add_conditional_edges(START, assign, ["child"]).compile(InMemorySaver())
    questions = driver.invoke(app, {"prompts": ["a", "b"]}, thread_id="t")["__interrupt__"]
    result = driver.invoke(
        app, Command(resume={question.id: question.value * 2 for question in questions}), thread_id="t"
    )
    assert result["answers"] == ["a: aa", "b: bb"]


class State(TypedDict, total=False):
    log: Annotated[list[str], append]


def leaving_to(target: str) -> Any:
    def leave(state: State):  # type: ignore[no-untyped-def]  # a return type would declare whether it may leave
        return Command(graph=Command.PARENT, goto=target, update={"log": ["left"]})

    return StateGraph(State).add_node("leave", leave).add_edge(START, "leave").compile()


@pytest.mark.parametrize("target", ["b", "c"])
def test_a_subgraph_without_declared_targets_can_go_to_any_node_of_its_parent(driver: Any, target: str) -> None:
    graph = StateGraph(State).add_node("sub", leaving_to(target)).add_edge(START, "sub")
    graph.add_node("b", lambda s: {"log": ["b"]}).add_node("c", lambda s: {"log": ["c"]})
    assert driver.invoke(graph.compile(), {})["log"] == ["left", target]


def test_a_subgraph_whose_return_types_exclude_commands_has_no_targets() -> None:
    def stay(state: State) -> dict[str, Any]:
        return {"log": ["stayed"]}

    child = StateGraph(State).add_node("stay", stay).add_edge(START, "stay").compile()
    graph = StateGraph(State).add_node("sub", child).add_node("b", stay).add_edge(START, "sub")
    with pytest.raises(InvalidGraph, match="'b' cannot be reached"):
        graph.compile()


def test_a_subgraph_with_an_edge_to_end_has_no_targets() -> None:
    graph = StateGraph(State).add_node("sub", leaving_to("b")).add_node("b", lambda s: {}).add_edge(START, "sub")
    with pytest.raises(InvalidGraph, match="'b' cannot be reached"):
        graph.add_edge("sub", END).compile()
