"""Row ids of checkpoints, the path to a checkpoint, and the search of lines and checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.checkpoint import BranchKey
from statewright.storage.checkpoints.lines import LineReader
from statewright.storage.row_ids import Interval
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

MAIN = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
LAST_LINE = 2**31 - 1


def path_to(database: SqliteDatabase, row_id: int) -> list[Interval]:
    with database.read() as connection:
        return list(LineReader(connection, database).path_to(row_id))


def find(database: SqliteDatabase, line: int, checkpoint_id: str) -> int | None:
    with database.read() as connection:
        return LineReader(connection, database).find_checkpoint(line, checkpoint_id)


def head(database: SqliteDatabase, line: int) -> int | None:
    with database.read() as connection:
        return LineReader(connection, database).head_of(line)


# -- numbers


@pytest.mark.parametrize("line", [1, 2, LAST_LINE])
@pytest.mark.parametrize("number", [0, 1, IDS.last_number])
def test_a_row_id_contains_the_line_and_the_number(line: int, number: int) -> None:
    row_id = IDS.row_id(line, number)
    assert (IDS.line(row_id), IDS.number(row_id)) == (line, number)


def test_row_ids_of_a_line_precede_those_of_the_next_line() -> None:
    assert IDS.row_id(1, IDS.last_number) + 1 == IDS.row_id(2, 0)


def test_the_largest_row_id_fits_into_a_row(database: SqliteDatabase) -> None:
    last = IDS.row_id(LAST_LINE, IDS.last_number)
    database.write(lambda connection: connection.execute("INSERT INTO jumps VALUES (?, 1)", (last,)))
    assert path_to(database, last) == [
        Interval(LAST_LINE, IDS.last_number, IDS.last_number),
        Interval(0, 0, 1),
    ]


def test_an_interval_has_the_row_ids_of_its_ends() -> None:
    assert IDS.ends(Interval(3, 4, 5)) == (
        IDS.row_id(3, 4),
        IDS.row_id(3, 5),
    )


# -- paths


def test_a_path_without_jumps_is_the_line_from_its_beginning(database: SqliteDatabase) -> None:
    assert path_to(database, IDS.row_id(7, 5)) == [Interval(7, 0, 5)]


def test_the_path_to_a_fork_of_a_fork_includes_both_origins(scribe: Any) -> None:
    main = scribe.count(4)
    forked = [scribe.add({}, line=FORK, after=main[1]), *scribe.count(2, FORK)]
    again = scribe.add({}, line=BranchKey("thread", "", "again"), after=forked[1])
    assert path_to(scribe.database, scribe.row_id(again)) == [Interval(3, 0, 0), Interval(2, 0, 1), Interval(1, 0, 1)]
    assert path_to(scribe.database, scribe.row_id(main[3])) == [Interval(1, 0, 3)]


def test_a_path_skips_the_checkpoints_before_a_jump_back(scribe: Any) -> None:
    ids = scribe.count(4)
    back = scribe.add({}, after=ids[1])
    (last,) = scribe.count(1)
    assert path_to(scribe.database, scribe.row_id(last)) == [Interval(1, 4, 5), Interval(1, 0, 1)]
    assert path_to(scribe.database, scribe.row_id(back)) == [Interval(1, 4, 4), Interval(1, 0, 1)]
    assert path_to(scribe.database, scribe.row_id(ids[3])) == [Interval(1, 0, 3)]


def test_a_path_begins_at_a_checkpoint_without_a_parent(database: SqliteDatabase) -> None:
    jump = (IDS.row_id(1, 5), None)
    database.write(lambda connection: connection.execute("INSERT INTO jumps VALUES (?, ?)", jump))
    assert path_to(database, IDS.row_id(1, 8)) == [Interval(1, 5, 8)]
    assert path_to(database, IDS.row_id(1, 5)) == [Interval(1, 5, 5)]


def test_a_path_ignores_jumps_of_adjacent_lines(database: SqliteDatabase) -> None:
    for line in (1, 3):
        for number in (0, 2, IDS.last_number):
            jump = (IDS.row_id(line, number), IDS.row_id(9, 9))
            database.write(lambda connection, jump=jump: connection.execute("INSERT INTO jumps VALUES (?, ?)", jump))
    assert path_to(database, IDS.row_id(2, 5)) == [Interval(2, 0, 5)]


# -- lines


def test_a_line_is_found_by_thread_namespace_and_branch(scribe: Any) -> None:
    lines = [MAIN, FORK, BranchKey("thread", "in"), BranchKey("other")]
    for line in lines:
        scribe.add({}, line=line)
    with scribe.database.read() as connection:
        reader = LineReader(connection, scribe.database)
        assert [reader.find_line("default", line) for line in lines] == [1, 2, 3, 4]
        unknown = [
            BranchKey("no"),
            BranchKey("thread", "no"),
            BranchKey("thread", "", "no"),
            BranchKey("other", "in"),
            BranchKey("THREAD"),
        ]
        assert [reader.find_line("default", line) for line in unknown] == [None] * 5


def test_lines_of_a_namespace_are_listed_in_order_of_creation(scribe: Any) -> None:
    for namespace, branch in [("", "z"), ("in", "b"), ("", "a"), ("in", "a"), ("", "m")]:
        scribe.add({}, line=BranchKey("thread", namespace, branch))
    scribe.add({}, line=BranchKey("other"))
    with scribe.database.read() as connection:
        reader = LineReader(connection, scribe.database)
        assert reader.lines_of("default", "thread", "") == [(1, "z"), (3, "a"), (5, "m")]
        assert reader.lines_of("default", "thread", "in") == [(2, "b"), (4, "a")]
        assert reader.lines_of("default", "thread", "no") == []


def test_the_head_of_a_line_is_its_newest_checkpoint(scribe: Any) -> None:
    scribe.count(3)
    scribe.count(2, FORK)
    newest = scribe.row_id(scribe.heads[MAIN])
    assert head(scribe.database, 1) == newest == IDS.row_id(1, 2)
    scribe.compact()
    assert head(scribe.database, 1) == newest
    assert head(scribe.database, 3) is None


# -- checkpoints by id


def test_a_checkpoint_is_found_in_records_and_in_segments(scribe: Any, limit: Any) -> None:
    limit(LONGEST=3)
    ids = scribe.count(9)
    assert [find(scribe.database, 1, checkpoint_id) for checkpoint_id in ids] == [
        IDS.row_id(1, number) for number in range(9)
    ]
    assert (scribe.compact(), scribe.compact()) == (3, 3)
    assert [find(scribe.database, 1, checkpoint_id) for checkpoint_id in ids] == [
        IDS.row_id(1, number) for number in range(9)
    ]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_checkpoint_is_found_only_in_its_own_line(scribe: Any, compacted: bool) -> None:
    ids = [*scribe.count(2), *scribe.count(2, FORK)]
    if compacted:
        assert (scribe.compact(), scribe.compact(FORK)) == (1, 1)
    assert [find(scribe.database, 1, checkpoint_id) for checkpoint_id in ids] == [
        IDS.row_id(1, 0),
        IDS.row_id(1, 1),
        None,
        None,
    ]
    assert [find(scribe.database, 2, checkpoint_id) for checkpoint_id in ids] == [
        None,
        None,
        IDS.row_id(2, 0),
        IDS.row_id(2, 1),
    ]
    assert find(scribe.database, 1, "f" * 32) is None


@pytest.mark.parametrize("name", ["step-1", "é", "ab" * 15, "ab" * 17, ""])
def test_an_id_of_any_form_is_found(scribe: Any, name: str) -> None:
    scribe.add({}, name=name)
    scribe.count(1)
    assert find(scribe.database, 1, name) == IDS.row_id(1, 0)
    scribe.compact()
    assert find(scribe.database, 1, name) == IDS.row_id(1, 0)


def test_the_halves_of_two_adjacent_ids_do_not_match(scribe: Any, limit: Any) -> None:
    limit(LONGEST=3)
    first, second, straddling = "11" * 8 + "22" * 8, "33" * 8 + "44" * 8, "22" * 8 + "33" * 8
    for name in (first, second, "55" * 16):
        scribe.add({}, name=name)
    scribe.count(1)
    scribe.compact()
    assert find(scribe.database, 1, straddling) is None


@pytest.mark.parametrize("same_segment", [True, False], ids=["in the same segment", "in a later one"])
def test_an_id_is_found_after_halves_that_equal_it(scribe: Any, limit: Any, same_segment: bool) -> None:
    limit(LONGEST=3 if same_segment else 2)
    names = ["11" * 8 + "22" * 8, "33" * 8 + "44" * 8, "22" * 8 + "33" * 8]
    for name in names:
        scribe.add({}, name=name)
    scribe.count(2)
    scribe.compact_all()
    assert scribe.counts("records") == (1,)
    assert [find(scribe.database, 1, name) for name in names] == [IDS.row_id(1, number) for number in range(3)]
