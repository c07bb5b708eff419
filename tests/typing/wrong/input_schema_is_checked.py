"""An input that the input schema does not allow."""

from __future__ import annotations

from typing import TypedDict

from statewright import StateGraph


class Question(TypedDict):
    text: str


class State(Question):
    answer: str


app = StateGraph(State, input_schema=Question).compile()
app.invoke({"text": 5})  # pyright=reportArgumentType mypy=call-overload
app.invoke({"txt": "a"})  # pyright=reportArgumentType mypy=call-overload
app.invoke({})  # pyright=reportArgumentType mypy=call-overload
