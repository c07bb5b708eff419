"""Encoding of commits as bytes, for savers that use a database.

A saver in memory can use the same `Encoder` to check values, so that a value that cannot be stored raises the same
error everywhere.
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
"""Encoded results of tasks in a frontier: the kind of each entry, its key, and its encoded content (see `forms.py`)."""


class EncodedCommit(NamedTuple):
    """The encoded parts of a commit."""

    key: bytes
    """The key of the checkpoint."""
    expected: bytes | None
    """The key of the checkpoint that must be the head of the branch; None if the branch must not exist."""
    control: bytes
    """All data of the checkpoint except its values."""
    changes: bytes | None
    """The changes of the values since the parent; None if there are none."""
    entries: Entries
    """Results of tasks in the frontier of the checkpoint."""
    events: bytes | None
    """The log entries, if they have the run and time of the commit, so that they can be stored with it."""
    log: bytes | None
    """The log entries, if they have another run or time, so that they must be stored separately."""

    @property
    def size(self) -> int:
        """The size of the checkpoint in bytes."""
        return len(self.control) + (len(self.changes) if self.changes is not None else 0)


class Encoder:
    """Encodes commits and results. Each method raises SerdeError with the path to a value that cannot be stored."""

    def __init__(self, serde: Serde, encode: Callable[[Any, str], bytes] | None = None) -> None:
        """`encode` converts a value, whose path is its second argument, to bytes; by default it is `serde.encode`."""
        self.serde = serde
        self._encode = encode or serde.encode

    def encode_commit(
        self, commit: Commit, deltas: Mapping[str, Any] | None, log: Log | None, *, separate_log: bool = False
    ) -> EncodedCommit:
        """Encode all parts of a commit. If it has no deltas, all values are changes, as if there were no parent.

        `deltas` and `log` are those of the commit, which computes them each time they are read. With `separate_log`,
        log entries are encoded for a row of their own in any case.
        """
        events = self._encode_own_log(log, commit) if log is not None and not separate_log else None
        return EncodedCommit(
            key_of(commit.checkpoint.id),
            key_of(commit.expected) if commit.expected is not None else None,
            self._encode_control(commit),
            self._encode_changes(commit, deltas),
            self.encode_results(commit.pending),
            events,
            self.encode_log(log, commit.branch_key.namespace) if log is not None and events is None else None,
        )

    def _encode_control(self, commit: Commit) -> bytes:
        """Encode all data of a commit's checkpoint except its values."""
        return self._encode(plain_control(commit), "checkpoint")

    def _encode_changes(self, commit: Commit, deltas: Mapping[str, Any] | None) -> bytes | None:
        """Encode the changes of the values in a commit; return None if there are none."""
        reported = commit.reported
        changes = commit.checkpoint.values if deltas is None else deltas
        if reported is not None:
            changes = {**changes, REPORTED: reported}
        return self._encode(changes, "values") if changes else None

    def encode_all_values(self, commit: Commit, parent_fields: Iterable[str]) -> bytes | None:
        """Encode all values of a commit as changes, including the removal of the parent's other fields."""
        checkpoint = commit.checkpoint
        reported = {REPORTED: [[name, update] for name, update in checkpoint.reported]} if checkpoint.reported else {}
        changes = {**dict.fromkeys(parent_fields, MISSING), **checkpoint.values, **reported}
        return self._encode(changes, "values") if changes else None

    def encode_results(self, pending: Pending | None) -> Entries:
        """Encode the results of tasks in a frontier."""
        if not pending:
            return ()
        try:
            return [(kind, key, self._encode(plain, key)) for kind, key, plain in plain_pending(pending, self.serde)]
        except SerdeError:
            # Encode the values again with paths that mean something to users, so that the error contains such a path.
            for path, value in _values_of(pending):
                self.serde.encode(value, path)
            raise

    def _encode_own_log(self, log: Log, commit: Commit) -> bytes | None:
        """Encode log entries without their run and time; return None unless these are the same as the commit's."""
        if log.run_id != commit.run_id or log.at != commit.created_at:
            return None
        return self._encode(plain_entries(log, commit.checkpoint.step), "event")

    def encode_log(self, log: Log, namespace: str) -> bytes:
        """Encode log entries with their time and namespace, for a row of their own."""
        return self._encode([plain_log(log, namespace)], "event")

    def check_commit(self, commit: Commit) -> None:
        """Raise SerdeError if a part of a commit, or of its siblings, cannot be stored."""
        self._encode_control(commit)
        self._encode_changes(commit, commit.deltas)
        self.check_results(commit.pending, commit.log, commit.branch_key.namespace)
        for sibling in commit.siblings:
            self.check_commit(sibling)

    def check_results(self, pending: Pending | None, log: Log | None, namespace: str) -> None:
        """Raise SerdeError if results of tasks or log entries cannot be stored."""
        self.encode_results(pending)
        if log is not None:
            self.encode_log(log, namespace)


def _values_of(pending: Pending) -> Iterator[tuple[str, Any]]:
    """Yield the values from user code in the results of tasks, each with its path."""
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
