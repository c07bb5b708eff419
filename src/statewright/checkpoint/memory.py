"""A saver in memory: for tests, and for programs whose threads may end with the process.

It keeps the very objects that runs work with, which is safe because nobody changes a value in place; the cost of a
commit does not depend on the size of the state.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from statewright.checkpoint.model import Commit, Hold, Lease, Line, Pending, SavedCheckpoint
from statewright.errors import CheckpointConflict, CheckpointNotFound, Fenced, ThreadBusy
from statewright.events import Event
from statewright.ids import CheckpointId


class _Thread:
    """The checkpoints of one thread by namespace and id, in order of saving, and the head of each line."""

    def __init__(self) -> None:
        self.saved: dict[str, dict[str, SavedCheckpoint]] = {}
        self.heads: dict[tuple[str, str], CheckpointId] = {}
        self.lease: Lease | None = None
        self.epoch = 0
        self.log: list[Event] = []
        self.numbers: Counter[str] = Counter()

    def write(self, events: Sequence[Event]) -> None:
        """Add to the log, numbered run by run."""
        for event in events:
            self.numbers[event.run_id] += 1
            event.seq = self.numbers[event.run_id]
            self.log.append(event)

    def check(self, thread_id: str, hold: Hold | None) -> None:
        """Raise ThreadBusy or Fenced if a hold is not right."""
        lease = self.lease
        if hold is None or (lease is not None and lease.owner == hold.owner):
            return
        if not hold.claims:
            raise Fenced(thread_id, hold.owner, lease.owner if lease is not None else None)
        if lease is not None and lease.until > hold.now:
            raise ThreadBusy(thread_id, lease.owner, lease.until)

    def take(self, hold: Hold | None) -> None:
        """Take, keep or let go of the thread."""
        if hold is None:
            return
        lease = self.lease if self.lease is not None and self.lease.owner == hold.owner else None
        if lease is None:
            self.epoch += 1
        wanted = lease.wanted if lease is not None else None
        self.lease = Lease(hold.owner, self.epoch, hold.until, wanted) if hold.until is not None else None

    def copy(self, to: str) -> _Thread:
        copied = _Thread()
        copied.heads = dict(self.heads)
        copied.numbers = Counter(self.numbers)
        for event in self.log:
            own = copy(event)
            own.thread_id = to
            copied.log.append(own)
        copied.saved = {
            namespace: {
                key: replace(one, line=one.line._replace(thread_id=to), pending=one.pending.merged(Pending()))
                for key, one in saved.items()
            }
            for namespace, saved in self.saved.items()
        }
        return copied


class InMemorySaver:
    """Keeps the checkpoints of threads in a dict; safe to use from several threads."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def from_conn_string(cls, conn_string: str = "") -> Self:
        """A new saver; there is nothing to connect to."""
        return cls()

    def close(self) -> None:
        """Nothing is held open."""

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> SavedCheckpoint | None:
        thread = self._threads.get(thread_id)
        if thread is None:
            return None
        wanted = checkpoint_id or thread.heads.get((namespace, branch))
        return thread.saved.get(namespace, {}).get(wanted) if wanted is not None else None

    def commit(self, commit: Commit) -> CheckpointId:
        line = commit.line
        with self._lock:
            thread = self._threads.get(line.thread_id) or _Thread()
            head = thread.heads.get((line.namespace, line.branch))
            thread.check(line.thread_id, commit.hold)
            if head != commit.expected:
                raise CheckpointConflict(line.thread_id, commit.expected, head)
            self._threads[line.thread_id] = thread
            thread.take(commit.hold)
            saved = thread.saved.setdefault(line.namespace, {})
            parent = saved.get(commit.parent_id) if commit.parent_id is not None else None
            if parent is not None and parent.pending.journal and commit.source != "fork":
                kept = replace(parent.pending, journal={})  # its tasks are consumed, or taken along
                saved[parent.id] = replace(parent, pending=kept)
            identity = CheckpointId(commit.checkpoint.id)
            saved[identity] = _saved(commit)
            thread.heads[line.namespace, line.branch] = identity
            thread.write(commit.events)
            for namespace in commit.drops:
                _drop(thread, namespace)
        return identity

    def save_results(
        self,
        line: Line,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: Hold | None = None,
        events: Sequence[Event] = (),
    ) -> None:
        with self._lock:
            thread = self._threads.get(line.thread_id) or _Thread()
            thread.check(line.thread_id, hold)
            saved = thread.saved.get(line.namespace, {})
            if checkpoint_id not in saved:
                raise CheckpointNotFound(
                    f"Thread {line.thread_id!r} has no checkpoint {checkpoint_id!r} to which results could be added."
                )
            thread.take(hold)
            thread.write(events)
            known = saved[checkpoint_id]
            saved[checkpoint_id] = replace(known, pending=known.pending.merged(pending))

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        with self._lock:
            thread = self._threads.get(thread_id)
            log = list(thread.log) if thread is not None else []
        found = [one for one in log if run_id is None or (one.run_id == run_id and (one.seq or 0) > after)]
        return found[:limit]

    def renew(self, thread_id: str, hold: Hold) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            thread.check(thread_id, hold)
            thread.take(hold)
            return thread.lease

    def lease(self, thread_id: str) -> Lease | None:
        thread = self._threads.get(thread_id)
        return thread.lease if thread is not None else None

    def want(self, thread_id: str, what: str) -> Lease | None:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None or thread.lease is None:
                return None
            thread.lease = thread.lease._replace(wanted=what)
            return thread.lease

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> Sequence[SavedCheckpoint]:
        with self._lock:
            thread = self._threads.get(thread_id) or _Thread()
            saved = dict(thread.saved.get(namespace, {}))
            head = thread.heads.get((namespace, branch or "main"))
        found = list(reversed(saved.values())) if branch is None else _ancestry(saved, head)
        if before is not None:
            places = [place for place, one in enumerate(found) if one.id == before]
            if not places:
                raise CheckpointNotFound(f"Thread {thread_id!r} has no checkpoint {before!r}. List its history.")
            found = found[places[0] + 1 :]
        return found[:limit]

    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        thread = self._threads.get(thread_id) or _Thread()
        return sorted(branch for space, branch in thread.heads if space == namespace)

    def copy_thread(self, thread_id: str, to: str) -> None:
        with self._lock:
            if thread_id not in self._threads:
                raise CheckpointNotFound(f"There is no thread {thread_id!r} to copy.")
            if to in self._threads:
                found = self._threads[to].heads.get(("", "main"))
                raise CheckpointConflict(to, None, found)
            self._threads[to] = self._threads[thread_id].copy(to)

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._threads.pop(thread_id, None)


def _saved(commit: Commit) -> SavedCheckpoint:
    return SavedCheckpoint(
        line=commit.line,
        parent_id=commit.parent_id,
        checkpoint=commit.checkpoint,
        source=commit.source,
        run_id=commit.run_id,
        created_at=commit.created_at,
        metadata=commit.metadata,
        pending=commit.pending or Pending(),
    )


def _drop(thread: _Thread, namespace: str) -> None:
    """Forget a namespace and those inside it."""
    inside = [
        space for space in thread.saved if space == namespace or space.startswith((namespace + "|", namespace + ":"))
    ]
    for space in inside:
        del thread.saved[space]
    for space, branch in [line for line in thread.heads if line[0] in inside]:
        del thread.heads[space, branch]


def _ancestry(saved: dict[str, SavedCheckpoint], head: CheckpointId | None) -> list[SavedCheckpoint]:
    found: list[SavedCheckpoint] = []
    while head is not None and head in saved:
        found.append(saved[head])
        head = saved[head].parent_id
    return found
