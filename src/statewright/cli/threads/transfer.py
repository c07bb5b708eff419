"""Transfer of a thread between two savers: its history is committed again to the target, oldest checkpoint first.

Ids, parents, branches, subgraphs, open interrupts, saved results, metadata and logs are preserved; the new thread has
no lease. Each checkpoint is committed as its changes since its parent. Changes are detected by object identity, because
checkpoints that a saver reads together share the objects of unchanged fields, and the items of lists that have grown.
If a saver does not share them, whole fields are stored again, which is correct but takes more space.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from itertools import groupby
from typing import Any, Final, NamedTuple

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
from statewright.clock import clock_of
from statewright.events import Event, Log
from statewright.futures import resolve
from statewright.ids import CheckpointId, new_checkpoint_id, new_run_id

_MAX_IN_FLIGHT: Final = 256
"""The maximum number of commits in flight; they share transactions."""


def transfer_thread(source: Checkpointer, thread_id: str, target: Checkpointer, target_id: str) -> int:
    """Copy a thread of `source` to the new thread `target_id` of `target`, and return the number of checkpoints.

    If the copy fails, the new thread is deleted.
    """
    writer = _Writer(target, target_id)
    try:
        events = resolve(source.events(thread_id))
        writer.register_runs(events)
        for namespace in resolve(source.namespaces(thread_id)):
            for saved, parent in _iter_in_order(source, thread_id, namespace):
                writer.write(saved, parent)
                if not writer.has_created_thread:
                    writer.write_logs(saved, events)
        writer.flush()
        _restore_changed_time(target, target_id, _changed_at(source, thread_id))
    except BaseException:
        # A thread that another process has created in the meantime is not deleted.
        if writer.has_created_thread or not resolve(target.branches(target_id)):
            resolve(target.delete_thread(target_id))
        raise
    return writer.count


def _changed_at(source: Checkpointer, thread_id: str) -> datetime:
    entries: Sequence[ThreadEntry] = resolve(source.threads(prefix=thread_id))
    return next((entry.changed_at for entry in entries if entry.thread_id == thread_id), clock_of(source).now())


def _restore_changed_time(target: Checkpointer, target_id: str, at: datetime) -> None:
    """Set the new thread's time of last change to `at`, that of the original, by taking a lease that ends then."""
    owner = new_run_id()
    resolve(target.renew(target_id, LeaseRequest(owner, at, None, claims=True)))


# -- reading


class _CheckpointRef(NamedTuple):
    """The data by which a checkpoint is sorted: its id, the id of its parent, and its branch."""

    id: CheckpointId
    parent: CheckpointId | None
    branch: str


def _iter_in_order(
    source: Checkpointer, thread_id: str, namespace: str
) -> Iterator[tuple[SavedCheckpoint, SavedCheckpoint | None]]:
    """Yield the checkpoints of a namespace, each with its parent. Parents come before their children.

    The head of each branch comes last in its branch, so that it becomes the head of the new branch. The history is read
    twice: first to determine this order, without keeping the values, and then page by page to yield the checkpoints.
    """
    refs = _list_refs(source, thread_id, namespace)
    branches: Sequence[str] = resolve(source.branches(thread_id, namespace=namespace))
    heads = {
        head.id for name in branches if (head := resolve(source.load(thread_id, namespace=namespace, branch=name)))
    }
    order = deque(_sort(list(reversed(refs)), heads))
    waiting: dict[CheckpointId, SavedCheckpoint] = {}  # checkpoints that were read before their turn
    latest_of_branch: dict[str, SavedCheckpoint] = {}
    for saved in _read_oldest_first(source, thread_id, namespace, [ref.id for ref in refs]):
        latest = latest_of_branch.get(saved.branch_key.branch)
        if latest is not None and latest.id == saved.id:
            # It was read again as the first of this page, so its values are shared with the rest of the page.
            latest_of_branch[saved.branch_key.branch] = saved
            continue
        waiting[saved.id] = saved
        while order and order[0].id in waiting:
            ref = order.popleft()
            checkpoint = waiting.pop(ref.id)
            parent = latest_of_branch.get(ref.branch)
            if ref.parent is not None and (parent is None or parent.id != ref.parent):  # a fork
                parent = resolve(source.load(thread_id, namespace=namespace, checkpoint_id=ref.parent))
            yield checkpoint, parent if ref.parent is not None else None
            latest_of_branch[ref.branch] = checkpoint


def _list_refs(source: Checkpointer, thread_id: str, namespace: str) -> list[_CheckpointRef]:
    """Return references to the checkpoints of a namespace, newest first. A parent that was pruned becomes None."""
    refs = [
        _CheckpointRef(saved.id, saved.parent_id, saved.branch_key.branch)
        for page in iter_pages(source, thread_id, namespace)
        for saved in page
    ]
    ids = {ref.id for ref in refs}
    return [ref if ref.parent in ids else ref._replace(parent=None) for ref in refs]


def _read_oldest_first(
    source: Checkpointer, thread_id: str, namespace: str, ids: Sequence[CheckpointId]
) -> Iterator[SavedCheckpoint]:
    """Yield the checkpoints with these ids, from the oldest to the newest; `ids` are in the opposite order.

    The checkpoints are read page by page, so that a long history is never entirely in memory. Each page begins with the
    last checkpoint of the previous page, because only checkpoints that are read together share values.
    """
    for start in reversed(range(0, len(ids), PAGE)):
        size = min(PAGE + 1, len(ids) - start)
        if start:
            page = resolve(source.history(thread_id, namespace=namespace, before=ids[start - 1], limit=size))
        else:
            page = resolve(source.history(thread_id, namespace=namespace, limit=size))
        yield from reversed(page)


def _sort(refs: Sequence[_CheckpointRef], heads: set[CheckpointId]) -> Iterator[_CheckpointRef]:
    """Sort checkpoints topologically: parents first, and heads after the rest of their branch.

    Otherwise the order of `refs` is kept, which by itself would not suffice if the clock was set back.
    """
    indexes = {ref.id: index for index, ref in enumerate(refs)}
    sorter = TopologicalSorter[int]()
    for index, ref in enumerate(refs):
        sorter.add(index, *([indexes[ref.parent]] if ref.parent is not None else []))
        if ref.id in heads:
            sorter.add(index, *(indexes[other.id] for other in refs if other.branch == ref.branch and other is not ref))
    sorter.prepare()
    ready: list[int] = []  # a heap of the indexes of checkpoints whose predecessors have been yielded
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        index = heapq.heappop(ready)  # the oldest, because checkpoints are read in this order
        yield refs[index]
        sorter.done(index)


# -- writing


class _Writer:
    """Commits checkpoints to a new thread."""

    def __init__(self, target: Checkpointer, target_id: str) -> None:
        self._target = target
        self._target_id = target_id
        self._heads: dict[BranchKey, CheckpointId] = {}
        self._in_flight: deque[Any] = deque()
        self.has_created_thread = False
        """True once a checkpoint has been written, which shows that this transfer has created the thread."""
        self.count = 0
        """Number of checkpoints written."""

    def write(self, saved: SavedCheckpoint, parent: SavedCheckpoint | None) -> None:
        """Commit a checkpoint to the new thread."""
        branch = saved.branch_key._replace(thread_id=self._target_id)
        self._commit(
            Commit(
                branch_key=branch,
                expected=self._heads.get(branch),
                parent_id=parent.id if parent is not None else None,
                checkpoint=saved.checkpoint,
                deltas=changed_fields(parent.checkpoint.values, saved.checkpoint.values) if parent else None,
                reported=_reported_updates(saved.checkpoint, parent.checkpoint if parent else None),
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
            self._commit_temporary(BranchKey(self._target_id, _TEMPORARY), run, clock_of(self._target).now(), None)

    def write_logs(self, saved: SavedCheckpoint, events: Iterable[Event]) -> None:
        """Write the logs of all runs, after waiting until the first checkpoint, `saved`, has been written.

        Logs of subgraphs are saved with temporary checkpoints, because the checkpoints of the subgraphs may no longer
        exist; other logs are saved with `saved`.
        """
        self.flush()
        self.has_created_thread = True
        branch = saved.branch_key._replace(thread_id=self._target_id)  # the thread may have no main branch
        for (run, namespace, at), group in groupby(events, lambda event: (event.run_id, event.namespace, event.at)):
            entries: Iterable[Any] = (
                (event.kind, event.step, event.node, event.task_id, event.data) for event in group
            )
            log = Log(run, at or saved.created_at, tuple(entries))
            if namespace:
                self._commit_temporary(BranchKey(self._target_id, namespace), run, log.at, log)
            else:
                self.flush()
                resolve(self._target.save_results(branch, saved.id, Pending(), log=log))

    def _commit_temporary(self, branch: BranchKey, run_id: str, at: datetime, log: Log | None) -> None:
        """Commit a checkpoint that is dropped at once. Its log is kept, as it is after the call of a subgraph ends."""
        checkpoint = Checkpoint(new_checkpoint_id(), 0, {}, ())
        self._commit(
            Commit(
                branch_key=branch,
                expected=None,
                parent_id=None,
                checkpoint=checkpoint,
                deltas=None,
                source="loop",
                run_id=run_id,
                created_at=at,
                log=log,
                dropped_namespaces=(branch.namespace,),
                overlaps=True,
            )
        )

    def _commit(self, commit: Commit) -> None:
        self._in_flight.append(self._target.commit(commit))
        while len(self._in_flight) > _MAX_IN_FLIGHT:
            resolve(self._in_flight.popleft())

    def flush(self) -> None:
        """Wait until all commits are written. Raises the first error."""
        while self._in_flight:
            resolve(self._in_flight.popleft())


_TEMPORARY: Final = "\x1fcarried"
"""A namespace that no subgraph can have."""


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes between two states, by field: appended items, a new value, or MISSING for a removed field."""
    old = dict.fromkeys(after, MISSING) | dict(before)
    changes = {key: difference(old[key], value) for key, value in after.items() if value is not old[key]}
    return changes | {key: MISSING for key in before if key not in after}


def _reported_updates(checkpoint: Checkpoint, parent: Checkpoint | None) -> list[list[Any]] | None:
    """Return the updates that a subgraph reports to its caller; None if a checkpoint and its parent both have none."""
    if not checkpoint.reported and (parent is None or not parent.reported):
        return None
    return [[name, update] for name, update in checkpoint.reported]
