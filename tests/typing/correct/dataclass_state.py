"""A dataclass as the state: nodes receive an instance, `version="v2"` returns one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statewright import START, StateGraph


@dataclass
class State:
    count: int = 0
    seen: list[str] = field(default_factory=list[str])


def add(state: State) -> dict[str, Any]:
    return {"count": state.count + 1, "seen": [*state.seen, "add"]}


def main() -> None:
    app = StateGraph(State).add_node("add", add).add_edge(START, "add").compile()
    assert app.invoke(State(count=1)) == {"count": 2, "seen": ["add"]}
    assert app.invoke({"count": 4})["count"] == 5
    output = app.invoke({}, version="v2")
    assert output.value.count + 1 == 2
    assert output.interrupts == ()
