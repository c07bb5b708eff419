"""Commands, an update and a jump in one result: alone, as alternatives to updates, and in lists."""

from __future__ import annotations

import operator
from typing import Annotated, Any, Literal, TypedDict

from statewright import END, START, Command, Send, StateGraph


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def first(state: State) -> Command[Literal["second", "third"]]:
    return Command(update={"log": ["first"]}, goto="second" if state["n"] else "third")


def second(state: State) -> Command[Literal["third"]] | dict[str, Any]:
    if state["n"] > 1:
        return {"log": ["second"]}
    return Command(goto=[Send("third", {"n": 5})])


def third(state: State) -> list[Command]:
    return [Command(update={"log": ["third"]}), Command(update={"log": [str(state["n"])]}, goto=END)]


def main() -> None:
    graph = StateGraph(State).add_node(first).add_node(second).add_node(third, destinations=[END])
    app = graph.add_edge(START, "first").compile()
    assert app.invoke({"n": 2})["log"] == ["first", "second"]
    assert app.invoke({"n": 1})["log"] == ["first", "third", "5"]
    assert app.invoke({"n": 0})["log"] == ["first", "third", "0"]
    plain: Command = Command(goto="anywhere", update={"n": 1})
    assert plain.goto == "anywhere"
