"""Compaction of old checkpoints into segments: their sizes, growing fields, bases, and unchanged reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statewright import Message
from statewright.channels import MISSING, Added, Merged
from statewright.checkpoint import BranchKey
from statewright.serde.serde import Serde
from statewright.storage.checkpoints.segments import SegmentWriter
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
MARK = "a word that occurs nowhere else"


@dataclass
class Point:
    x: int


def sizes(scribe: Any) -> list[int]:
    """Return the number of bytes of the changes in each record."""
    return [len(changes or b"") for *_, changes, _ in scribe.rows()["records"]]


def marks(scribe: Any) -> int:
    """Return the number of times that the mark is stored."""
    cells = [cell for rows in scribe.rows().values() for row in rows for cell in row]
    return sum(cell.count(MARK.encode()) for cell in cells if isinstance(cell, bytes))


def is_whole(scribe: Any) -> dict[tuple[str, int], bool]:
    """Return, for each field and last checkpoint of a segment, whether the field is stored whole there."""
    return {(field, last): bool(whole) for _, field, last, whole, *_ in scribe.rows()["grown"]}


# -- sizes of segments


@pytest.mark.parametrize(("records", "compacted"), [(1, 0), (2, 1), (4, 3), (5, 4), (6, 4), (20, 4)], ids=str)
def test_compaction_fills_a_segment_and_keeps_the_head_as_a_record(
    scribe: Any, limit: Callable[..., None], records: int, compacted: int
) -> None:
    limit(LONGEST=4)
    scribe.count(records)
    assert scribe.compact() == compacted
    assert scribe.sizes() == ([(0, compacted)] if compacted else [])
    assert scribe.counts("records") == (records - compacted,)
    scribe.check()


def test_further_compactions_append_segments(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=4)
    scribe.count(10)
    assert [scribe.compact() for _ in range(4)] == [4, 4, 1, 0]
    assert scribe.sizes() == [(0, 4), (4, 4), (8, 1)]
    assert [row[0] for row in scribe.rows()["segments"]] == [IDS.row_id(1, last) for last in (3, 7, 8)]
    scribe.check()


@pytest.mark.parametrize(("spare", "compacted"), [(0, 3), (-1, 2), (1, 3)])
def test_a_segment_ends_when_its_changes_reach_the_largest_size(
    scribe: Any, limit: Callable[..., None], spare: int, compacted: int
) -> None:
    for _ in range(6):
        scribe.add({"x": "x" * 100})
    limit(LARGEST=sum(sizes(scribe)[:3]) + spare)
    assert scribe.compact() == compacted
    scribe.check()


def test_a_checkpoint_over_the_largest_size_gets_its_own_segment(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LARGEST=50)
    for size in (100, 10, 100, 10, 10):
        scribe.add({"x": "x" * size})
    scribe.compact_all()
    assert scribe.sizes() == [(0, 1), (1, 1), (2, 1), (3, 1)]
    scribe.check()


def test_a_segment_ends_before_a_jump(scribe: Any) -> None:
    ids = scribe.count(3)
    scribe.add({"n": "back"}, after=ids[0])
    scribe.count(1)
    scribe.add({"n": "alone"}, after=None)
    scribe.count(1)
    scribe.compact_all()
    assert scribe.sizes() == [(0, 3), (3, 2), (5, 1)]
    scribe.check()


def test_compacting_a_line_leaves_other_lines_unchanged(scribe: Any) -> None:
    for _ in range(3):
        scribe.count(1)
        scribe.count(1, FORK)
    before = scribe.rows()["records"]
    assert scribe.compact(FORK) == 2
    assert scribe.rows()["records"] == [row for row in before if row[0] < IDS.row_id(2, 0)] + [before[-1]]
    scribe.check()


# -- growing fields


def test_appended_items_are_stored_once_across_segments(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=3, SMALL=0, MOST_WITHOUT_BASE=1)
    scribe.add({"words": Added([MARK])})
    for n in range(10):
        scribe.add({"words": Added([n]), "n": n})
    scribe.compact_all()
    assert scribe.has_base() == [False, True, True, True]
    assert marks(scribe) == 1
    scribe.check()


def test_a_field_is_stored_whole_in_the_segment_where_it_begins_to_grow(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=2)
    for change in (["a"], ["a", "b"], Added(["c"]), Added(["d"]), Added(["e"]), Added(["f"]), 1):
        scribe.add({"words": change})
    scribe.compact_all()
    assert is_whole(scribe) == {("words", 3): True, ("words", 5): False}
    scribe.check()


def test_a_replaced_field_does_not_store_its_old_items_again(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=2)
    for change in ([MARK], [MARK, 1], ["anew"], Added([1]), Added([2])):
        scribe.add({"words": change})
    before = marks(scribe)
    scribe.compact_all()
    assert marks(scribe) == before == 2
    scribe.check()


def test_a_field_that_has_grown_stays_out_of_the_base(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=2)
    for change in (Added(["a"]), Added(["b"]), ["set"], MISSING, "set again", MISSING, 1):
        scribe.add({"words": change})
    scribe.compact_all()
    assert is_whole(scribe) == {("words", 1): False, ("words", 3): True, ("words", 5): True}
    assert [row[5] for row in scribe.rows()["segments"]] == [None] * 3
    scribe.check()


def test_messages_that_are_often_replaced_are_sometimes_stored_whole(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=4)
    for n in range(41):
        scribe.add({"messages": Merged([Message(f"text {n}", id="the one")])})
    scribe.compact_all()
    whole = is_whole(scribe)
    assert 0 < sum(whole.values()) < len(whole) / 2
    assert not whole["messages", 3]
    scribe.check()


def test_messages_that_are_only_appended_are_never_stored_whole(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=4)
    for n in range(41):
        scribe.add({"messages": Merged([Message(f"text {n}", id=str(n))])})
    scribe.compact_all()
    assert not any(is_whole(scribe).values())
    scribe.check()


# -- bases


def test_a_segment_gets_a_base_when_the_changes_exceed_the_size_of_the_last_base(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=2, SMALL=0)
    scribe.add({"large": "x" * 400, "words": Added(["w"])})
    scribe.add({"n": "y" * 100})
    for _ in range(16):
        scribe.add({"n": "y" * 100})
    scribe.compact_all()
    # The base has about 530 bytes and each segment about 215, so every third segment gets a new base.
    assert scribe.has_base() == [False, True, False, False, True, False, False, True, False]
    scribe.check()


def test_small_changes_need_a_base_only_after_many_segments(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=1, MOST_WITHOUT_BASE=3)
    scribe.count(9)
    scribe.compact_all()
    assert scribe.has_base() == [False, False, False, True, False, False, True, False]
    scribe.check()


def test_the_first_segment_of_a_thread_has_no_base_but_that_of_a_fork_can(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=1, SMALL=0, MOST_WITHOUT_BASE=0)
    ids = scribe.count(2)
    scribe.add({"m": 1}, line=FORK, after=ids[1])
    scribe.count(1, FORK)
    assert (scribe.compact(), scribe.compact(FORK)) == (1, 1)
    assert scribe.has_base() == [False, True]
    scribe.check()


# -- compaction does not change reads


@pytest.mark.parametrize("longest", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_random_checkpoints_are_unchanged_by_each_compaction(
    scribe: Any, limit: Callable[..., None], seed: int, longest: int
) -> None:
    limit(LONGEST=longest, SMALL=seed * 20, MOST_WITHOUT_BASE=1 + seed, LARGEST=200 if seed % 2 else 1 << 20)
    scribe.random_walk(seed, 40)
    logs = scribe.numbered_events("r"), scribe.numbered_events("s")
    lines = tuple(scribe.heads)
    while sum(scribe.compact(line) for line in lines):
        scribe.check()
        assert (scribe.numbered_events("r"), scribe.numbered_events("s")) == logs
    assert scribe.counts("records") == (len(lines),)


@pytest.mark.parametrize("options", [{"compress": True}, {"key": bytes(32)}, {"key": bytes(16), "compress": True}])
def test_compressed_and_encrypted_checkpoints_are_compacted(tmp_path: Path, scribe_of: Any, options: Any) -> None:
    with SqliteDatabase(tmp_path / "a.db", **options) as database:
        scribe = scribe_of(database)
        scribe.add({"text": MARK, "words": Added([MARK])})
        scribe.random_walk(1, 30)
        for line in tuple(scribe.heads):
            scribe.compact_all(line)
        scribe.check()
        assert (marks(scribe) == 0) == database.encryptor.encrypts
        sealed = {row[-1][:2] for row in scribe.rows()["segments"]}
        assert sealed == {b"\xc1e"} if database.encryptor.encrypts else b"\xc1z" in sealed


VALUES: list[Any] = [
    None,
    2**63,
    2**64 - 1,
    -(2**63),
    2**200,
    1.5,
    float("inf"),
    b"\x00\xff",
    "\ud800",
    (1, (2,)),
    {1, 2},
    datetime(2026, 1, 1, 12, tzinfo=UTC),
    {1: "a", "1": "b", None: "c", b"d": "e", 1.5: "f"},
    {(1, 2): [3], "x": {2**70: ()}},
    [[], [[]], {}],
    Point(1),
    [Point(1), {"p": (Point(2),)}],
]


@pytest.mark.parametrize("grows", [False, True])
def test_values_of_every_kind_survive_compaction(tmp_path: Path, scribe_of: Any, grows: bool) -> None:
    with SqliteDatabase(tmp_path / "a.db", serde=Serde([Point])) as database:
        scribe = scribe_of(database)
        for value in VALUES:
            scribe.add({"x": Added([value]) if grows else value})
        scribe.add({"x": MISSING})
        scribe.check()
        assert scribe.compact() == len(VALUES)
        scribe.check()


def test_compaction_does_not_need_to_know_the_types_of_values(
    tmp_path: Path, scribe_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteDatabase(tmp_path / "a.db", serde=Serde([Point])) as database:
        scribe = scribe_of(database)
        for n in range(5):
            scribe.add({"point": Point(n), "points": Added([Point(n)]), "n": n}, logs=1)
        with monkeypatch.context() as patch:
            patch.setattr(database, "serde", Serde())
            database.write(lambda connection: SegmentWriter(connection, database).compact(1))
        assert scribe.sizes() == [(0, 4)]
        scribe.check()


def test_a_rolled_back_compaction_changes_nothing(scribe: Any) -> None:
    def compact_and_fail(connection: Any) -> None:
        assert SegmentWriter(connection, scribe.database).compact(1) == 3
        raise ValueError("no luck")

    for n in range(4):
        scribe.add({"words": Added([n])}, logs=1)
    before = scribe.rows()
    with pytest.raises(ValueError, match="no luck"):
        scribe.database.write(compact_and_fail)
    assert scribe.rows() == before


def test_compaction_moves_the_events_of_checkpoints_to_the_log(scribe: Any) -> None:
    for run in ("run", "other", "run", "run"):
        scribe.add({}, logs=2, run_id=run)
    assert scribe.counts("events") == (0,)
    log = scribe.numbered_events(), scribe.numbered_events("other")
    scribe.compact()
    assert [row[0] for row in scribe.rows()["events"]] == [
        IDS.row_id(1, 1),
        IDS.row_id(2, 1),
    ]
    assert (scribe.numbered_events(), scribe.numbered_events("other")) == log
    assert [event.seq for event in log[0]] == [1, 2, 3, 4, 5, 6]
