"""Lists of the checkpoints of a thread, the newest first.

A list of one branch follows its path of ancestors, a list of all branches is sorted by time. Consecutive checkpoints
are derived from each other, so that a page costs one state and the changes after it, and the last checkpoint of a page
is remembered, because the next page begins there.
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
        """Return checkpoints of a branch with its ancestors, or of all branches if it is None; see `Checkpointer`."""
        branch_key = BranchKey(thread_id, namespace, branch or "main")
        if branch is not None:
            row_ids = self._ancestry(reader, branch_key, before)
        else:
            row_ids = iter(self._all(reader, branch_key))
            row_ids = row_ids if before is None else self._after(reader, row_ids, before, branch_key)
        page = islice(row_ids, cut_page(limit).stop)
        return self._checkpoints(reader, page, branch_key, before, is_page=limit is not None)

    def _after(
        self, reader: HistoryReader, row_ids: Iterator[int], before: CheckpointId, branch_key: BranchKey
    ) -> Iterator[int]:
        """Return the row ids after a checkpoint. Raises CheckpointNotFound if it is not among them."""
        candidates = self._candidates(reader, branch_key, before)
        if not any(row_id in candidates for row_id in row_ids):  # consumes the row ids up to the checkpoint
            raise _not_found(branch_key, before)
        return row_ids

    def _candidates(self, reader: HistoryReader, branch_key: BranchKey, checkpoint_id: CheckpointId) -> set[int]:
        """Return the row ids of the checkpoints of a namespace with an id; a copy may be on several branches."""
        numbers = [number for number, _ in reader.lines_of(self._workspace, branch_key.thread_id, branch_key.namespace)]
        row_ids = (reader.find_checkpoint(number, checkpoint_id) for number in numbers)
        return {row_id for row_id in row_ids if row_id is not None}

    def _ancestry(self, reader: HistoryReader, branch_key: BranchKey, before: CheckpointId | None) -> Iterator[int]:
        """Yield the row ids of a branch and its ancestors, the newest first, or those after a checkpoint.

        Raises CheckpointNotFound if it is not among them.
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

    def _all(self, reader: HistoryReader, branch_key: BranchKey) -> list[int]:
        """Return the row ids of all checkpoints of a namespace, the newest first."""
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
        """Return the checkpoints with row ids, in their order. Consecutive states are derived from each other."""
        branches = dict(reader.lines_of(self._workspace, branch_key.thread_id, branch_key.namespace))
        child = self._end_of_page(branch_key, before)
        checkpoints: list[SavedCheckpoint] = []
        for stretch in _stretches(row_ids, reader.parent_of):
            if child is not None and reader.parent_of(child.row_id) != stretch[0]:
                child = None
            saved = reader.checkpoints(stretch, branch_key, child)
            for saved_checkpoint, row_id in zip(saved, stretch, strict=True):
                checkpoints.append(_with_branch(saved_checkpoint, branches[reader.ids.line(row_id)]))
            child = None
            if is_page:
                self._page_end = _PageEnd(
                    branch_key.thread_id,
                    branch_key.namespace,
                    saved[-1].id,
                    stretch[-1],
                    _with_copied_containers(saved[-1]),
                )
        return checkpoints

    def _end_of_page(self, branch_key: BranchKey, before: CheckpointId | None) -> State | None:
        """Return the last checkpoint of the previous page, if the next page is requested.

        A page needs the state of its oldest checkpoint. Derived from the previous page, it costs as much as the page;
        read from the file each time, paging through a long history would be quadratic.
        """
        end = self._page_end
        if end is None or before is None or end[:3] != (branch_key.thread_id, branch_key.namespace, before):
            return None
        return State(end.row_id, end.values)


def _checked_path(reader: HistoryReader, row_id: int) -> Iterator[Interval]:
    """Yield the intervals that lead to a checkpoint, each after a check that the database has its checkpoints."""
    for interval in reader.path_to(row_id):
        reader.check_capacity(interval)
        yield interval


class _PageEnd(NamedTuple):
    """The last checkpoint of a page of history, which never changes."""

    thread_id: str
    namespace: str
    checkpoint_id: CheckpointId
    row_id: int
    values: Values


def _not_found(branch_key: BranchKey, checkpoint_id: CheckpointId) -> CheckpointNotFound:
    return CheckpointNotFound(f"Thread {branch_key.thread_id!r} has no checkpoint {checkpoint_id!r}. List its history.")


def _with_copied_containers(saved: SavedCheckpoint) -> Values:
    """Return the state of a checkpoint with copies of containers, since users may change theirs."""
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


def _stretches(row_ids: Iterable[int], parent_of: Callable[[int], int | None]) -> Iterator[list[int]]:
    """Split row ids, the newest first, where one is not the parent of its predecessor."""
    stretch: list[int] = []
    for row_id in row_ids:
        if stretch and parent_of(stretch[-1]) != row_id:
            yield stretch
            stretch = []
        stretch.append(row_id)
    if stretch:
        yield stretch
