"""A graph with two steps, to see a deployment work: replace it by your own."""

from __future__ import annotations

import socket
from typing import TypedDict

from statewright import START, StateGraph


class State(TypedDict, total=False):
    name: str
    text: str
    host: str


def greet(state: State) -> State:
    return {"text": f"Hello, {state.get('name', 'world')}!"}


def sign(state: State) -> State:
    return {"host": socket.gethostname()}  # the worker that has advanced the run


graph = StateGraph(State)
graph.add_node("greet", greet)
graph.add_node("sign", sign)
graph.add_edge(START, "greet")
graph.add_edge("greet", "sign")
