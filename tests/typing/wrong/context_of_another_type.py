"""A context that is not of the schema's type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from statewright import Runtime, StateGraph


class State(TypedDict):
    n: int


@dataclass
class Context:
    user: str


def greet(state: State, runtime: Runtime[Context]) -> None:
    print(runtime.context.name)  # pyright=reportAttributeAccessIssue mypy=attr-defined


app = StateGraph(State, Context).add_node(greet).compile()
app.invoke({"n": 1}, context="Ada")  # pyright=reportArgumentType mypy=call-overload
app.stream({"n": 1}, context=Context)  # pyright=reportArgumentType mypy=call-overload
