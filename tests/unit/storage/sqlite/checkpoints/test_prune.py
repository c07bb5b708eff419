"""Pruning old checkpoints: which are deleted, what is kept of them, and later commits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Pending
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def add_growing(scribe: Any, count: int, line: BranchKey = LINE, **options: Any) -> list[Any]:
    return [scribe.add({"n": n, "words": Added([n])}, line=line, **options) for n in range(count)]


def stored(scribe: Any) -> list[Any]:
    """Return the ids of the checkpoints that are still stored."""
    return [checkpoint_id for checkpoint_id in scribe.written if scribe.row_id(checkpoint_id) is not None]


def check(scribe: Any) -> None:
    """Check that the stored checkpoints are unchanged, except for parents that were deleted."""
    ids = stored(scribe)
    for checkpoint_id in ids:
        written = scribe.written[checkpoint_id]
        parent = written.parent_id if written.parent_id in ids else None
        assert scribe.loaded(checkpoint_id) == replace(written, parent_id=parent)


# -- which checkpoints are deleted


@pytest.mark.parametrize(("keep", "deleted"), [(1, 5), (2, 4), (5, 1), (6, 0), (99, 0)])
@pytest.mark.parametrize("folds", range(4))
def test_keep_last_keeps_the_newest_checkpoints(scribe: Any, limit: Any, folds: int, keep: int, deleted: int) -> None:
    limit(LONGEST=2)
    ids = add_growing(scribe, 6)
    for _ in range(folds):
        scribe.compact()
    assert scribe.prune(keep_last=keep) == deleted
    assert stored(scribe) == ids[deleted:]
    check(scribe)


@pytest.mark.parametrize(
    ("since", "deleted"), [(timedelta(), 0), (timedelta(seconds=3), 2), (timedelta(seconds=3.5), 3), (timedelta(9), 5)]
)
def test_keep_since_keeps_newer_checkpoints_and_always_the_head(scribe: Any, since: timedelta, deleted: int) -> None:
    ids = add_growing(scribe, 6)
    assert scribe.prune(keep_since=BEGIN + since) == deleted
    assert stored(scribe) == ids[deleted:]
    check(scribe)


def test_a_checkpoint_is_kept_if_either_rule_keeps_it(scribe: Any) -> None:
    add_growing(scribe, 6)
    assert scribe.prune(keep_last=2, keep_since=BEGIN + timedelta(seconds=3)) == 2
    assert scribe.prune(keep_last=3, keep_since=BEGIN + timedelta(seconds=6)) == 1
    check(scribe)


def test_each_line_is_pruned_separately(scribe: Any) -> None:
    inside = BranchKey("thread", "in")
    lines = [add_growing(scribe, 4), add_growing(scribe, 1, FORK), add_growing(scribe, 3, inside)]
    assert scribe.prune(keep_last=2) == 3
    assert stored(scribe) == list(itertools.chain(lines[0][2:], lines[1], lines[2][1:]))
    check(scribe)


def test_pruning_a_thread_keeps_other_threads(scribe: Any) -> None:
    add_growing(scribe, 3)
    second = add_growing(scribe, 3, BranchKey("second"))
    assert scribe.prune(thread=1, keep_last=1) == 2
    assert stored(scribe)[1:] == second
    assert scribe.prune(thread=3, keep_last=1) == 0
    check(scribe)


def test_pruning_again_changes_nothing(scribe: Any, limit: Any) -> None:
    limit(LONGEST=4)
    add_growing(scribe, 9)
    scribe.compact_all()
    assert scribe.prune(keep_last=3) == 6
    before = scribe.rows()
    assert scribe.prune(keep_last=3) == 0
    assert scribe.rows() == before
    assert scribe.prune(keep_last=2) == 1
    check(scribe)


@pytest.mark.parametrize("folds", [False, True])
def test_a_dry_run_counts_the_checkpoints_and_changes_nothing(scribe: Any, folds: bool) -> None:
    ids = add_growing(scribe, 6, logs=1)
    add_growing(scribe, 2, FORK, after=ids[2])
    if folds:
        scribe.compact()
    before = scribe.rows()
    assert scribe.prune(keep_last=2, dry_run=True) == 4
    assert scribe.rows() == before
    assert scribe.prune(keep_last=2) == 4


# -- what is kept


@pytest.mark.parametrize("folds", [(), (LINE,), (FORK,), (LINE, FORK)])
def test_a_fork_of_a_deleted_checkpoint_keeps_its_state(scribe: Any, folds: tuple[BranchKey, ...]) -> None:
    ids = add_growing(scribe, 6)
    forked = scribe.add({"f": 1}, line=FORK, after=ids[2])
    following = scribe.add({"words": Added(["f"])}, line=FORK)
    scribe.add({"words": Added(["g"])}, line=FORK)
    for line in folds:
        scribe.compact(line)
    assert scribe.prune(keep_last=3) == 3
    assert scribe.loaded(forked).parent_id is None
    assert scribe.loaded(following).parent_id == forked
    assert scribe.loaded(following).checkpoint.values == {"n": 2, "words": [0, 1, 2, "f"], "f": 1}
    check(scribe)


@pytest.mark.parametrize("folds", [False, True])
def test_a_fork_of_a_kept_checkpoint_keeps_its_parent(scribe: Any, folds: bool) -> None:
    ids = add_growing(scribe, 6)
    forked = scribe.add({"f": 1}, line=FORK, after=ids[3])
    if folds:
        scribe.compact()
    assert scribe.prune(keep_last=3) == 3
    assert scribe.loaded(forked).parent_id == ids[3]
    assert scribe.loaded(forked).checkpoint.values == {"n": 3, "words": [0, 1, 2, 3], "f": 1}
    check(scribe)


def test_appended_items_are_stored_once_when_a_segment_is_cut(scribe: Any) -> None:
    scribe.add({"words": Added(["a word that occurs nowhere else"])})
    add_growing(scribe, 5)
    scribe.compact()
    assert scribe.prune(keep_last=3) == 3
    cells = [cell for rows in scribe.rows().values() for row in rows for cell in row if isinstance(cell, bytes)]
    assert sum(cell.count(b"occurs nowhere else") for cell in cells) == 1
    check(scribe)


def test_a_checkpoint_loses_its_parent_when_a_jump_to_it_is_pruned(scribe: Any) -> None:
    ids = add_growing(scribe, 4)
    back = scribe.add({"back": 1}, after=ids[0])
    add_growing(scribe, 1)
    assert scribe.prune(keep_last=3) == 3
    assert [scribe.loaded(checkpoint_id).parent_id for checkpoint_id in (ids[3], back)] == [None, None]
    assert scribe.loaded(back).checkpoint.values == {"n": 0, "words": [0], "back": 1}
    check(scribe)


def test_a_pruned_fork_has_no_jump_to_its_origin(scribe: Any) -> None:
    ids = add_growing(scribe, 4)
    scribe.add({"f": 1}, line=FORK, after=ids[1])
    add_growing(scribe, 3, FORK)
    assert scribe.prune(keep_last=1) == 6
    assert scribe.rows()["jumps"] == [
        (IDS.row_id(1, 3), None),
        (IDS.row_id(2, 3), None),
    ]
    check(scribe)


def test_pending_results_are_kept_with_their_checkpoint(scribe: Any) -> None:
    ids = add_growing(scribe, 4)
    for checkpoint_id in ids:
        scribe.note(checkpoint_id, Pending(errors={"a" * 32: "E"}))
    scribe.prune(keep_last=2)
    assert [row[0] for row in scribe.rows()["pending"]] == [
        IDS.row_id(1, 2),
        IDS.row_id(1, 3),
    ]
    check(scribe)


@pytest.mark.parametrize("folds", range(4))
def test_pruning_keeps_all_events(scribe: Any, limit: Any, folds: int) -> None:
    limit(LONGEST=2)
    ids = add_growing(scribe, 7, logs=2)
    add_growing(scribe, 3, FORK, after=ids[1], run_id="other", logs=1)
    for _ in range(folds):
        scribe.compact(), scribe.compact(FORK)
    before = scribe.numbered_events(), scribe.numbered_events("other")
    scribe.prune(keep_last=2)
    assert (scribe.numbered_events(), scribe.numbered_events("other")) == before
    scribe.add({}, logs=1)
    assert [event.seq for event in scribe.numbered_events()] == list(range(1, 16))


@pytest.mark.parametrize("keep", range(1, 9))
def test_pruning_leaves_no_rows_of_deleted_checkpoints(scribe: Any, limit: Any, keep: int) -> None:
    limit(LONGEST=3)
    ids = add_growing(scribe, 8)
    scribe.add({}, after=ids[6])
    for checkpoint_id in ids:
        scribe.note(checkpoint_id, Pending(errors={"a" * 32: "E"}))
    scribe.compact_all()
    deleted = scribe.prune(keep_last=keep)
    first, rows = 9 - keep, scribe.rows()
    assert deleted == first
    for table in ("records", "segments", "jumps", "pending"):
        assert [row[0] for row in rows[table] if row[0] < IDS.row_id(1, first)] == []
    assert min((begin for begin, _ in scribe.sizes()), default=first) == first
    assert [last for _, _, last, *_ in rows["grown"] if last < first] == []
    check(scribe)


# -- commits after pruning


@pytest.mark.parametrize("options", [{}, {"compress": True}, {"key": bytes(32)}])
def test_commits_and_compactions_work_after_pruning(tmp_path: Path, scribe_of: Any, limit: Any, options: Any) -> None:
    limit(LONGEST=4, SMALL=0, MOST_WITHOUT_BASE=2)
    with SqliteDatabase(tmp_path / "a.db", **options) as database:
        scribe = scribe_of(database)
        add_growing(scribe, 15)
        scribe.compact_all()
        for keep in (11, 10, 6, 3, 1):
            scribe.prune(keep_last=keep)
            check(scribe)
            add_growing(scribe, 3)
            check(scribe)
            scribe.compact_all()
            check(scribe)


@pytest.mark.parametrize("longest", [1, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_random_checkpoints_are_unchanged_after_pruning(scribe: Any, limit: Any, seed: int, longest: int) -> None:
    limit(LONGEST=longest, SMALL=seed * 20, MOST_WITHOUT_BASE=1 + seed)
    for keep in (9, 4, 7, 1):
        # The walk forks only at stored checkpoints.
        scribe.written = {checkpoint_id: scribe.written[checkpoint_id] for checkpoint_id in stored(scribe)}
        scribe.random_walk(seed + keep, 15)
        for line in tuple(scribe.heads):
            scribe.compact(line)
        logs = [scribe.numbered_events(run) for run in ("r", "s")]
        planned = scribe.prune(keep_last=keep, dry_run=True)
        before = len(stored(scribe))
        assert scribe.prune(keep_last=keep) == planned == before - len(stored(scribe))
        check(scribe)
        assert [scribe.numbered_events(run) for run in ("r", "s")] == logs
        for line in tuple(scribe.heads):
            scribe.compact_all(line)
        check(scribe)
