"""Reading checkpoints: single states, stretches of history, pending results, damaged content, and logs of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from statewright import Message, RemoveMessage
from statewright.channels import MISSING, Added, Merged
from statewright.checkpoint import BranchKey, Interrupt, JournalEntry, Pending, TaskResult
from statewright.errors import DamagedDatabase, SerdeError, WrongEncryptionKey
from statewright.ids import InterruptId
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
MISSING_ROW = IDS.row_id(1, 999)


@dataclass
class Colour:
    name: str


def add_growing(scribe: Any, count: int) -> list[Any]:
    """Add checkpoints with a growing field, a replaced field, and a field that every second one removes."""
    return [
        scribe.add({"words": Added([f"word {n}"]), "n": n, "odd": n if n % 2 else MISSING}, logs=n % 3)
        for n in range(count)
    ]


# -- states


def test_a_removed_field_is_absent_until_it_is_written_again(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2)
    first = scribe.add({"a": 1, "words": Added(["w"])})
    second = scribe.add({"a": MISSING, "words": MISSING})
    third = scribe.add({"words": Added(["v"])})
    scribe.count(2)
    for _ in range(3):
        states = [scribe.loaded(checkpoint_id).checkpoint.values for checkpoint_id in (first, second, third)]
        assert states == [{"a": 1, "words": ["w"]}, {}, {"words": ["v"]}]
        scribe.compact()


def test_only_the_named_fields_are_read(scribe: Any) -> None:
    (row_id,) = [scribe.row_id(checkpoint_id) for checkpoint_id in add_growing(scribe, 1)]
    assert scribe.read(lambda reader: reader.state_at(row_id, fields=frozenset({"n", "no"}))) == {"n": 0}
    assert scribe.read(lambda reader: reader.state_at(row_id, fields=frozenset())) == {}


def test_messages_are_merged_across_records_and_segments(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2)
    batches = [
        [Message("a", id="1")],
        [Message("b", id="2"), Message("c", id="3")],
        [Message("B", id="2")],
        [RemoveMessage("1")],
        [Message("d", id="4")],
    ]
    ids = [scribe.add({"messages": Merged(batch)}) for batch in batches]
    scribe.count(1)
    for _ in range(4):
        contents = [message.content for message in scribe.loaded(ids[-1]).checkpoint.values["messages"]]
        assert contents == ["B", "c", "d"]
        scribe.check()
        scribe.compact()


def test_reports_of_a_subgraph_are_stored_apart_from_its_values(scribe: Any) -> None:
    ids: list[Any] = []
    for report in (("words", "a"), ("total", 2), None):
        commit = scribe.commit({"n": len(ids)}, reported=Added([list(report)]) if report is not None else None)
        before = scribe.written[ids[-1]].checkpoint.reported if ids else ()
        commit.checkpoint.reported = (*before, report) if report is not None else before
        ids.append(scribe.save(commit))
    for compacted in (True, False):
        stored = [
            (checkpoint.values, checkpoint.reported)
            for checkpoint in (scribe.loaded(checkpoint_id).checkpoint for checkpoint_id in ids)
        ]
        both = (("words", "a"), ("total", 2))
        assert stored == [({"n": 0}, both[:1]), ({"n": 1}, both), ({"n": 2}, both)]
        assert bool(scribe.compact()) is compacted


def test_reading_a_state_does_not_read_segments_before_its_base(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2, MOST_WITHOUT_BASE=2)
    add_growing(scribe, 12)
    scribe.compact_all()
    assert scribe.has_base() == [False, False, True, False, True, False]
    # Reading these changes would fail.
    scribe.change("UPDATE segments SET changes = x'c1' WHERE place < ?", IDS.row_id(1, 9))
    scribe.change("UPDATE segments SET base = x'c1' WHERE place < ? AND base IS NOT NULL", IDS.row_id(1, 9))
    last = next(reversed(scribe.written))
    assert scribe.loaded(last) == scribe.written[last]
    with pytest.raises(DamagedDatabase):
        scribe.loaded(next(iter(scribe.written)))


def test_a_growing_field_is_read_from_its_last_replacement(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2, MOST_WITHOUT_BASE=2)
    for n in range(9):
        scribe.add({"words": ["anew"] if n == 6 else Added([n])})
    scribe.compact_all()
    scribe.change("UPDATE grown SET body = x'c1' WHERE last < 6")
    assert scribe.loaded(scribe.heads[LINE]).checkpoint.values == {"words": ["anew", 7, 8]}


def test_reading_a_fork_with_a_base_does_not_read_its_origin(scribe: Any, limit: Any) -> None:
    (origin,) = scribe.count(1)
    for n in range(3):
        scribe.add({"m": n}, line=FORK, after=... if n else origin)
    limit(LONGEST=2, SMALL=0, MOST_WITHOUT_BASE=0)
    scribe.compact(FORK)
    scribe.change("UPDATE records SET changes = x'c1' WHERE place = ?", scribe.row_id(origin))
    assert scribe.loaded(scribe.heads[FORK]).checkpoint.values == {"n": 0, "m": 2}


def test_a_removed_growing_field_stays_absent_after_a_base(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2, SMALL=0)
    origin = scribe.add({"words": Added(["w"]), "n": 1})
    scribe.count(1)
    scribe.add({"others": Added(["a"]), "words": MISSING}, line=FORK, after=origin)
    for n in range(5):
        scribe.add({"others": Added([n]), "n": n}, line=FORK)
    scribe.compact_all(FORK)
    # The field `words` becomes a growing field of the origin only now.
    scribe.compact_all()
    assert "words" not in scribe.loaded(scribe.heads[FORK]).checkpoint.values
    scribe.check()


def test_growing_at_returns_the_fields_stored_apart_on_the_whole_path(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2)
    ids = [scribe.add({"n": 1}), scribe.add({"n": 2})]
    ids += add_growing(scribe, 4)
    scribe.compact_all()
    growing = [
        scribe.read(lambda reader, checkpoint_id=checkpoint_id: reader.growing_at(scribe.row_id(checkpoint_id)))
        for checkpoint_id in ids
    ]
    assert growing == [*[frozenset()] * 2, *[frozenset({"words"})] * 3, frozenset()]
    assert scribe.read(lambda reader: reader.growing_at(None)) == frozenset()


def test_a_reader_is_not_affected_by_a_concurrent_compaction(scribe: Any) -> None:
    ids = add_growing(scribe, 6)
    row_ids = [scribe.row_id(checkpoint_id) for checkpoint_id in ids]
    with scribe.database.read() as connection:
        reader = HistoryReader(connection, scribe.database)
        first = reader.checkpoint_at(row_ids[0], LINE)
        assert scribe.compact() == 5
        assert first == scribe.written[ids[0]]
        assert [reader.checkpoint_at(row_id, LINE) for row_id in row_ids] == [
            scribe.written[checkpoint_id] for checkpoint_id in ids
        ]


# -- checkpoints


@pytest.mark.parametrize("compacted", range(4))
def test_each_stretch_of_history_is_read_as_it_was_written(scribe: Any, limit: Any, compacted: int) -> None:
    limit(LONGEST=3)
    newest_first = add_growing(scribe, 9)[::-1]
    for _ in range(compacted):
        assert scribe.compact() > 0
    row_ids = [scribe.row_id(checkpoint_id) for checkpoint_id in newest_first]
    for first in range(9):
        for end in range(first + 1, 10):
            part = scribe.read(lambda reader, first=first, end=end: reader.checkpoints(row_ids[first:end], LINE))
            assert part == [scribe.written[checkpoint_id] for checkpoint_id in newest_first[first:end]]


@pytest.mark.parametrize("compacted", range(4))
def test_outlines_are_read_without_the_values(scribe: Any, limit: Any, compacted: int) -> None:
    limit(LONGEST=3)
    ids = add_growing(scribe, 9)
    ids += [scribe.add({"n": "fork"}, line=FORK, after=ids[2]), *scribe.count(2, FORK)]
    for _ in range(compacted):
        scribe.compact()
        scribe.compact(FORK)
    for table, column in (("records", "changes"), ("segments", "changes"), ("segments", "base"), ("grown", "body")):
        scribe.change(f"UPDATE {table} SET {column} = x'c1' WHERE {column} IS NOT NULL")
    row_ids = [scribe.row_id(checkpoint_id) for checkpoint_id in ids[::-1]]
    outlines = scribe.read(lambda reader: reader.outlines(row_ids, LINE))
    written = [scribe.written[checkpoint_id] for checkpoint_id in ids[::-1]]
    facts = [(saved.id, saved.parent_id, saved.run_id, saved.created_at, saved.metadata) for saved in written]
    assert [(each.id, each.parent_id, each.run_id, each.created_at, each.metadata) for each in outlines] == facts
    assert [each.checkpoint.values for each in outlines] == [{}] * 12


def test_reading_no_row_ids_returns_no_checkpoints(scribe: Any) -> None:
    assert scribe.read(lambda reader: reader.checkpoints([], LINE)) == []


def test_a_stretch_of_history_can_cross_a_fork(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2)
    main = add_growing(scribe, 5)
    fork = [scribe.add({"n": "fork"}, line=FORK, after=main[2]), *scribe.count(2, FORK)]
    path = [*fork[::-1], *main[2::-1]]
    for _ in range(3):
        row_ids = [scribe.row_id(checkpoint_id) for checkpoint_id in path]
        part = scribe.read(lambda reader, row_ids=row_ids: reader.checkpoints(row_ids, LINE))
        assert [checkpoint.checkpoint for checkpoint in part] == [
            scribe.written[checkpoint_id].checkpoint for checkpoint_id in path
        ]
        assert [checkpoint.parent_id for checkpoint in part] == [*path[1:], None]
        scribe.compact(), scribe.compact(FORK)


def test_checkpoints_of_a_stretch_do_not_share_their_values(scribe: Any) -> None:
    row_ids = [scribe.row_id(checkpoint_id) for checkpoint_id in add_growing(scribe, 3)[::-1]]
    newest, *older = scribe.read(lambda reader: reader.checkpoints(row_ids, LINE))
    newest.checkpoint.values.clear()
    assert [checkpoint.checkpoint.values["n"] for checkpoint in older] == [1, 0]


def test_a_checkpoint_keeps_an_id_of_any_form(scribe: Any) -> None:
    named = scribe.add({"n": 1}, name="step one")
    following = scribe.add({"n": 2}, name="AB" * 16)
    scribe.count(1)
    for _ in range(2):
        assert (scribe.loaded(named).id, scribe.loaded(following).id) == ("step one", "AB" * 16)
        assert scribe.loaded(following).parent_id == "step one"
        assert scribe.read(lambda reader: reader.id_at(scribe.row_id(named))) == "step one"
        assert scribe.loaded(named).checkpoint.frontier[0].origin == "step one"
        scribe.compact()


def test_the_parent_is_the_previous_checkpoint_unless_there_is_a_jump(scribe: Any) -> None:
    first, second, third = scribe.count(3)
    back = scribe.add({}, after=first)
    alone = scribe.add(None, after=None)
    parents = [
        scribe.read(lambda reader, checkpoint_id=checkpoint_id: reader.parent_of(scribe.row_id(checkpoint_id)))
        for checkpoint_id in (first, second, back, alone)
    ]
    assert parents == [None, scribe.row_id(first), scribe.row_id(first), None]
    assert [scribe.loaded(checkpoint_id).parent_id for checkpoint_id in (third, back, alone)] == [second, first, None]


def test_ages_lists_all_checkpoints_of_a_line(scribe: Any, limit: Any) -> None:
    limit(LONGEST=2)
    ids = scribe.count(5)
    scribe.count(2, FORK)
    expected = [
        (scribe.written[checkpoint_id].created_at, bytes.fromhex(checkpoint_id), IDS.row_id(1, n))
        for n, checkpoint_id in enumerate(ids)
    ]
    for _ in range(3):
        assert sorted(scribe.read(lambda reader: reader.ages(1))) == expected
        scribe.compact()
    assert scribe.read(lambda reader: reader.ages(3)) == []


@pytest.mark.parametrize("compacted", range(3))
def test_changes_by_row_returns_the_changes_of_each_checkpoint(scribe: Any, limit: Any, compacted: int) -> None:
    limit(LONGEST=3)
    changes: list[dict[str, Any]] = [
        {"words": Added(["a"]), "n": 1},
        {},
        {"words": MISSING, "n": MISSING},
        {"words": ["set"]},
        {"messages": Merged([Message("m", id="1")])},
        {"n": 2},
    ]
    row_ids = [scribe.row_id(scribe.add(change)) for change in changes]
    for _ in range(compacted):
        scribe.compact()
    changes_by_row = scribe.read(lambda reader: reader.changes_by_row(row_ids))
    assert [changes_by_row.get(row_id, {}) for row_id in row_ids] == changes


def test_a_checkpoint_is_read_with_its_pending_results(scribe: Any) -> None:
    (first, second) = scribe.count(2)
    task = scribe.written[second].checkpoint.frontier[0]
    question = Interrupt(id=InterruptId("a" * 32), value="?", schema=int)
    pending = Pending(
        interrupts={task.id: (question,)},
        answers={question.id: 3},
        errors={task.id: "E: why"},
        attempts={task.id: 2},
        retries={task.id: scribe.written[second].created_at + timedelta(microseconds=1)},
        journal={(task.id, "step\x1fname", 7): JournalEntry("given", [1])},
        paused=True,
    )
    scribe.note(second, pending)
    assert scribe.loaded(second).pending == pending
    assert scribe.loaded(first).pending == Pending()


def test_a_stored_result_of_a_task_that_is_not_due_raises_damaged_database(scribe: Any) -> None:
    (first, second) = scribe.count(2)
    task = scribe.written[first].checkpoint.frontier[0]
    scribe.note(second, Pending(completed={task.id: TaskResult(task, {"n": 1}, ())}))
    with pytest.raises(DamagedDatabase, match="not due"):
        scribe.loaded(second)


# -- unreadable content


IN_RECORDS = ("records.control", "records.changes", "pending.body")
IN_SEGMENTS = ("segments.controls", "segments.changes", "segments.base", "grown.body", "pending.body")


@pytest.mark.parametrize("sql", ["x'c1'", "x''", "x'c17a00'", "substr({0}, 1, length({0}) - 1)"])
@pytest.mark.parametrize(
    ("compacted", "what"), [*((False, what) for what in IN_RECORDS), *((True, what) for what in IN_SEGMENTS)]
)
def test_unreadable_content_raises_damaged_database(
    scribe: Any, limit: Any, sql: str, compacted: bool, what: str
) -> None:
    limit(LONGEST=2, SMALL=0)
    ids = add_growing(scribe, 8)
    for checkpoint_id in ids:
        scribe.note(checkpoint_id, Pending(paused=True))
    if compacted:
        scribe.compact_all()
    table, column = what.split(".")
    content = f"CAST({sql.format(column)} AS BLOB)"
    scribe.change(f"UPDATE {table} SET {column} = {content} WHERE {column} IS NOT NULL")
    with pytest.raises(DamagedDatabase):
        scribe.loaded(ids[5])


def test_a_missing_checkpoint_raises_damaged_database(scribe: Any) -> None:
    scribe.count(2)
    for row_id in (MISSING_ROW, IDS.row_id(9, 0)):
        with pytest.raises(DamagedDatabase, match=r"checkpoint \d+ of line \d is missing"):
            scribe.read(lambda reader, row_id=row_id: reader.checkpoint_at(row_id, LINE))
        with pytest.raises(DamagedDatabase, match="is missing"):
            scribe.read(lambda reader, row_id=row_id: reader.id_at(row_id))


def test_a_checkpoint_cannot_be_read_with_another_key(
    tmp_path: Any, scribe_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteDatabase(tmp_path / "a.db", key=bytes(32)) as database:
        scribe = scribe_of(database)
        ids = add_growing(scribe, 4)
        scribe.compact()
        scribe.check()
        for row_id in [scribe.row_id(checkpoint_id) for checkpoint_id in ids]:
            for encryptor in (Encryptor(bytes(16)), Encryptor()):
                monkeypatch.setattr(database, "encryptor", encryptor)
                with database.read() as connection, pytest.raises(WrongEncryptionKey):
                    HistoryReader(connection, database).checkpoint_at(row_id, LINE)
                monkeypatch.undo()


def test_a_value_of_an_unregistered_type_is_not_decoded(
    tmp_path: Any, scribe_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteDatabase(tmp_path / "a.db", serde=Serde([Colour])) as database:
        scribe = scribe_of(database)
        (row_id,) = [scribe.row_id(scribe.add({"colour": Colour("red")}))]
        assert scribe.read(lambda reader: reader.state_at(row_id)) == {"colour": Colour("red")}
        monkeypatch.setattr(database, "serde", Serde())
        with database.read() as connection, pytest.raises(SerdeError, match="Colour"):
            HistoryReader(connection, database).state_at(row_id)


# -- logs


def test_events_of_a_run_are_numbered_from_one(scribe: Any) -> None:
    scribe.add({}, logs=2)
    scribe.add({})
    scribe.add({}, logs=1)
    scribe.add({}, logs=3, run_id="other")
    assert [(event.seq, event.step, event.data) for event in scribe.numbered_events()] == [
        (1, 1, 0),
        (2, 1, 1),
        (3, 3, 0),
    ]
    assert [event.seq for event in scribe.numbered_events("other")] == [1, 2, 3]
    numbers = [scribe.read(lambda reader, run=run: reader.next_number(1, run)) for run in (1, 2, 9)]
    assert numbers == [4, 4, 1]


@pytest.mark.parametrize("compacted", range(4))
def test_compaction_does_not_change_a_log(scribe: Any, limit: Any, compacted: int) -> None:
    limit(LONGEST=2)
    inside = BranchKey("thread", "in")
    for n in range(6):
        scribe.add({}, logs=n % 3)
        scribe.add({}, logs=1, line=inside)
    scribe.note(scribe.heads[LINE], Pending(paused=True), log=scribe.log("run", 2))
    for _ in range(compacted):
        scribe.compact(), scribe.compact(inside)
    events = scribe.numbered_events()
    assert [event.seq for event in events] == list(range(1, 15))
    steps = [2, 3, 4, 5, 5, 6, 8, 9, 10, 11, 11, 12]
    assert [event.step for event in events] == [*steps, 0, 0]
    assert scribe.read(lambda reader: reader.next_number(1, 1)) == 15


@pytest.mark.parametrize("compacted", [False, True])
def test_a_log_is_read_from_the_batch_that_contains_an_event(scribe: Any, compacted: bool) -> None:
    for logs in (2, 1, 3, 1):
        scribe.add({}, logs=logs)
    if compacted:
        scribe.compact()
    firsts = [[first for first, _ in scribe.events(after=after)] for after in range(9)]
    assert firsts == [[1, 3, 4, 7]] * 3 + [[3, 4, 7]] + [[4, 7]] * 3 + [[7]] + [[]]


def test_log_of_line_returns_the_batches_of_each_run_up_to_a_record(scribe: Any) -> None:
    for run in ("run", "other", "run", "other"):
        scribe.add({}, logs=2, run_id=run)
    logs = scribe.read(lambda reader: [reader.log_of_line(1, last) for last in (0, 2)])
    assert [{run: [first for first, _ in batches] for run, batches in log.items()} for log in logs] == [
        {1: [1]},
        {1: [1, 3], 2: [1]},
    ]
    logs_of_run = scribe.read(lambda reader: reader.log_of_line(1, 3, run=2))
    assert [first for first, _ in logs_of_run[2]] == [1, 3]
    assert list(logs_of_run) == [2]
