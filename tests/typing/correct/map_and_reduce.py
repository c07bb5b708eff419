"""Sends with their own inputs, and a map over a field."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from statewright import START, Command, Send, StateGraph


class State(TypedDict):
    numbers: list[int]
    squares: Annotated[list[int], operator.add]


class Task(TypedDict):
    number: int


def spread(state: State) -> Command:
    return Command(goto=[Send("square", {"number": n}) for n in state["numbers"]] + [Send("double", 10)])


def square(task: Task) -> dict[str, Any]:
    return {"squares": [task["number"] ** 2]}


async def double(number: int) -> dict[str, Any]:
    return {"squares": [number * 2]}


def negative(number: int) -> int:
    return -number


class Mapped(TypedDict):
    numbers: list[int]
    negatives: list[int]


def main() -> None:
    graph = StateGraph(State).add_node(spread, destinations=["square", "double"]).add_node(square).add_node(double)
    app = graph.add_edge(START, "spread").compile()
    import asyncio

    assert asyncio.run(app.ainvoke({"numbers": [1, 2]}))["squares"] == [1, 4, 20]
    mapped = StateGraph(Mapped).add_map("negate", negative, over="numbers", into="negatives", max_concurrency=2)
    assert mapped.add_edge(START, "negate").compile().invoke({"numbers": [1, 2]})["negatives"] == [-1, -2]
