"""Lines and threads forgotten: nothing of them is left in any table, and nothing else goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Pending
from statewright.storage.checkpoints.removal import delete_line, delete_thread, keep_log
from statewright.storage.sqlite.database import SqliteDatabase

LINE = BranchKey("thread")
INSIDE = BranchKey("thread", "node:1")
BY_PLACE = ("records", "segments", "jumps", "pending")


def fill(scribe: Any, *lines: BranchKey, run: str = "run") -> None:
    """Give each line something in every table."""
    for line in lines:
        first = scribe.add({"words": Added([1])}, line=line, run_id=run, logs=1)
        for n in range(4):
            scribe.add({"words": Added([n])}, line=line, run_id=run, logs=2)
        scribe.add({"n": 1}, line=line, after=first, run_id=run, logs=1)
        scribe.note(scribe.heads[line], Pending(paused=True), line=line, log=scribe.log(run, 1))
        scribe.compact(line)


def write(scribe: Any, remove: Callable[..., None], *arguments: Any) -> None:
    """Remove something, within a transaction."""
    database = scribe.database
    database.write(lambda connection: remove(connection, database, *arguments))
    database.head_cache.forget()


def of_line(rows: dict[str, list[Any]], line: int) -> dict[str, list[Any]]:
    """What is stored of a line."""
    found = {table: [row for row in rows[table] if SqliteDatabase.row_ids.line(row[0]) == line] for table in BY_PLACE}
    found |= {"grown": [row for row in rows["grown"] if row[0] == line]}
    return found | {"lines": [row for row in rows["lines"] if row[0] == line]}


# -- logs


def test_the_log_of_some_records_is_kept_apart_from_them(scribe: Any) -> None:
    for run in ("run", "other", "run", "run"):
        scribe.add({}, run_id=run, logs=2)
    before = scribe.numbered(), scribe.numbered("other")
    write(scribe, keep_log, 1, 2)
    assert [row[0] for row in scribe.rows()["events"]] == [
        SqliteDatabase.row_ids.row_id(1, 1),
        SqliteDatabase.row_ids.row_id(2, 1),
    ]
    scribe.change("DELETE FROM records WHERE place <= ?", SqliteDatabase.row_ids.row_id(1, 2))
    assert (scribe.numbered(), scribe.numbered("other")) == before


def test_a_log_that_is_kept_tells_the_times_of_each_of_its_parts(scribe: Any) -> None:
    for _ in range(3):
        scribe.add({}, logs=1)
    before = [event.at for event in scribe.numbered()]
    write(scribe, keep_log, 1)
    scribe.change("UPDATE records SET events = NULL")
    assert [event.at for event in scribe.numbered()] == before
    assert len(set(before)) == 3


def test_where_nothing_was_told_no_log_is_kept(scribe: Any) -> None:
    scribe.count(2)
    write(scribe, keep_log, 1)
    assert scribe.counts("events") == (0,)


# -- lines and threads


def test_nothing_is_left_of_a_line_and_nothing_else_goes(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, LINE._replace(branch="fork"))
    before = scribe.rows()
    write(scribe, delete_line, 2)
    after = scribe.rows()
    assert not any(of_line(after, 2).values())
    for line in (1, 3):
        assert of_line(after, line) == of_line(before, line)
    assert after["events"] == before["events"]


def test_nothing_is_left_of_a_thread(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE, LINE._replace(branch="fork"))
    fill(scribe, LINE, run="other")
    assert all(scribe.rows().values())
    write(scribe, delete_thread, 1)
    assert not any(scribe.rows().values())


def test_a_thread_goes_alone(scribe: Any) -> None:
    fill(scribe, LINE, INSIDE)
    before = scribe.rows()
    fill(scribe, BranchKey("second"), BranchKey("second", "node:1"))
    write(scribe, delete_thread, 2)
    assert scribe.rows() == before


def test_a_thread_that_went_begins_anew(scribe: Any) -> None:
    fill(scribe, LINE)
    write(scribe, delete_thread, 1)
    scribe.heads.clear()
    scribe.written.clear()
    again = scribe.add({"n": 1}, logs=1)
    assert scribe.loaded(again) == scribe.written[again]
    assert [event.seq for event in scribe.numbered()] == [1]


def test_what_is_no_thread_is_no_trouble(scribe: Any) -> None:
    fill(scribe, LINE)
    before = scribe.rows()
    write(scribe, delete_thread, 9)
    write(scribe, delete_line, 9)
    assert scribe.rows() == before
