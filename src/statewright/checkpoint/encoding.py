"""Commits as bytes, for savers outside memory, and for checks by savers in memory.

Both use `Encoder`, so that a value that cannot be stored raises the same error in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from statewright.channels import MISSING
from statewright.checkpoint.forms import REPORTED, key_of, plain_control, plain_entries, plain_log, plain_pending
from statewright.checkpoint.model import Commit, Pending
from statewright.errors import SerdeError
from statewright.events import Log
from statewright.serde.serde import Serde

Entries = Sequence[tuple[int, str, bytes]]
"""Encoded results for a frontier."""


class EncodedCommit(NamedTuple):
    """The parts of a commit as they are stored."""

    key: bytes
    """The key of the checkpoint."""
    expected: bytes | None
    """The key of the head that the branch must have."""
    control: bytes
    changes: bytes | None
    entries: Entries
    """Results for its frontier."""
    events: bytes | None
    """The log entries of the commit itself, which are stored with it."""
    log: bytes | None
    """Log entries of another run or time, which are stored separately."""

    @property
    def size(self) -> int:
        """The size of the checkpoint in bytes."""
        return len(self.control) + (len(self.changes) if self.changes is not None else 0)


class Encoder:
    """Encodes commits and results. Each method raises SerdeError with the path to a value that cannot be stored."""

    def __init__(self, serde: Serde, encode: Callable[[Any, str], bytes] | None = None) -> None:
        """Encode values with `encode`, which gets their paths, or with the serde alone."""
        self.serde = serde
        self._encode = encode or serde.encode

    def commit(self, commit: Commit) -> EncodedCommit:
        """Return all parts of a commit. Without deltas, the changes are all values, as if there were no parent."""
        log = commit.log
        events = self.log_beside(log, commit) if log is not None else None
        return EncodedCommit(
            key_of(commit.checkpoint.id),
            key_of(commit.expected) if commit.expected is not None else None,
            self.control(commit),
            self.changes(commit, commit.deltas),
            self.entries(commit.pending),
            events,
            self.log(log, commit.branch_key.namespace) if log is not None and events is None else None,
        )

    def control(self, commit: Commit) -> bytes:
        """Return all data of the checkpoint of a commit except its values."""
        return self._encode(plain_control(commit), "checkpoint")

    def changes(self, commit: Commit, deltas: Mapping[str, Any] | None) -> bytes | None:
        """Return the changes of the checkpoint of a commit; None if there are none."""
        reported = commit.reported
        changes = commit.checkpoint.values if deltas is None else deltas
        if reported is not None:
            changes = {**changes, REPORTED: reported}
        return self._encode(changes, "values") if changes else None

    def all_values(self, commit: Commit, parent_fields: Iterable[str]) -> bytes | None:
        """Return all values of a commit as changes, which also remove the other fields of its parent."""
        checkpoint = commit.checkpoint
        reported = {REPORTED: [[name, update] for name, update in checkpoint.reported]} if checkpoint.reported else {}
        changes = {**dict.fromkeys(parent_fields, MISSING), **checkpoint.values, **reported}
        return self._encode(changes, "values") if changes else None

    def entries(self, pending: Pending | None) -> Entries:
        """Return the saved results of a frontier, entry by entry."""
        if not pending:
            return ()
        try:
            return [(kind, key, self._encode(plain, key)) for kind, key, plain in plain_pending(pending, self.serde)]
        except SerdeError:
            for path, value in _values_of(pending):  # to raise it again with a path in the user's terms
                self.serde.encode(value, path)
            raise

    def log_beside(self, log: Log, commit: Commit) -> bytes | None:
        """Return the log entries of a commit without their run and time; None if these are not those of the commit."""
        if log.run_id != commit.run_id or log.at != commit.created_at:
            return None
        return self._encode(plain_entries(log, commit.checkpoint.step), "event")

    def log(self, log: Log, namespace: str) -> bytes:
        """Return an addition to a log as a row of its own."""
        return self._encode([plain_log(log, namespace)], "event")

    def check(self, commit: Commit) -> None:
        """Raise SerdeError if a part of a commit, or of the commits beside it, cannot be stored."""
        self.control(commit)
        self.changes(commit, commit.deltas)
        self.check_results(commit.pending, commit.log, commit.branch_key.namespace)
        for sibling in commit.siblings:
            self.check(sibling)

    def check_results(self, pending: Pending | None, log: Log | None, namespace: str) -> None:
        """Raise SerdeError if results or additions to a log cannot be stored."""
        self.entries(pending)
        if log is not None:
            self.log(log, namespace)


def _values_of(pending: Pending) -> Iterator[tuple[str, Any]]:
    """Yield user-defined values with their paths."""
    for result in pending.completed.values():
        writes = result.writes
        for name, update in writes.items() if isinstance(writes, dict) else writes:
            yield f"the update of {result.task.node!r}: {name}", update
        for target in result.targets:
            yield f"a target of {result.task.node!r}", target
    for question in chain(*pending.interrupts.values(), *pending.settled.values()):
        yield "the value of a question", question.value
    for interrupt_id, answer in pending.answers.items():
        yield f"the answer to question {interrupt_id}", answer
    for (_, name, _), entry in pending.journal.items():
        yield f"the result of step {name!r}", entry.value
