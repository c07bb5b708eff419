"""Old checkpoints laid together: how many, where it stops, what is stored apart, and that nothing is read otherwise."""

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

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
MARK = "a word that is found nowhere else"


@dataclass
class Point:
    x: int


def sizes(scribe: Any) -> list[int]:
    """How many bytes of changes each record holds."""
    return [len(changes or b"") for *_, changes, _ in scribe.rows()["records"]]


def marks(scribe: Any) -> int:
    """How often the mark is stored."""
    cells = [cell for rows in scribe.rows().values() for row in rows for cell in row]
    return sum(cell.count(MARK.encode()) for cell in cells if isinstance(cell, bytes))


def is_whole(scribe: Any) -> dict[tuple[str, int], bool]:
    """Of each row of what grew, by field and the number of the segment's last checkpoint, whether it was set anew."""
    return {(field, last): bool(whole) for _, field, last, whole, *_ in scribe.rows()["grown"]}


# -- how many


@pytest.mark.parametrize(
    ("records", "laid"), [(1, 0), (2, 1), (4, 3), (5, 4), (6, 4), (20, 4)], ids=lambda one: str(one)
)
def test_as_many_as_fit_are_laid_together_and_never_the_head(
    scribe: Any, limit: Callable[..., None], records: int, laid: int
) -> None:
    limit(LONGEST=4)
    scribe.count(records)
    assert scribe.compact() == laid
    assert scribe.sizes() == ([(0, laid)] if laid else [])
    assert scribe.counts("records") == (records - laid,)
    scribe.check()


def test_segments_follow_each_other(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=4)
    scribe.count(10)
    assert [scribe.compact() for _ in range(4)] == [4, 4, 1, 0]
    assert scribe.sizes() == [(0, 4), (4, 4), (8, 1)]
    assert [row[0] for row in scribe.rows()["segments"]] == [
        SqliteDatabase.row_ids.row_id(1, last) for last in (3, 7, 8)
    ]
    scribe.check()


@pytest.mark.parametrize(("spare", "laid"), [(0, 3), (-1, 2), (1, 3)])
def test_changes_fill_a_segment_up_to_its_size(scribe: Any, limit: Callable[..., None], spare: int, laid: int) -> None:
    for _ in range(6):
        scribe.add({"x": "x" * 100})
    limit(LARGEST=sum(sizes(scribe)[:3]) + spare)
    assert scribe.compact() == laid
    scribe.check()


def test_a_checkpoint_that_is_too_large_lies_in_a_segment_alone(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LARGEST=50)
    for size in (100, 10, 100, 10, 10):
        scribe.add({"x": "x" * size})
    scribe.fold_all()
    assert scribe.sizes() == [(0, 1), (1, 1), (2, 1), (3, 1)]
    scribe.check()


def test_a_segment_ends_before_a_jump(scribe: Any) -> None:
    ids = scribe.count(3)
    scribe.add({"n": "back"}, after=ids[0])
    scribe.count(1)
    scribe.add({"n": "alone"}, after=None)
    scribe.count(1)
    scribe.fold_all()
    assert scribe.sizes() == [(0, 3), (3, 2), (5, 1)]
    scribe.check()


def test_a_line_is_laid_together_without_the_others(scribe: Any) -> None:
    for _ in range(3):
        scribe.count(1)
        scribe.count(1, FORK)
    before = scribe.rows()["records"]
    assert scribe.compact(FORK) == 2
    assert scribe.rows()["records"] == [row for row in before if row[0] < SqliteDatabase.row_ids.row_id(2, 0)] + [
        before[-1]
    ]
    scribe.check()


# -- what grows


def test_what_grew_is_stored_once(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=3, SMALL=0, MOST_WITHOUT_BASE=1)
    scribe.add({"words": Added([MARK])})
    for n in range(10):
        scribe.add({"words": Added([n]), "n": n})
    scribe.fold_all()
    assert scribe.has_base() == [False, True, True, True]
    assert marks(scribe) == 1
    scribe.check()


def test_a_field_that_did_not_grow_at_first_is_whole_where_it_begins_to(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=2)
    for change in (["a"], ["a", "b"], Added(["c"]), Added(["d"]), Added(["e"]), Added(["f"]), 1):
        scribe.add({"words": change})
    scribe.fold_all()
    assert is_whole(scribe) == {("words", 3): True, ("words", 5): False}
    scribe.check()


def test_a_field_that_is_set_anew_is_not_stored_as_it_was(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=2)
    for change in ([MARK], [MARK, 1], ["anew"], Added([1]), Added([2])):
        scribe.add({"words": change})
    before = marks(scribe)
    scribe.fold_all()
    assert marks(scribe) == before == 2
    scribe.check()


def test_a_field_that_grew_once_stays_apart(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=2)
    for change in (Added(["a"]), Added(["b"]), ["set"], MISSING, "set again", MISSING, 1):
        scribe.add({"words": change})
    scribe.fold_all()
    assert is_whole(scribe) == {("words", 1): False, ("words", 3): True, ("words", 5): True}
    assert [row[5] for row in scribe.rows()["segments"]] == [None] * 3
    scribe.check()


def test_messages_that_are_replaced_all_the_time_are_stored_whole_now_and_then(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=4)
    for n in range(41):
        scribe.add({"messages": Merged([Message(f"text {n}", id="the one")])})
    scribe.fold_all()
    whole = is_whole(scribe)
    assert 0 < sum(whole.values()) < len(whole) / 2
    assert not whole["messages", 3]
    scribe.check()


def test_messages_that_only_come_are_never_stored_whole(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=4)
    for n in range(41):
        scribe.add({"messages": Merged([Message(f"text {n}", id=str(n))])})
    scribe.fold_all()
    assert not any(is_whole(scribe).values())
    scribe.check()


# -- bases


def test_a_segment_gets_a_base_when_the_changes_since_are_as_large_as_the_last_one(
    scribe: Any, limit: Callable[..., None]
) -> None:
    limit(LONGEST=2, SMALL=0)
    scribe.add({"large": "x" * 400, "words": Added(["w"])})
    scribe.add({"n": "y" * 100})
    for _ in range(16):
        scribe.add({"n": "y" * 100})
    scribe.fold_all()
    # A base of about 530 bytes, and after it segments of about 215: the third has seen enough.
    assert scribe.has_base() == [False, True, False, False, True, False, False, True, False]
    scribe.check()


def test_small_changes_need_no_base_until_there_are_many_segments(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=1, MOST_WITHOUT_BASE=3)
    scribe.count(9)
    scribe.fold_all()
    assert scribe.has_base() == [False, False, False, True, False, False, True, False]
    scribe.check()


def test_the_beginning_of_a_thread_has_no_base_and_that_of_a_fork_may(scribe: Any, limit: Callable[..., None]) -> None:
    limit(LONGEST=1, SMALL=0, MOST_WITHOUT_BASE=0)
    ids = scribe.count(2)
    scribe.add({"m": 1}, line=FORK, after=ids[1])
    scribe.count(1, FORK)
    assert (scribe.compact(), scribe.compact(FORK)) == (1, 1)
    assert scribe.has_base() == [False, True]
    scribe.check()


# -- nothing is read otherwise


@pytest.mark.parametrize("longest", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_written_is_read_after_each_fold(
    scribe: Any, limit: Callable[..., None], seed: int, longest: int
) -> None:
    limit(LONGEST=longest, SMALL=seed * 20, MOST_WITHOUT_BASE=1 + seed, LARGEST=200 if seed % 2 else 1 << 20)
    scribe.random_walk(seed, 40)
    logs = scribe.numbered("r"), scribe.numbered("s")
    lines = tuple(scribe.heads)
    while sum(scribe.compact(line) for line in lines):
        scribe.check()
        assert (scribe.numbered("r"), scribe.numbered("s")) == logs
    assert scribe.counts("records") == (len(lines),)


@pytest.mark.parametrize("options", [{"compress": True}, {"key": bytes(32)}, {"key": bytes(16), "compress": True}])
def test_what_is_sealed_is_laid_together_too(tmp_path: Path, scribe_of: Any, options: Any) -> None:
    with SqliteDatabase(tmp_path / "a.db", **options) as database:
        scribe = scribe_of(database)
        scribe.add({"text": MARK, "words": Added([MARK])})
        scribe.random_walk(1, 30)
        for line in tuple(scribe.heads):
            scribe.fold_all(line)
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
def test_values_of_every_kind_are_the_same_after_a_fold(tmp_path: Path, scribe_of: Any, grows: bool) -> None:
    with SqliteDatabase(tmp_path / "a.db", serde=Serde([Point])) as database:
        scribe = scribe_of(database)
        for value in VALUES:
            scribe.add({"x": Added([value]) if grows else value})
        scribe.add({"x": MISSING})
        scribe.check()
        assert scribe.compact() == len(VALUES)
        scribe.check()


def test_who_lays_checkpoints_together_need_not_know_what_they_hold(
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


def test_a_fold_that_is_undone_leaves_everything_as_it_was(scribe: Any) -> None:
    def fold_and_fail(connection: Any) -> None:
        assert SegmentWriter(connection, scribe.database).compact(1) == 3
        raise ValueError("no luck")

    for n in range(4):
        scribe.add({"words": Added([n])}, logs=1)
    before = scribe.rows()
    with pytest.raises(ValueError, match="no luck"):
        scribe.database.write(fold_and_fail)
    assert scribe.rows() == before


def test_events_of_checkpoints_that_are_laid_together_go_to_the_log(scribe: Any) -> None:
    for run in ("run", "other", "run", "run"):
        scribe.add({}, logs=2, run_id=run)
    assert scribe.counts("events") == (0,)
    log = scribe.numbered(), scribe.numbered("other")
    scribe.compact()
    assert [row[0] for row in scribe.rows()["events"]] == [
        SqliteDatabase.row_ids.row_id(1, 1),
        SqliteDatabase.row_ids.row_id(2, 1),
    ]
    assert (scribe.numbered(), scribe.numbered("other")) == log
    assert [event.seq for event in log[0]] == [1, 2, 3, 4, 5, 6]
