"""Calls of subgraphs forgotten: which lines go with them, and that nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Pending
from statewright.storage.checkpoints.removal import drop_calls
from statewright.storage.sqlite.database import SqliteDatabase

LINE = BranchKey("thread")
INSIDE = BranchKey("thread", "node:1")
FORK = BranchKey("thread", "node:1", "fork")
BY_PLACE = ("records", "segments", "jumps", "pending")


def drop(scribe: Any, *namespaces: str, thread: int = 1, branch: str = "main") -> None:
    database = scribe.database
    given = (database, thread, branch, namespaces)
    database.write(lambda connection: drop_calls(connection, *given))
    database.head_cache.forget()


def fill(scribe: Any, *lines: BranchKey) -> None:
    """Give each line something in every table."""
    for line in lines:
        first = scribe.add({"words": Added([1])}, line=line, logs=1)
        for n in range(4):
            scribe.add({"words": Added([n])}, line=line, logs=2)
        scribe.add({"n": 1}, line=line, after=first, logs=1)
        scribe.note(scribe.heads[line], Pending(paused=True), line=line)
        scribe.compact(line)


def of_line(rows: dict[str, list[Any]], line: int) -> dict[str, list[Any]]:
    """What is stored of a line."""
    found = {table: [row for row in rows[table] if SqliteDatabase.row_ids.line(row[0]) == line] for table in BY_PLACE}
    found |= {"grown": [row for row in rows["grown"] if row[0] == line]}
    return found | {"lines": [row for row in rows["lines"] if row[0] == line]}


def lines(scribe: Any) -> list[tuple[str, str]]:
    """The namespaces and branches that are there."""
    return [(namespace, branch) for _, _, namespace, branch in scribe.rows()["lines"]]


def namespaces(scribe: Any) -> list[str]:
    return [namespace for namespace, _ in lines(scribe)]


# -- which go


def test_a_namespace_goes_with_those_inside_it(scribe: Any) -> None:
    for name in ["", "a", "a:1", "a|b", "a:1|b:2", "ab", "b|a", "a.", "A"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a")
    assert namespaces(scribe) == ["", "ab", "b|a", "a.", "A"]


def test_only_what_is_inside_a_call_goes_with_it(scribe: Any) -> None:
    for name in ["a", "a:1", "a:1|b:2", "a:12", "a:2"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a:1")
    assert namespaces(scribe) == ["a", "a:12", "a:2"]


def test_several_calls_may_go_at_once(scribe: Any) -> None:
    for name in ["a:1", "a:2", "a:3", "a:3|b:1"]:
        scribe.add({}, line=BranchKey("thread", name))
    drop(scribe, "a:1", "a:3")
    assert namespaces(scribe) == ["a:2"]


def test_calls_of_another_branch_stay(scribe: Any) -> None:
    for branch in ("main", "fork"):
        for namespace in ("", "node:1", "node:1|in:2"):
            scribe.add({}, line=BranchKey("thread", namespace, branch))
    drop(scribe, "node:1", branch="fork")
    assert lines(scribe) == [("", "main"), ("node:1", "main"), ("node:1|in:2", "main"), ("", "fork")]


def test_calls_of_another_thread_stay(scribe: Any) -> None:
    scribe.add({}, line=INSIDE)
    scribe.add({}, line=INSIDE._replace(thread_id="second"))
    drop(scribe, "node:1", thread=2)
    assert scribe.rows()["lines"] == [(1, 1, "node:1", "main")]


@pytest.mark.parametrize("name", ["", "no"])
def test_the_runs_own_graph_never_goes(scribe: Any, name: str) -> None:
    fill(scribe, LINE, INSIDE)
    before = scribe.rows()
    drop(scribe, name)
    assert scribe.rows() == before


def test_nothing_is_left_of_a_call_and_nothing_else_goes(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, BranchKey("second", "node:1"))
    before = scribe.rows()
    assert all(of_line(before, 2).values())
    drop(scribe, "node:1")
    after = scribe.rows()
    assert not any(of_line(after, 2).values())
    for line in (1, 3):
        assert of_line(after, line) == of_line(before, line)
    assert (after["runs"], after["threads"]) == (before["runs"], before["threads"])


# -- what stays of them


@pytest.mark.parametrize("folds", [False, True])
def test_what_was_done_in_a_call_stays_in_the_log(scribe: Any, folds: bool) -> None:
    for n in range(5):
        scribe.add({}, line=INSIDE, logs=n % 3)
        scribe.add({}, line=LINE, logs=1, run_id="run" if n % 2 else "other")
    if folds:
        scribe.compact(INSIDE)
    before = scribe.numbered(), scribe.numbered("other")
    drop(scribe, "node:1")
    assert (scribe.numbered(), scribe.numbered("other")) == before
    scribe.add({}, logs=1)
    assert [event.seq for event in scribe.numbered()] == list(range(1, len(before[0]) + 2))


@pytest.mark.parametrize("folds", [(), (INSIDE,), (FORK,), (INSIDE, FORK)])
def test_what_forked_from_a_call_is_kept_whole(scribe: Any, limit: Any, folds: tuple[BranchKey, ...]) -> None:
    limit(LONGEST=3)
    ids = [scribe.add({"n": n, "words": Added([n])}, line=INSIDE) for n in range(4)]
    forked = [scribe.add({"words": Added(["f"])}, line=FORK, after=ids[2])]
    forked += [scribe.add({"words": Added([n]), "f": n}, line=FORK) for n in range(4)]
    for line in folds:
        scribe.fold_all(line)
    drop(scribe, "node:1")
    assert [scribe.place(one) for one in ids] == [None] * 4
    assert scribe.loaded(forked[0]) == replace(scribe.written[forked[0]], parent_id=None)
    assert [scribe.loaded(one) for one in forked[1:]] == [scribe.written[one] for one in forked[1:]]
    scribe.add({"words": Added(["later"])}, line=FORK)
    scribe.fold_all(FORK)
    assert scribe.loaded(scribe.heads[FORK]) == scribe.written[scribe.heads[FORK]]
