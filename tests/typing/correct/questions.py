"""Human in the loop: typed answers, resuming, the state of a waiting thread."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, Command, InMemorySaver, Interrupt, StateGraph, interrupt, wait_for_event


class State(TypedDict):
    amount: int
    approved: bool


def ask(state: State) -> dict[str, Any]:
    amount = interrupt({"question": "How much?"}, schema=int)
    anything = interrupt("Sure?")
    return {"amount": amount + 1, "approved": anything == "yes"}


def wait(state: State) -> dict[str, Any]:
    payload = wait_for_event("paid", schema=int, timeout=60)
    return {"amount": state["amount"] + (payload or 0)}


def main() -> None:
    graph = StateGraph(State).add_node(ask).add_node(wait).add_sequence(["ask", "wait"]).add_edge(START, "ask")
    app = graph.compile(InMemorySaver())
    first = app.invoke({}, {"configurable": {"thread_id": "1"}})
    questions: tuple[Interrupt, ...] = first["__interrupt__"]
    assert questions[0].value == {"question": "How much?"}
    app.invoke(Command(resume=4), thread_id="1")
    app.invoke(Command(resume={app.get_state(thread_id="1").interrupts[0].id: "yes"}), thread_id="1")
    assert app.send_event("paid", 10, thread_id="1")["amount"] == 15
    assert app.get_state(thread_id="1").values["approved"] is True
