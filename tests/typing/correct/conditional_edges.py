"""Conditional edges: by Literal, by a mapping, by a lambda, async, with several targets."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from statewright import END, START, Send, StateGraph


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def even(state: State) -> dict[str, Any]:
    return {"log": ["even"]}


def odd(state: State) -> dict[str, Any]:
    return {"log": ["odd"]}


def by_name(state: State) -> Literal["even", "odd"]:
    return "even" if state["n"] % 2 == 0 else "odd"


def is_even(state: State) -> bool:
    return state["n"] % 2 == 0


def both(state: dict[str, Any]) -> list[str | Send]:
    return ["even", Send("odd", state)]


async def later(state: State) -> Sequence[str]:
    return [END]


def main() -> None:
    named = StateGraph(State).add_node(even).add_node(odd).add_conditional_edges(START, by_name)
    assert named.compile().invoke({"n": 2})["log"] == ["even"]
    mapped = StateGraph(State).add_node(even).add_node(odd)
    mapped.add_conditional_edges(START, is_even, {True: "even", False: "odd"})
    assert mapped.compile().invoke({"n": 3})["log"] == ["odd"]
    brief = StateGraph(State).add_node(even).add_node(odd)
    brief.add_conditional_edges(START, lambda state: "odd" if state["n"] else "even", ["even", "odd"])
    assert brief.compile().invoke({"n": 0})["log"] == ["even"]
    several = StateGraph(State).add_node(even).add_node(odd)
    several.set_conditional_entry_point(both).add_conditional_edges("even", later, [END])
    assert asyncio.run(several.compile().ainvoke({"n": 1}))["log"] == ["even", "odd"]
