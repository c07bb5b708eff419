"""A TypedDict as the state: plain and async nodes, an input without some fields, results by name."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from statewright import END, START, StateGraph


class State(TypedDict):
    topic: str
    notes: Annotated[list[str], operator.add]


def plan(state: State) -> dict[str, Any]:
    return {"notes": [f"plan {state['topic']}"]}


async def write(state: State) -> dict[str, list[str]]:
    return {"notes": [f"write {len(state['notes'])}"]}


def rest(state: State) -> None:
    assert state["notes"]


def main() -> None:
    graph = StateGraph(State)
    graph.add_node(plan).add_node("write", write).add_node("rest", "Does nothing.", rest)
    graph.add_edge(START, "plan").add_edge("plan", "write").add_edge("write", "rest").add_edge("rest", END)
    app = graph.compile()
    result = asyncio.run(app.ainvoke({"topic": "tea"}))
    assert result["notes"] == ["plan tea", "write 1"]
    assert "__interrupt__" not in result
    notes: list[str] = app.invoke(State(topic="tea", notes=["first"]), output_keys="notes")
    assert notes[0] == "first"
    value = app.invoke({"topic": "tea"}, version="v2").value
    assert value["topic"].upper() == "TEA"
