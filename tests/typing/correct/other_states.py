"""A dict of reducers as the state, a single value, and a schema object."""

from __future__ import annotations

import operator
from typing import Any

from statewright import START, StateGraph, StateSchema, append, overwrite


def log(state: dict[str, Any]) -> dict[str, Any]:
    return {"log": "entry", "total": 2}


def add(number: int) -> int:
    return number + 1


def extend(words: list[str]) -> list[str]:
    return [*words, "more"]


def main() -> None:
    open_graph = StateGraph({"log": append, "total": operator.add, "last": overwrite, "kind": str})
    app = open_graph.add_node(log).add_edge(START, "log").compile()
    assert app.invoke({"total": 1})["total"] == 3
    bare = StateGraph(int).add_node(add).add_edge(START, "add").compile()
    assert bare.invoke(1) + 1 == 3
    words = StateGraph(list[str]).add_node(extend).add_edge(START, "extend").compile()
    assert words.invoke(["a"]).index("more") == 1
    schema = StateSchema({"log": append})
    schema.register_reducer("total", operator.add)
    assert StateGraph(schema).add_node(log).add_edge(START, "log").compile().invoke({"total": 1})["log"] == ["entry"]
    assert StateGraph(dict).add_node("a", lambda state: state).add_edge(START, "a").compile().invoke({"a": 1})
