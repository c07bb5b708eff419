"""Deleting lines and threads: no row of them is left, other rows are kept, and logs are moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Pending
from statewright.storage.checkpoints.removal import delete_line, delete_thread, keep_log
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
INSIDE = BranchKey("thread", "node:1")
KEYED_BY_ROW_ID = ("records", "segments", "jumps", "pending")


def fill(scribe: Any, *lines: BranchKey, run: str = "run") -> None:
    """Write rows of each line to every table."""
    for line in lines:
        first = scribe.add({"words": Added([1])}, line=line, run_id=run, logs=1)
        for n in range(4):
            scribe.add({"words": Added([n])}, line=line, run_id=run, logs=2)
        scribe.add({"n": 1}, line=line, after=first, run_id=run, logs=1)
        scribe.note(scribe.heads[line], Pending(paused=True), line=line, log=scribe.log(run, 1))
        scribe.compact(line)


def remove_in_transaction(scribe: Any, remove: Callable[..., None], *arguments: Any) -> None:
    """Call a function that deletes rows in a transaction."""
    database = scribe.database
    database.write(lambda connection: remove(connection, database, *arguments))
    database.head_cache.forget()


def rows_of_line(rows: dict[str, list[Any]], line: int) -> dict[str, list[Any]]:
    """Return the rows that belong to a line."""
    selected = {table: [row for row in rows[table] if IDS.line(row[0]) == line] for table in KEYED_BY_ROW_ID}
    selected |= {"grown": [row for row in rows["grown"] if row[0] == line]}
    return selected | {"lines": [row for row in rows["lines"] if row[0] == line]}


# -- logs


def test_keeping_a_log_copies_it_out_of_the_records(scribe: Any) -> None:
    for run in ("run", "other", "run", "run"):
        scribe.add({}, run_id=run, logs=2)
    before = scribe.numbered_events(), scribe.numbered_events("other")
    remove_in_transaction(scribe, keep_log, 1, 2)
    assert [row[0] for row in scribe.rows()["events"]] == [
        IDS.row_id(1, 1),
        IDS.row_id(2, 1),
    ]
    scribe.change("DELETE FROM records WHERE place <= ?", IDS.row_id(1, 2))
    assert (scribe.numbered_events(), scribe.numbered_events("other")) == before


def test_events_keep_their_times_when_the_log_is_moved(scribe: Any) -> None:
    for _ in range(3):
        scribe.add({}, logs=1)
    before = [event.at for event in scribe.numbered_events()]
    remove_in_transaction(scribe, keep_log, 1)
    scribe.change("UPDATE records SET events = NULL")
    assert [event.at for event in scribe.numbered_events()] == before
    assert len(set(before)) == 3


def test_keeping_an_empty_log_writes_nothing(scribe: Any) -> None:
    scribe.count(2)
    remove_in_transaction(scribe, keep_log, 1)
    assert scribe.counts("events") == (0,)


# -- lines and threads


def test_deleting_a_line_removes_all_its_rows_and_no_others(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, LINE._replace(branch="fork"))
    before = scribe.rows()
    remove_in_transaction(scribe, delete_line, 2)
    after = scribe.rows()
    assert not any(rows_of_line(after, 2).values())
    for line in (1, 3):
        assert rows_of_line(after, line) == rows_of_line(before, line)
    assert after["events"] == before["events"]


def test_deleting_a_thread_removes_all_its_rows(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, LINE._replace(branch="fork"))
    fill(scribe, LINE, run="other")
    assert all(scribe.rows().values())
    remove_in_transaction(scribe, delete_thread, 1)
    assert not any(scribe.rows().values())


def test_deleting_a_thread_keeps_other_threads(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE)
    before = scribe.rows()
    fill(scribe, BranchKey("second"), BranchKey("second", "node:1"))
    remove_in_transaction(scribe, delete_thread, 2)
    assert scribe.rows() == before


def test_a_deleted_thread_can_be_started_again(scribe: Any) -> None:
    fill(scribe, LINE)
    remove_in_transaction(scribe, delete_thread, 1)
    scribe.heads.clear()
    scribe.written.clear()
    again = scribe.add({"n": 1}, logs=1)
    assert scribe.loaded(again) == scribe.written[again]
    assert [event.seq for event in scribe.numbered_events()] == [1]


def test_deleting_a_missing_thread_or_line_does_nothing(scribe: Any) -> None:
    fill(scribe, LINE)
    before = scribe.rows()
    remove_in_transaction(scribe, delete_thread, 9)
    remove_in_transaction(scribe, delete_line, 9)
    assert scribe.rows() == before
