"""A pydantic model as the state, and a node that returns one."""

from __future__ import annotations

from pydantic import BaseModel

from statewright import START, StateGraph


class State(BaseModel):
    text: str = ""
    length: int = 0


def measure(state: State) -> State:
    return State(text=state.text, length=len(state.text))


def main() -> None:
    app = StateGraph(State).add_node("measure", measure).add_edge(START, "measure").compile()
    assert app.invoke(State(text="four"))["length"] == 4
    assert app.invoke({"text": "four"})["length"] == 4
    value: State = app.invoke({"text": "four"}, version="v2").value
    assert value.length == 4
