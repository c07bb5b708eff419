"""Lists of the checkpoints of a thread, newest first.

The list of a branch follows the path of ancestors from the head. The list of all branches is sorted by time. If
checkpoints are consecutive, only one state is read from the database, and the others are computed from their changes.
The last checkpoint of a page is kept in memory, because the next page usually continues there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from statewright.checkpoint import BranchKey, SavedCheckpoint, Values
from statewright.errors import CheckpointNotFound
from statewright.ids import CheckpointId
from statewright.page import cut_page
from statewright.storage.checkpoints.history import HistoryReader, State
from statewright.storage.row_ids import Interval


class HistoryLister:
    """Lists the checkpoints of the threads of a workspace."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._page_end: _PageEnd | None = None

    def load_page(
        self,
        reader: HistoryReader,
        thread_id: str,
        namespace: str,
        branch: str | None,
        before: CheckpointId | None,
        limit: int | None,
    ) -> list[SavedCheckpoint]:
        """Return a page of a history. The arguments are those of `Checkpointer.history`."""
        branch_key = BranchKey(thread_id, namespace, branch or "main")
        page = self._page(reader, branch_key, branch, before, limit)
        return self._checkpoints(reader, page, branch_key, before, is_page=limit is not None)

    def load_outlines(
        self,
        reader: HistoryReader,
        thread_id: str,
        namespace: str,
        branch: str | None,
        before: CheckpointId | None,
        limit: int | None,
    ) -> list[SavedCheckpoint]:
        """Return a page of a history like `load_page`, but of checkpoints without values and results of tasks."""
        branch_key = BranchKey(thread_id, namespace, branch or "main")
        row_ids = list(self._page(reader, branch_key, branch, before, limit))
        branches = dict(reader.lines_of(self._workspace, thread_id, namespace))
        outlines = reader.outlines(row_ids, branch_key)
        return [
            _with_branch(outline, branches[reader.ids.line(row_id)])
            for outline, row_id in zip(outlines, row_ids, strict=True)
        ]

    def _page(
        self,
        reader: HistoryReader,
        branch_key: BranchKey,
        branch: str | None,
        before: CheckpointId | None,
        limit: int | None,
    ) -> Iterator[int]:
        """Return the row ids of a page of a history, newest first."""
        if branch is not None:
            row_ids = self._ancestry(reader, branch_key, before)
        else:
            row_ids = iter(self._all_branches(reader, branch_key))
            row_ids = row_ids if before is None else self._skip_to(reader, row_ids, before, branch_key)
        return islice(row_ids, cut_page(limit).stop)

    def _skip_to(
        self, reader: HistoryReader, row_ids: Iterator[int], before: CheckpointId, branch_key: BranchKey
    ) -> Iterator[int]:
        """Return the row ids that follow a checkpoint. Raises CheckpointNotFound if they do not contain it."""
        candidates = self._candidates(reader, branch_key, before)
        if not any(row_id in candidates for row_id in row_ids):  # consumes the row ids up to the checkpoint
            raise _not_found(branch_key, before)
        return row_ids

    def _candidates(self, reader: HistoryReader, branch_key: BranchKey, checkpoint_id: CheckpointId) -> set[int]:
        """Return the row ids of a checkpoint in a namespace, several if there are copies of it on other branches."""
        numbers = [number for number, _ in reader.lines_of(self._workspace, branch_key.thread_id, branch_key.namespace)]
        row_ids = (reader.find_checkpoint(number, checkpoint_id) for number in numbers)
        return {row_id for row_id in row_ids if row_id is not None}

    def _ancestry(self, reader: HistoryReader, branch_key: BranchKey, before: CheckpointId | None) -> Iterator[int]:
        """Yield the row ids of the head of a branch and its ancestors, newest first.

        If `before` is not None, yield only the row ids that follow this checkpoint. Raises CheckpointNotFound if it is
        not among them.
        """
        head = reader.find_head(self._workspace, branch_key)
        path = _checked_path(reader, head) if head is not None else iter(())
        if before is not None:
            candidates = self._candidates(reader, branch_key, before)
            for interval in path:
                first, last = reader.ids.ends(interval)
                row_id = next((row_id for row_id in candidates if first <= row_id <= last), None)
                if row_id is not None:
                    yield from range(row_id - 1, first - 1, -1)
                    break
            else:
                raise _not_found(branch_key, before)
        for interval in path:
            first, last = reader.ids.ends(interval)
            yield from range(last, first - 1, -1)

    def _all_branches(self, reader: HistoryReader, branch_key: BranchKey) -> list[int]:
        """Return the row ids of all checkpoints of a namespace, newest first."""
        ages: list[tuple[datetime, bytes, int]] = []
        for number, _ in reader.lines_of(self._workspace, branch_key.thread_id, branch_key.namespace):
            ages.extend(reader.ages(number))
        return [row_id for _, _, row_id in sorted(ages, reverse=True)]

    def _checkpoints(
        self,
        reader: HistoryReader,
        row_ids: Iterable[int],
        branch_key: BranchKey,
        before: CheckpointId | None,
        *,
        is_page: bool,
    ) -> list[SavedCheckpoint]:
        """Return the checkpoints with these row ids, in the same order."""
        branches = dict(reader.lines_of(self._workspace, branch_key.thread_id, branch_key.namespace))
        child = self._previous_page_end(branch_key, before)
        checkpoints: list[SavedCheckpoint] = []
        for path in _split_into_paths(row_ids, reader.parent_of):
            if child is not None and reader.parent_of(child.row_id) != path[0]:
                child = None
            saved = reader.checkpoints(path, branch_key, child)
            for saved_checkpoint, row_id in zip(saved, path, strict=True):
                checkpoints.append(_with_branch(saved_checkpoint, branches[reader.ids.line(row_id)]))
            child = None
            if is_page:
                self._page_end = _PageEnd(
                    branch_key.thread_id,
                    branch_key.namespace,
                    saved[-1].id,
                    path[-1],
                    _with_copied_containers(saved[-1]),
                )
        return checkpoints

    def _previous_page_end(self, branch_key: BranchKey, before: CheckpointId | None) -> State | None:
        """Return the last checkpoint of the previous page, if the requested page follows it; None otherwise.

        A page needs the state of its oldest checkpoint, which can be computed backwards from this checkpoint. If that
        state were read from the database for each page, paging through a long history would take quadratic time.
        """
        end = self._page_end
        if end is None or before is None or end[:3] != (branch_key.thread_id, branch_key.namespace, before):
            return None
        return State(end.row_id, end.values)


def _checked_path(reader: HistoryReader, row_id: int) -> Iterator[Interval]:
    """Yield the intervals that contain a checkpoint and its ancestors, after checking that they are complete."""
    for interval in reader.path_to(row_id):
        reader.check_capacity(interval)
        yield interval


class _PageEnd(NamedTuple):
    """The last checkpoint of a page. It can be kept because checkpoints never change."""

    thread_id: str
    namespace: str
    checkpoint_id: CheckpointId
    row_id: int
    values: Values


def _not_found(branch_key: BranchKey, checkpoint_id: CheckpointId) -> CheckpointNotFound:
    return CheckpointNotFound(f"Thread {branch_key.thread_id!r} has no checkpoint {checkpoint_id!r}. List its history.")


def _with_copied_containers(saved: SavedCheckpoint) -> Values:
    """Return the state of a checkpoint with copies of containers, because users may modify the originals."""
    values: Values = {}
    for name, value in saved.checkpoint.values.items():
        values[name] = value.copy() if isinstance(value, list | dict | set) else value
    return values


def _with_branch(saved: SavedCheckpoint, branch: str) -> SavedCheckpoint:
    return (
        saved
        if saved.branch_key.branch == branch
        else replace(saved, branch_key=saved.branch_key._replace(branch=branch))
    )


def _split_into_paths(row_ids: Iterable[int], parent_of: Callable[[int], int | None]) -> Iterator[list[int]]:
    """Split a list of row ids, newest first, into lists in which each checkpoint is the parent of the one before it."""
    path: list[int] = []
    for row_id in row_ids:
        if path and parent_of(path[-1]) != row_id:
            yield path
            path = []
        path.append(row_id)
    if path:
        yield path
