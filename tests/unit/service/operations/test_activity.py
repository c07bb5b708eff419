"""What a run is doing, from its record and its waits, and what its worker writes for that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest

from statewright import Send, StateGraph
from statewright.checkpoint import InMemorySaver
from statewright.runs import Advance, Change, InMemoryLedger, Run, RunStatus, Wait
from statewright.service import Catalog, Service, StartRun
from statewright.service.operations.activity import MAX_TEXT, describe_activity, describe_runs, summarize

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORKSPACE = "ws_default"


def run_with(status: RunStatus, **values: Any) -> Run:
    values = {"id": "r", "workspace_id": "w", "graph": "g", "thread_id": "t", "current_step": "charge", **values}
    return Run(status=status, created_at=NOW, updated_at=NOW, **values)


def wait_for(kind: str, **values: Any) -> Wait:
    values = {"id": "w1", "step_name": "ask", "interrupt_id": "i", "step_id": "s", "workspace_id": "w", **values}
    return Wait(run_id="r", kind=kind, created_at=NOW, **values)


@pytest.mark.parametrize(
    ("status", "values", "kind", "text"),
    [
        (RunStatus.PENDING, {}, "queued", "Waits for a worker"),
        (RunStatus.PENDING, {"due_at": NOW + timedelta(hours=1)}, "scheduled", "Starts later"),
        (RunStatus.RUNNING, {}, "working", "charge"),
        (RunStatus.RUNNING, {"progress": {"done": 612, "total": 1000}}, "working", "612 / 1000 charge"),
        (RunStatus.PAUSED, {}, "paused", "Paused before charge"),
        (RunStatus.PAUSED, {"error": {"message": "The limit of the day."}}, "paused", "The limit of the day."),
        (RunStatus.FAILED, {"error": {"message": "no luck"}}, "failed", "charge failed: no luck"),
        (
            RunStatus.FAILED,
            {"error": {"message": "no luck", "step": "pay"}, "progress": {"failedAttempt": 5, "maxAttempts": 5}},
            "failed",
            "pay failed 5 of 5: no luck",
        ),
        (RunStatus.CANCELLED, {"error": {"message": "by Jane"}}, "cancelled", "by Jane"),
        (RunStatus.COMPLETED, {}, "completed", "Completed"),
        (RunStatus.COMPLETED, {"output": {"answer": "It is\nblue."}}, "completed", "It is blue."),
        (RunStatus.WAITING, {}, "waiting", "Waits"),
    ],
)
def test_each_status_has_a_sentence(status: RunStatus, values: dict[str, Any], kind: str, text: str) -> None:
    activity = describe_activity(run_with(status, **values), (), NOW)
    assert (activity.kind, activity.text) == (kind, text)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"note": None, "items": [], "name": ""}, ""),
        ("done", "done"),
        (7, "7"),
        (False, "false"),
        ([1, 2], "2 items"),
        ({"id": 3, "summary": "All paid", "answer": "x"}, "All paid"),
        ({"result": {"a": 1}}, "result: 1 field"),
        ({"answer": " ", "count": 2}, "answer:  , count: 2"),
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}, "hello"),
        ({"messages": [{"role": "assistant", "content": [{"type": "text"}]}]}, "messages: 1 item"),
        ({"a": 1, "b": "two", "c": [3], "d": 4}, "a: 1, b: two, c: 1 item, ..."),
    ],
)
def test_a_result_has_a_gist(output: Any, text: str) -> None:
    assert summarize(output) == text


def test_a_long_result_is_cut_without_being_converted() -> None:
    activity = describe_activity(run_with(RunStatus.COMPLETED, output={"answer": "word " * 1000}))
    assert len(activity.text) == MAX_TEXT
    assert summarize({"rows": [[object()] * 1000] * 1000}) == "rows: 1000 items"


def test_a_run_without_a_result_says_in_how_many_steps_it_has_completed() -> None:
    graph = StateGraph(State)
    for name, after in (("one", "__start__"), ("two", "one"), ("three", "two")):
        graph.add_node(name, lambda state: {}).add_edge(after, name)

    async def run() -> None:
        catalog = Catalog()
        catalog.serve("g", graph)
        async with Service(catalog) as service:
            started = (await service.start_and_wait(WORKSPACE, StartRun(graph="g", input={}), 30)).run
            (activity,) = (await service.activities([started])).values()
            assert activity.text == "Completed in 3 steps"
            long = replace(started, last_event=100_000)
            (activity,) = (await service.activities([long])).values()
            assert activity.text == "Completed"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wait", "kind", "text"),
    [
        (wait_for("question", value="Which one?"), "question", "Which one?"),
        (wait_for("question", value={"x": 1, "title": "Pick"}), "question", "Pick"),
        (wait_for("question", value={"x": [1]}), "question", '{"x": [1]}'),
        (wait_for("question", value={"type": "approval", "prompt": "Send it?"}), "approval", "Send it?"),
        (wait_for("timer"), "timer", "ask waits for its time"),
        (wait_for("event", event="paid"), "event", "Waits for paid"),
        (wait_for("event", event="__run_ended:run_2"), "child", "ask waits for run run_2"),
    ],
)
def test_each_kind_of_wait_has_a_sentence(wait: Wait, kind: str, text: str) -> None:
    activity = describe_activity(run_with(RunStatus.WAITING), [wait], NOW)
    assert (activity.kind, activity.text, activity.wait_count) == (kind, text, 1)
    assert (activity.wait_id is None) == (kind in ("timer", "child"))


def test_what_a_person_can_answer_comes_first_and_long_texts_are_cut() -> None:
    waits = [wait_for("timer"), wait_for("question", id="w2", value="why?\n" * 200)]
    activity = describe_activity(run_with(RunStatus.WAITING), waits, NOW)
    assert (activity.kind, activity.wait_id, activity.wait_count) == ("question", "w2", 2)
    assert len(activity.text) == MAX_TEXT
    assert "\n" not in activity.text


def test_a_page_of_runs_costs_at_most_two_queries() -> None:
    class CountingLedger(InMemoryLedger):
        queries = 0

        def find(self, *args: Any, **options: Any) -> Any:
            self.queries += 1
            return super().find(*args, **options)

        def groups(self, *args: Any, **options: Any) -> Any:
            before, groups = self.queries, super().groups(*args, **options)
            self.queries = before + 1  # the one in memory calls `find` in turn
            return groups

    ledger = CountingLedger()
    runs = [run_with(status, id=f"{status}{number}") for status in RunStatus for number in range(10)]
    assert len(asyncio.run(describe_runs(ledger, runs, NOW))) == len(runs)
    assert ledger.queries == 2


class State(TypedDict, total=False):
    count: int


class RecordingLedger(InMemoryLedger):
    """A ledger that keeps the progress that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Any] = []

    def write(self, changes: Sequence[Change]) -> None:
        super().write(changes)
        advances = (change for change in changes if isinstance(change, Advance))
        self.written += [advance.values["progress"] for advance in advances if "progress" in advance.values]


def progress_of(graph: StateGraph) -> list[Any]:
    """Run a graph as a service does, and return what was written about its progress."""

    async def run() -> list[Any]:
        catalog, ledger = Catalog(), RecordingLedger()
        catalog.serve("g", graph)
        async with Service(catalog, ledger=ledger, saver=InMemorySaver()) as service:
            started = await service.start_and_wait(WORKSPACE, StartRun(graph="g", input={}), 30)
            assert started.run.status is RunStatus.COMPLETED
        return ledger.written

    return asyncio.run(run())


def test_a_run_of_single_steps_writes_nothing_about_its_progress() -> None:
    graph = StateGraph(State)
    for name, after in (("one", "__start__"), ("two", "one"), ("three", "two")):
        graph.add_node(name, lambda state: {}).add_edge(after, name)
    assert progress_of(graph) == []


def test_a_fan_out_writes_its_progress_and_removes_it() -> None:
    graph = StateGraph(State).add_node("item", lambda item: {}).add_node("join", lambda state: {})
    graph.add_conditional_edges("__start__", lambda _: [Send("item", number) for number in range(4)], ["item"])
    graph.add_edge("item", "join")
    written = progress_of(graph)
    assert written[0] == {"done": 0, "total": 4}
    assert written[-1] is None
    assert all(progress["total"] == 4 for progress in written[:-1])
