"""Transfer of a thread between two savers through their port: its history is committed again, oldest first.

Ids, parents, branches, subgraphs, open interrupts, saved results, metadata and logs are preserved; the new thread has
no lease. The changed fields of a checkpoint are detected by identity: a saver that reads a stretch of history returns
the same object for an unchanged field, and the same items for a list that has grown. Other savers cause fields to be
stored whole, which is correct but takes more space.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from statewright.channels import MISSING, difference
from statewright.checkpoint import (
    BranchKey,
    Checkpoint,
    Checkpointer,
    Commit,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    ThreadEntry,
)
from statewright.cli.db.database import PAGE, iter_pages
from statewright.events import DurableKind, Event, Log
from statewright.futures import resolve
from statewright.ids import CheckpointId, draw_checkpoint_id, draw_run_id

_MAX_IN_FLIGHT: Final = 256
"""Commits in flight at a time; they share transactions."""


def transfer_thread(source: Checkpointer, thread_id: str, target: Checkpointer, to: str) -> int:
    """Copy a thread of `source` to the thread `to` of `target`, and return the number of checkpoints.

    If it fails, the new thread is deleted.
    """
    writer = _Writer(target, to)
    try:
        events = resolve(source.events(thread_id))
        writer.register_runs(events)
        for namespace in resolve(source.namespaces(thread_id)):
            for saved, parent in _iter_in_order(source, thread_id, namespace):
                writer.write(saved, parent)
                if not writer.owns:
                    writer.begin(saved, events)
        writer.flush()
        _restore_changed_time(target, to, _changed_at(source, thread_id))
    except BaseException:
        if writer.owns or not resolve(target.branches(to)):  # otherwise the thread was created by someone else
            resolve(target.delete_thread(to))
        raise
    return writer.count


def _changed_at(source: Checkpointer, thread_id: str) -> datetime:
    entries: Sequence[ThreadEntry] = resolve(source.threads(prefix=thread_id))
    return next((entry.changed_at for entry in entries if entry.thread_id == thread_id), datetime.now(UTC))


def _restore_changed_time(target: Checkpointer, to: str, at: datetime) -> None:
    """Set the time of the last change to that of the original thread."""
    owner = draw_run_id()
    resolve(target.renew(to, LeaseRequest(owner, at, None, claims=True)))


# -- reading


class _CheckpointRef(NamedTuple):
    """A checkpoint without its values, for sorting."""

    id: CheckpointId
    parent: CheckpointId | None
    branch: str


def _iter_in_order(
    source: Checkpointer, thread_id: str, namespace: str
) -> Iterator[tuple[SavedCheckpoint, SavedCheckpoint | None]]:
    """Yield the checkpoints of a namespace, each with its parent, which has been yielded before.

    The head of each branch comes last, so that it becomes the head of the new branch.
    """
    refs = list(_checkpoint_refs(source, thread_id, namespace))  # the newest first
    branches: Sequence[str] = resolve(source.branches(thread_id, namespace=namespace))
    heads = {
        head.id for name in branches if (head := resolve(source.load(thread_id, namespace=namespace, branch=name)))
    }
    order = deque(_sorted(list(reversed(refs)), heads))
    unordered: dict[CheckpointId, SavedCheckpoint] = {}
    newest: dict[str, SavedCheckpoint] = {}
    for saved in _pages(source, thread_id, namespace, [ref.id for ref in refs]):
        latest = newest.get(saved.line.branch)
        if latest is not None and latest.id == saved.id:
            newest[saved.line.branch] = saved  # read again as the first checkpoint of the next page
            continue
        unordered[saved.id] = saved
        while order and order[0].id in unordered:
            ref = order.popleft()
            checkpoint = unordered.pop(ref.id)
            parent = newest.get(ref.branch)
            if ref.parent is not None and (parent is None or parent.id != ref.parent):  # it forks
                parent = resolve(source.load(thread_id, namespace=namespace, checkpoint_id=ref.parent))
            yield checkpoint, parent if ref.parent is not None else None
            newest[ref.branch] = checkpoint


def _checkpoint_refs(source: Checkpointer, thread_id: str, namespace: str) -> Iterator[_CheckpointRef]:
    """Yield the checkpoints of a namespace, newest first. A parent that was pruned becomes None."""
    refs = [
        _CheckpointRef(saved.id, saved.parent_id, saved.line.branch)
        for page in iter_pages(source, thread_id, namespace)
        for saved in page
    ]
    ids = {ref.id for ref in refs}
    for ref in refs:
        yield ref if ref.parent in ids else ref._replace(parent=None)


def _pages(
    source: Checkpointer, thread_id: str, namespace: str, ids: Sequence[CheckpointId]
) -> Iterator[SavedCheckpoint]:
    """Yield the listed checkpoints, oldest first, page by page, so that a long history never is in memory as a whole.

    A page begins with the last checkpoint of the previous one, because only checkpoints read together share values.
    """
    for start in reversed(range(0, len(ids), PAGE)):
        size = min(PAGE + 1, len(ids) - start)
        if start:
            page = resolve(source.history(thread_id, namespace=namespace, before=ids[start - 1], limit=size))
        else:
            page = resolve(source.history(thread_id, namespace=namespace, limit=size))
        yield from reversed(page)


def _sorted(refs: Sequence[_CheckpointRef], heads: set[CheckpointId]) -> Iterator[_CheckpointRef]:
    """Sort checkpoints topologically: parents first and heads last, even if the clock was set back."""
    rank = {ref.id: number for number, ref in enumerate(refs)}
    sorter = TopologicalSorter[int]()
    for number, ref in enumerate(refs):
        sorter.add(number, *([rank[ref.parent]] if ref.parent is not None else []))
        if ref.id in heads:
            sorter.add(number, *(rank[other.id] for other in refs if other.branch == ref.branch and other is not ref))
    sorter.prepare()
    ready: list[int] = []
    while sorter.is_active():
        for number in sorter.get_ready():
            heapq.heappush(ready, number)
        number = heapq.heappop(ready)  # of those that are ready, the oldest: it is read first
        yield refs[number]
        sorter.done(number)


# -- writing


class _Writer:
    """Commits checkpoints to a new thread."""

    def __init__(self, target: Checkpointer, to: str) -> None:
        self._target = target
        self._to = to
        self._heads: dict[BranchKey, CheckpointId] = {}
        self._in_flight: deque[Any] = deque()
        self.owns = False
        """True once this transfer has created the thread."""
        self.count = 0

    def write(self, saved: SavedCheckpoint, parent: SavedCheckpoint | None) -> None:
        """Commit a checkpoint again; `parent` is its parent."""
        branch = saved.line._replace(thread_id=self._to)
        self._commit(
            Commit(
                line=branch,
                expected=self._heads.get(branch),
                parent_id=parent.id if parent is not None else None,
                checkpoint=saved.checkpoint,
                deltas=changed_fields(parent.checkpoint.values, saved.checkpoint.values) if parent else None,
                reported=_reported(saved.checkpoint, parent.checkpoint if parent else None),
                source=saved.source,
                run_id=saved.run_id,
                created_at=saved.created_at,
                metadata=saved.metadata,
                pending=saved.pending or None,
                graph_version=saved.graph_version,
                overlaps=True,
            )
        )
        self._heads[branch] = saved.id
        self.count += 1

    def register_runs(self, events: Iterable[Event]) -> None:
        """Register the runs in the order in which they began, even if their first checkpoints were pruned."""
        for run in dict.fromkeys(event.run_id for event in events):
            self._commit_temporary(BranchKey(self._to, _TEMPORARY), run, datetime.now(UTC), None)

    def begin(self, saved: SavedCheckpoint, events: Iterable[Event]) -> None:
        """Record that the thread was created, now that its first checkpoint is written, and write the logs of its runs.

        Logs of subgraphs, which may no longer exist, go with temporary checkpoints, the others with the first one.
        """
        self.flush()
        self.owns = True
        branch = saved.line._replace(thread_id=self._to)  # of any branch: the thread may have no main branch
        for (run, namespace, at), group in groupby(events, lambda entry: (entry.run_id, entry.namespace, entry.at)):
            log = Log(run, at or saved.created_at, tuple(_entry(event) for event in group))
            if namespace:
                self._commit_temporary(BranchKey(self._to, namespace), run, log.at, log)
            else:
                self.flush()
                resolve(self._target.save_results(branch, saved.id, Pending(), log=log))

    def _commit_temporary(self, branch: BranchKey, run_id: str, at: datetime, log: Log | None) -> None:
        """Commit a checkpoint that is dropped at once. Its log stays, as it does when a call of a subgraph ends."""
        checkpoint = Checkpoint(draw_checkpoint_id(), 0, {}, ())
        self._commit(
            Commit(
                line=branch,
                expected=None,
                parent_id=None,
                checkpoint=checkpoint,
                deltas=None,
                source="loop",
                run_id=run_id,
                created_at=at,
                log=log,
                drops=(branch.namespace,),
                overlaps=True,
            )
        )

    def _commit(self, commit: Commit) -> None:
        self._in_flight.append(self._target.commit(commit))
        while len(self._in_flight) > _MAX_IN_FLIGHT:
            resolve(self._in_flight.popleft())

    def flush(self) -> None:
        """Wait until everything is written. Raises the first error."""
        while self._in_flight:
            resolve(self._in_flight.popleft())


_TEMPORARY: Final = "\x1fcarried"
"""A namespace that no subgraph can have."""


def _entry(event: Event) -> tuple[DurableKind, int, str | None, str | None, Any]:
    return cast(DurableKind, event.kind), event.step, event.node, event.task_id, event.data


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes between two states: items appended to lists, new values, MISSING for removed fields."""
    old = dict.fromkeys(after, MISSING) | dict(before)
    changes = {key: difference(old[key], value) for key, value in after.items() if value is not old[key]}
    return changes | {key: MISSING for key in before if key not in after}


def _reported(after: Checkpoint, before: Checkpoint | None) -> list[list[Any]] | None:
    """Return the updates that a subgraph reports to its caller; None if there are none and were none before."""
    if not after.reported and (before is None or not before.reported):
        return None
    return [[name, update] for name, update in after.reported]
