"""Threads: history, forks, repairs, batches, and every option of a call that is a choice."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph
from statewright.runtime import Durability, OnBusy


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


DURABILITY: Durability = "sync"


async def run(on_busy: OnBusy) -> None:
    app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())
    await app.ainvoke({"n": 1}, thread_id="1", on_busy=on_busy, on_unfinished="discard")
    async for snapshot in app.aget_state_history(thread_id="1", limit=1):
        assert snapshot.values["n"] == 2
    assert (await app.aget_state({"configurable": {"thread_id": "1"}})).next == ()
    await app.aupdate_state({"configurable": {"thread_id": "1"}}, {"n": 7}, "add")
    assert await app.abatch([{"n": 1}, {"n": 2}], [{"thread_id": "a"}, {"thread_id": "b"}]) == [{"n": 2}, {"n": 3}]


def main() -> None:
    saver = InMemorySaver()
    app = StateGraph(State).add_node(add).add_edge(START, "add").compile(saver, interrupt_before=["add"])
    app.invoke({"n": 1}, thread_id="1", durability=DURABILITY)
    app.update_state({"configurable": {"thread_id": "1"}}, {"n": 5}, as_node="__start__")
    app.invoke(None, {"configurable": {"thread_id": "1"}})
    history = list(app.get_state_history(thread_id="1"))
    config = app.fork(history[-1].config, branch="other")
    assert app.get_state(config).values["n"] == 1
    assert [entry.thread_id for entry in saver.threads()] == ["1"]
    plain = StateGraph(State).add_node(add).add_edge(START, "add").compile()
    results = plain.batch([{"n": 1}, {"n": 2}], return_exceptions=True)
    assert [result["n"] for result in results if not isinstance(result, Exception)] == [2, 3]
    asyncio.run(run("enqueue"))
