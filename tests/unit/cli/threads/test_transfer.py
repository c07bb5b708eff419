"""A transferred thread is equal to the original: checkpoints, branches, questions, subgraphs and logs."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, StateGraph, interrupt
from statewright.channels import MISSING, Added
from statewright.checkpoint import BranchKey, Checkpoint, Commit, PrunePolicy
from statewright.cli.db import database
from statewright.cli.threads import transfer
from statewright.cli.threads.transfer import changed_fields, transfer_thread
from statewright.errors import CheckpointConflict
from statewright.futures import resolve
from statewright.ids import CheckpointId, new_checkpoint_id
from statewright.storage.sqlite import SqliteSaver

AT = datetime(2026, 1, 1, tzinfo=UTC)


class State(TypedDict, total=False):
    n: int
    notes: Annotated[list[str], operator.add]
    answer: str


def count(state: State) -> State:
    return {"n": state.get("n", 0) + 1, "notes": [f"note {state.get('n', 0)}"]}


def choose_next(state: State) -> str:
    return "count" if state["n"] % 7 else "inner"


def ask(state: State) -> State:
    return {"answer": interrupt("really?")}


def app(saver: Any) -> Any:
    inner = StateGraph(State, name="inner").add_node("before", count).add_node("ask", ask)
    inner.add_edge(START, "before").add_edge("before", "ask")
    graph = StateGraph(State, version="7").add_node("count", count).add_node("inner", inner.compile())
    graph.add_edge(START, "count").add_conditional_edges("count", choose_next, ["count", "inner"])
    return graph.compile(saver)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(tmp_path / "source.db") as saver:
        yield saver


@pytest.fixture(params=["sqlite", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with SqliteSaver(tmp_path / "target.db") if request.param == "sqlite" else InMemorySaver() as saver:
        yield saver


def contents_of(saver: Any, thread: str, namespaces: list[str]) -> dict[str, Any]:
    """Return the contents of a thread, without its id."""
    contents: dict[str, Any] = {}
    for namespace in namespaces:
        history = resolve(saver.history(thread, namespace=namespace))
        contents[f"history of {namespace}"] = {
            saved.id: replace(
                saved, branch_key=saved.branch_key._replace(thread_id=""), parent_id=_existing_parent(saved, history)
            )
            for saved in history
        }
        branches = resolve(saver.branches(thread, namespace=namespace))
        heads = {name: resolve(saver.load(thread, namespace=namespace, branch=name)).id for name in branches}
        contents[f"heads of {namespace}"] = heads
    events = resolve(saver.events(thread))
    contents["log"] = [(e.run_id, e.seq, e.kind, e.namespace, e.step, e.node, e.task_id, e.data, e.at) for e in events]
    return contents


def _existing_parent(checkpoint: Any, history: Any) -> Any:
    return checkpoint.parent_id if checkpoint.parent_id in {saved.id for saved in history} else None


def check_transfer(source: SqliteSaver, target: Any, thread: str = "t") -> int:
    namespaces = source.namespaces(thread)
    count = transfer_thread(source, thread, target, "new")
    assert contents_of(target, "new", namespaces) == contents_of(source, thread, namespaces)
    assert target.namespaces("new") == namespaces
    (entry,) = resolve(target.threads(prefix="new"))
    assert (entry.changed_at, entry.owner) == (resolve(source.threads(prefix=thread))[0].changed_at, None)
    return count


def waiting(saver: SqliteSaver) -> Any:
    graph = app(saver)
    graph.invoke({"n": 1}, thread_id="t", durability="sync")
    return graph


def test_a_thread_that_waits_inside_a_subgraph_can_be_resumed(source: SqliteSaver, target: Any) -> None:
    waiting(source)
    assert check_transfer(source, target) > 8
    before = app(source).get_state({"configurable": {"thread_id": "t"}}, subgraphs=True)
    after = app(target).get_state({"configurable": {"thread_id": "new"}}, subgraphs=True)
    assert after.interrupts == before.interrupts
    result = app(target).invoke(Command(resume="yes"), thread_id="new")
    assert result["answer"] == "yes"
    assert result["notes"] == app(source).invoke(Command(resume="yes"), thread_id="t")["notes"]


def test_the_log_of_completed_subgraphs_is_transferred(source: SqliteSaver, target: Any) -> None:
    waiting(source).invoke(Command(resume="yes"), thread_id="t")
    assert {event.namespace for event in resolve(source.events("t"))} != {""}
    check_transfer(source, target)


def test_branches_forks_and_updates_are_transferred(source: SqliteSaver, target: Any) -> None:
    graph = waiting(source)
    history = list(graph.get_state_history(thread_id="t"))
    graph.fork(history[3].config, branch="other")
    graph.fork(history[2].config)  # on its own branch
    graph.invoke(None, thread_id="t", branch="other")
    graph.update_state({"thread_id": "t", "branch": "other"}, {"n": 3}, as_node="count")
    graph.fork(history[-1].config, branch="from the beginning")
    check_transfer(source, target)


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_long_history_is_read_page_by_page(
    source: SqliteSaver, target: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAGE", size)
    monkeypatch.setattr(database, "PAGE", size)
    test_branches_forks_and_updates_are_transferred(source, target)


def test_a_pruned_thread_is_transferred_with_its_complete_log(source: SqliteSaver, target: Any) -> None:
    graph = waiting(source)
    graph.invoke(Command(resume="yes"), thread_id="t")
    graph.invoke({"n": 1}, thread_id="t")
    graph.fork({"configurable": {"thread_id": "t"}}, branch="other")
    resolve(source.prune(PrunePolicy(keep_last=1)))
    assert len({event.run_id for event in resolve(source.events("t"))}) > 2
    check_transfer(source, target)


def test_a_thread_whose_main_branch_begins_later_is_transferred(source: SqliteSaver, target: Any) -> None:
    graph = waiting(source)
    graph.fork({"configurable": {"thread_id": "t"}}, branch="other")
    graph.invoke(Command(resume="yes"), thread_id="t")
    resolve(source.prune(PrunePolicy(keep_last=1)))
    assert resolve(source.history("t"))[-1].branch_key.branch == "other"
    check_transfer(source, target)


def test_a_thread_without_a_main_branch_is_transferred(source: SqliteSaver, target: Any, tmp_path: Path) -> None:
    app(source).invoke({"n": 1}, thread_id="t", branch="other")
    check_transfer(source, target)
    with SqliteSaver(tmp_path / "second_target.db") as second_target:
        transfer_thread(target, "new", second_target, "t")
        assert contents_of(second_target, "t", [""]) == contents_of(source, "t", [""])


def test_removed_fields_stay_removed(source: SqliteSaver, target: Any) -> None:
    ids = [new_checkpoint_id() for _ in range(4)]
    states: list[dict[str, Any]] = [{"a": [1], "b": 1}, {"a": [1, 2]}, {"a": [3], "b": True}, {"b": 1}]
    for step, values in enumerate(states):
        _commit(source, ids, step, values, AT + timedelta(seconds=step))
    check_transfer(source, target)
    assert resolve(target.load("new")).checkpoint.values == {"b": 1}


def test_the_order_survives_a_clock_that_was_set_back(source: SqliteSaver, target: Any) -> None:
    ids = [new_checkpoint_id() for _ in range(5)]
    for step, seconds in enumerate((50, 40, 30, 20, 45)):
        _commit(source, ids, step, {"n": step}, AT + timedelta(seconds=seconds))
    check_transfer(source, target)
    assert resolve(target.load("new")).id == ids[-1]


def _commit(saver: Any, ids: list[CheckpointId], step: int, values: dict[str, Any], at: datetime) -> None:
    parent = ids[step - 1] if step else None
    before = resolve(saver.load("t", checkpoint_id=parent)).checkpoint.values if parent is not None else None
    removed = {name: MISSING for name in before or {} if name not in values}
    commit = Commit(
        branch_key=BranchKey("t"),
        expected=parent,
        parent_id=parent,
        checkpoint=Checkpoint(ids[step], step, values, ()),
        deltas={**values, **removed} if before is not None else None,
        source="loop" if step else "input",
        run_id="run",
        created_at=at,
    )
    resolve(saver.commit(commit))


def test_an_existing_thread_is_not_changed(source: SqliteSaver, target: Any) -> None:
    waiting(source)
    app(target).invoke({"n": 6}, thread_id="new")
    before = resolve(target.load("new"))
    with pytest.raises(CheckpointConflict):
        transfer_thread(source, "t", target, "new")
    assert resolve(target.load("new")) == before


def test_a_failed_transfer_leaves_no_thread(source: SqliteSaver, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(source)

    def fail(*_: Any) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(transfer, "_restore_changed_time", fail)
    with pytest.raises(RuntimeError, match="no more"):
        transfer_thread(source, "t", target, "new")
    assert resolve(target.threads()) == []


def test_a_long_thread_needs_no_more_space_than_the_original(source: SqliteSaver, tmp_path: Path) -> None:
    def grow(state: State) -> State:
        return {"n": state.get("n", 0) + 1, "notes": ["x" * 50]}

    graph = StateGraph(State).add_node("grow", grow).add_edge(START, "grow")
    graph.add_conditional_edges("grow", lambda state: "grow" if state["n"] < 700 else "__end__")
    graph.compile(source).invoke({}, thread_id="t")
    with SqliteSaver(tmp_path / "copy.db") as copy:
        transfer_thread(source, "t", copy, "t")
        assert contents_of(copy, "t", [""]) == contents_of(source, "t", [""])
    source.close()
    assert (tmp_path / "copy.db").stat().st_size < 1.5 * (tmp_path / "source.db").stat().st_size


def test_changes_are_detected_by_identity() -> None:
    item, same = [1], object()
    before = {"grown": [item], "other": [item], "same": same, "gone": 1, "kind": 1}
    after = {"grown": [item, 2], "other": [[1], 2], "same": same, "kind": True}
    changes = changed_fields(before, after)
    assert changes == {"grown": Added([2]), "other": [[1], 2], "kind": True, "gone": MISSING}
