"""Dropping the namespaces of subgraph calls: which lines are deleted, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Pending
from statewright.storage.checkpoints.removal import drop_calls
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
INSIDE = BranchKey("thread", "node:1")
FORK = BranchKey("thread", "node:1", "fork")
KEYED_BY_ROW_ID = ("records", "segments", "jumps", "pending")


def drop(scribe: Any, *namespaces: str, thread: int = 1, branch: str = "main") -> None:
    database = scribe.database
    arguments = (database, thread, branch, namespaces)
    database.write(lambda connection: drop_calls(connection, *arguments))
    database.head_cache.forget()


def fill(scribe: Any, *lines: BranchKey) -> None:
    """Write rows of each line to every table."""
    for line in lines:
        first = scribe.add({"words": Added([1])}, line=line, logs=1)
        for n in range(4):
            scribe.add({"words": Added([n])}, line=line, logs=2)
        scribe.add({"n": 1}, line=line, after=first, logs=1)
        scribe.note(scribe.heads[line], Pending(paused=True), line=line)
        scribe.compact(line)


def rows_of_line(rows: dict[str, list[Any]], line: int) -> dict[str, list[Any]]:
    """Return the rows that belong to a line."""
    selected = {table: [row for row in rows[table] if IDS.line(row[0]) == line] for table in KEYED_BY_ROW_ID}
    selected |= {"grown": [row for row in rows["grown"] if row[0] == line]}
    return selected | {"lines": [row for row in rows["lines"] if row[0] == line]}


def lines(scribe: Any) -> list[tuple[str, str]]:
    """Return the stored namespaces and branches."""
    return [(namespace, branch) for _, _, namespace, branch in scribe.rows()["lines"]]


def namespaces(scribe: Any) -> list[str]:
    return [namespace for namespace, _ in lines(scribe)]


# -- what is deleted


def test_dropping_a_namespace_drops_its_nested_namespaces(scribe: Any) -> None:
    for name in ["", "a", "a:1", "a|b", "a:1|b:2", "ab", "b|a", "a.", "A"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a")
    assert namespaces(scribe) == ["", "ab", "b|a", "a.", "A"]


def test_dropping_a_call_keeps_other_calls_of_the_same_node(scribe: Any) -> None:
    for name in ["a", "a:1", "a:1|b:2", "a:12", "a:2"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a:1")
    assert namespaces(scribe) == ["a", "a:12", "a:2"]


def test_several_calls_can_be_dropped_at_once(scribe: Any) -> None:
    for name in ["a:1", "a:2", "a:3", "a:3|b:1"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a:1", "a:3")
    assert namespaces(scribe) == ["a:2"]


def test_calls_of_another_branch_are_kept(scribe: Any) -> None:
    for branch in ("main", "fork"):
        for namespace in ("", "node:1", "node:1|in:2"):
            scribe.add({}, line=BranchKey("thread", namespace, branch))
    drop(scribe, "node:1", branch="fork")
    assert lines(scribe) == [("", "main"), ("node:1", "main"), ("node:1|in:2", "main"), ("", "fork")]


def test_calls_of_another_thread_are_kept(scribe: Any) -> None:
    scribe.add({}, line=INSIDE)
    scribe.add({}, line=INSIDE._replace(thread_id="second"))
    drop(scribe, "node:1", thread=2)
    assert scribe.rows()["lines"] == [(1, 1, "node:1", "main")]


@pytest.mark.parametrize("name", ["", "no"])
def test_the_root_namespace_is_never_dropped(scribe: Any, name: str) -> None:
    fill(scribe, LINE, INSIDE)
    before = scribe.rows()
    drop(scribe, name)
    assert scribe.rows() == before


def test_dropping_a_call_deletes_all_its_rows_and_no_others(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, BranchKey("second", "node:1"))
    before = scribe.rows()
    assert all(rows_of_line(before, 2).values())
    drop(scribe, "node:1")
    after = scribe.rows()
    assert not any(rows_of_line(after, 2).values())
    for line in (1, 3):
        assert rows_of_line(after, line) == rows_of_line(before, line)
    assert (after["runs"], after["threads"]) == (before["runs"], before["threads"])


# -- what is kept


@pytest.mark.parametrize("compacted", [False, True])
def test_the_log_keeps_the_events_of_a_dropped_call(scribe: Any, compacted: bool) -> None:
    for n in range(5):
        scribe.add({}, line=INSIDE, logs=n % 3)
        scribe.add({}, line=LINE, logs=1, run_id="run" if n % 2 else "other")
    if compacted:
        scribe.compact(INSIDE)
    before = scribe.numbered_events(), scribe.numbered_events("other")
    drop(scribe, "node:1")
    assert (scribe.numbered_events(), scribe.numbered_events("other")) == before
    scribe.add({}, logs=1)
    assert [event.seq for event in scribe.numbered_events()] == list(range(1, len(before[0]) + 2))


@pytest.mark.parametrize("compacted", [(), (INSIDE,), (FORK,), (INSIDE, FORK)])
def test_a_fork_of_a_dropped_call_keeps_its_state(scribe: Any, limit: Any, compacted: tuple[BranchKey, ...]) -> None:
    limit(LONGEST=3)
    ids = [scribe.add({"n": n, "words": Added([n])}, line=INSIDE) for n in range(4)]
    forked = [scribe.add({"words": Added(["f"])}, line=FORK, after=ids[2])]
    forked += [scribe.add({"words": Added([n]), "f": n}, line=FORK) for n in range(4)]
    for line in compacted:
        scribe.compact_all(line)
    drop(scribe, "node:1")
    assert [scribe.row_id(checkpoint_id) for checkpoint_id in ids] == [None] * 4
    assert scribe.loaded(forked[0]) == replace(scribe.written[forked[0]], parent_id=None)
    assert [scribe.loaded(checkpoint_id) for checkpoint_id in forked[1:]] == [
        scribe.written[checkpoint_id] for checkpoint_id in forked[1:]
    ]
    scribe.add({"words": Added(["later"])}, line=FORK)
    scribe.compact_all(FORK)
    assert scribe.loaded(scribe.heads[FORK]) == scribe.written[scribe.heads[FORK]]
