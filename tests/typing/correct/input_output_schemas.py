"""Separate schemas for input and output, and a field that only two nodes share."""

from __future__ import annotations

from typing import TypedDict

from pydantic import BaseModel

from statewright import START, StateGraph


class Question(TypedDict):
    text: str


class Reply(TypedDict):
    answer: str


class State(Question, Reply):
    pass


class Draft(TypedDict):
    draft: str


class Form(BaseModel):
    text: str


def think(state: Question) -> Draft:
    return {"draft": state["text"].upper()}


def answer(state: Draft) -> Reply:
    return {"answer": state["draft"]}


def main() -> None:
    graph = StateGraph(State, input_schema=Question, output_schema=Reply)
    graph.add_node(think).add_node("answer", answer, input_schema=Draft)
    graph.add_edge(START, "think").add_edge("think", "answer")
    app = graph.compile()
    assert app.invoke({"text": "a"}) == {"answer": "A"}
    assert app.invoke({"text": "a"}, version="v2").value["answer"] == "A"

    form = StateGraph(State, input_schema=Form).add_node(think).add_node(answer)
    checked = form.add_sequence(["think", "answer"]).set_entry_point("think").compile()
    assert checked.invoke(Form(text="b"))["answer"] == "B"
    assert checked.invoke({"text": "b"})["answer"] == "B"
