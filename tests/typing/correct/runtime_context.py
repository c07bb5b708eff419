"""The context of the caller, and the other parameters that a node may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from statewright import START, Runtime, StateGraph, get_runtime


class State(TypedDict):
    greeting: str
    length: int


@dataclass
class Context:
    user: str
    shout: bool = False


def greet(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    name = runtime.context.user
    return {"greeting": runtime.step("greet", compose, name, shout=runtime.context.shout)}


def compose(name: str, *, shout: bool) -> str:
    return f"Hello {name.upper() if shout else name}"


def measure(state: State, config: Mapping[str, Any], *, runtime: Runtime[Context]) -> dict[str, Any]:
    assert config["recursion_limit"] == 20
    assert get_runtime(Context).context.user == runtime.context.user
    return {"length": len(state["greeting"])}


def main() -> None:
    graph = StateGraph(State, Context).add_node(greet).add_node(measure)
    app = graph.add_sequence(["greet", "measure"]).add_edge(START, "greet").compile()
    result = app.invoke({}, context=Context("Ada"), recursion_limit=20)
    assert result["greeting"] == "Hello Ada"
    assert app.invoke({}, context={"user": "Ada", "shout": True}, recursion_limit=20)["length"] == 9
    free = StateGraph(State).add_node("a", lambda state: {"length": 1}).add_edge(START, "a").compile()
    assert free.invoke({}, context=object())["length"] == 1
