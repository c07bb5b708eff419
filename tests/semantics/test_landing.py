"""Results saved in groups while siblings still run, and when a task counts as finished (spec/graph.md, 7.3)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Instrument, Send, StateGraph, append
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


def fan_out(gate: threading.Event, ran: list[int]) -> StateGraph:
    """Build a graph with three tasks; the last one waits for the gate."""

    def work(n: int) -> dict[str, Any]:
        ran.append(n)
        if n == 3:
            assert gate.wait(600)
        return {"log": [n]}

    graph = StateGraph(State)
    graph.add_node("plan", lambda state: Command(goto=[Send("work", n) for n in (1, 2, 3)]), destinations=["work"])
    graph.add_node("work", work)
    return graph.add_edge(START, "plan").add_edge("work", END)


def wait_until(condition: Any) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "The condition never became true."
        time.sleep(0.01)


def saved_count(saver: Any) -> int:
    head = saver.load("t")
    return len(head.pending.completed) if head is not None else 0


def test_7_3_results_are_saved_while_siblings_still_run(driver: Any, saver: Any) -> None:
    gate, ran = threading.Event(), list[int]()
    app = fan_out(gate, ran).compile(saver)
    running = threading.Thread(target=lambda: driver.invoke(app, {}, thread_id="t"))
    running.start()
    wait_until(lambda: saved_count(saver) == 2)
    gate.set()
    running.join(600)
    assert app.get_state(thread_id="t").values == {"log": [1, 2, 3]}


def test_7_3_saved_results_are_not_recomputed(driver: Any, saver: Any) -> None:
    gate, ran = threading.Event(), list[int]()
    graph = fan_out(gate, ran)
    first_app = graph.compile(saver)
    running = threading.Thread(target=lambda: first_app.invoke({}, thread_id="t"), daemon=True)
    running.start()
    wait_until(lambda: saved_count(saver) == 2)
    copied = "copy"  # the state that a crash would leave
    saver.copy_thread("t", copied)
    gate.set()
    running.join(600)
    ran.clear()
    assert driver.invoke(graph.compile(saver), None, thread_id=copied) == {"log": [1, 2, 3]}
    assert ran == [3]


def test_7_3_a_short_superstep_writes_no_separate_results(driver: Any) -> None:
    class ResultRecorder(InMemorySaver):
        def save_results(self, *args: Any, **options: Any) -> None:
            written.append(args[2])
            super().save_results(*args, **options)

    written: list[Any] = []
    gate = threading.Event()
    gate.set()
    driver.invoke(fan_out(gate, []).compile(ResultRecorder()), {}, thread_id="t")
    assert [pending.completed for pending in written if pending.completed] == []


def test_7_3_with_durability_sync_a_task_is_reported_after_it_is_saved(driver: Any, saver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {"log": ["a"]}).add_node("b", lambda state: {"log": ["b"]})
    app = graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", END).compile(saver)
    seen: list[Any] = []
    for part in app.stream({}, thread_id="t", durability="sync"):
        seen.append((next(iter(part)), saver.load("t").checkpoint.values["log"]))
    assert [name for name, _ in seen] == ["a", "b"]
    assert all(name in saved for name, saved in seen)


def test_7_3_tasks_that_end_after_a_failure_are_not_reported(driver: Any) -> None:
    has_failed = threading.Event()

    class FailureListener(Instrument):
        def on_task_finished(self, event: Any) -> None:
            if event.node == "fragile":
                has_failed.set()

    def fragile(state: State) -> None:
        raise ValueError("fragile")

    def steady(state: State) -> State:
        assert has_failed.wait(600)
        return {"log": ["steady"]}

    graph = StateGraph(State).add_node(fragile).add_node(steady)
    graph.add_edge(START, "fragile").add_edge(START, "steady")
    app = graph.compile(InMemorySaver(), sibling_grace=0, instruments=[FailureListener()])
    seen: list[str] = []
    with pytest.raises(ValueError, match="fragile"):
        driver.stream(RecordingApp(app, seen), {}, thread_id="t", durability="sync")
    assert app.get_state(thread_id="t").tasks[1].result is None
    assert seen == []


class RecordingApp:
    """An app whose stream records its parts before it fails."""

    def __init__(self, app: Any, seen: list[str]) -> None:
        self._app = app
        self._seen = seen

    def stream(self, *args: Any, **options: Any) -> Any:
        for part in self._app.stream(*args, **options):
            self._seen.extend(part)
            yield part

    async def astream(self, *args: Any, **options: Any) -> Any:
        async for part in self._app.astream(*args, **options):
            self._seen.extend(part)
            yield part


def test_7_1_a_subgraph_with_memory_reads_state_that_is_still_being_saved(driver: Any, tmp_path: Path) -> None:
    class Inner(TypedDict, total=False):
        k: Annotated[int, lambda old, new: old + new]
        seen: int

    class Outer(TypedDict, total=False):
        seen: int

    inner = StateGraph(Inner).add_node("x", lambda s: {"k": 1}).add_node("y", lambda s: {"seen": s["k"]})
    inner.add_edge(START, "x").add_edge("x", "y")
    outer = StateGraph(Outer).add_node("o", inner.compile(), memory="thread").add_edge(START, "o")
    outer.add_conditional_edges("o", lambda s: "o" if s.get("seen", 0) < 20 else END, ["o", END])
    with SqliteSaver(tmp_path / "runs.db") as saver:
        assert driver.invoke(outer.compile(saver), {}, thread_id="t", durability="async") == {"seen": 20}
