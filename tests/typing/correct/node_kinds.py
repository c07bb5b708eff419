"""The kinds of nodes: functions, methods, objects, partials, lambdas, Runnables."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from statewright import START, Runtime, StateGraph


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Worker:
    def __init__(self, name: str) -> None:
        self.name = name

    def work(self, state: State) -> dict[str, list[str]]:
        return {"log": [self.name]}

    @staticmethod
    def aside(state: State) -> dict[str, list[str]]:
        return {"log": ["static"]}

    @classmethod
    def known(cls, state: State, runtime: Runtime) -> dict[str, list[str]]:
        return {"log": [cls.__name__]}

    def __call__(self, state: State, *, runtime: Runtime[Any]) -> dict[str, list[str]]:
        return {"log": ["called"]}


class Chain:
    def invoke(self, state: State, config: Any = None) -> dict[str, list[str]]:
        return {"log": ["chain"]}


def say(state: State, word: str) -> dict[str, list[str]]:
    return {"log": [word]}


def traced(function: Callable[[State], dict[str, list[str]]]) -> Callable[[State], dict[str, list[str]]]:
    return function


@traced
def decorated(state: State) -> dict[str, list[str]]:
    return {"log": ["decorated"]}


def chosen(is_plain: bool) -> Callable[[State], dict[str, Any] | Awaitable[dict[str, Any]]]:
    def plain(state: State) -> dict[str, Any]:
        return {"log": ["plain"]}

    async def later(state: State) -> dict[str, Any]:
        return {"log": ["later"]}

    return plain if is_plain else later


def main() -> None:
    worker = Worker("method")
    graph = StateGraph(State)
    graph.add_node("a", worker.work).add_node("b", Worker.aside).add_node("c", worker.known).add_node("d", worker)
    graph.add_node("e", partial(say, word="partial")).add_node("f", lambda state: {"log": [str(len(state["log"]))]})
    graph.add_node("g", Chain()).add_node("h", decorated).add_node("i", chosen(True))
    app = graph.add_sequence([*"abcdefghi"]).add_edge(START, "a").compile()
    words = ["method", "static", "Worker", "called", "partial", "5", "chain", "decorated", "plain"]
    assert app.invoke({"log": []})["log"] == words
