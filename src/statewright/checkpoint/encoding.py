"""Commits as bytes: what a saver outside memory writes, and what one in memory refuses when it is told to check.

Both go through `Encoder`, so that a value which cannot be stored is refused with the same words by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from statewright.channels import MISSING
from statewright.checkpoint.forms import (
    REPORTED,
    plain_control,
    plain_entries,
    plain_log,
    plain_pending,
)
from statewright.checkpoint.model import Commit, Pending
from statewright.errors import SerdeError
from statewright.events import Log
from statewright.serde.serde import Serde

Entries = Sequence[tuple[int, str, bytes]]
"""What is known of a frontier, ready to be stored."""


class Encoder:
    """Encodes what runs save. Each method raises SerdeError for what cannot be stored, with the path to it."""

    def __init__(self, serde: Serde, seal: Callable[[bytes], bytes] | None = None) -> None:
        """`seal` is applied to all bytes: it may encrypt them."""
        self.serde = serde
        self._seal = seal

    def control(self, commit: Commit) -> bytes:
        """Return all about the checkpoint of a commit but its values."""
        return self._encode(plain_control(commit), "checkpoint")

    def changes(self, commit: Commit, deltas: Mapping[str, Any] | None) -> bytes | None:
        """Return what the checkpoint of a commit changed; None if that is nothing."""
        reported = commit.reported
        changes = commit.checkpoint.values if deltas is None else deltas
        if reported is not None:
            changes = {**changes, REPORTED: reported}
        return self._encode(changes, "values") if changes else None

    def whole(self, commit: Commit, before: Iterable[str]) -> bytes | None:
        """Return all values of a commit as changes that remove the fields `before`, which are those of its parent."""
        checkpoint = commit.checkpoint
        told = {REPORTED: [[name, update] for name, update in checkpoint.reported]} if checkpoint.reported else {}
        changes = {**dict.fromkeys(before, MISSING), **checkpoint.values, **told}
        return self._encode(changes, "values") if changes else None

    def entries(self, pending: Pending | None) -> Entries:
        """Return what is known of a frontier, entry by entry."""
        if not pending:
            return ()
        try:
            return [(kind, key, self._encode(one, key)) for kind, key, one in plain_pending(pending, self.serde)]
        except SerdeError:
            for where, value in _values_of(pending):  # to say where it is in words of the user
                self.serde.encode(value, where)
            raise

    def log_beside(self, log: Log, commit: Commit) -> bytes | None:
        """Return what a commit adds to a log as part of its record; None if it is not the log of its run and time."""
        if log.run_id != commit.run_id or log.at != commit.created_at:
            return None
        return self._encode(plain_entries(log, commit.checkpoint.step), "event")

    def log(self, log: Log, namespace: str) -> bytes:
        """Return what is added to a log, as a row of its own."""
        return self._encode([plain_log(log, namespace)], "event")

    def check(self, commit: Commit) -> None:
        """Raise SerdeError if any part of a commit, or of those beside it, cannot be stored."""
        self.control(commit)
        self.changes(commit, commit.deltas)
        self.check_results(commit.pending, commit.log, commit.line.namespace)
        for one in commit.beside:
            self.check(one)

    def check_results(self, pending: Pending | None, log: Log | None, namespace: str) -> None:
        """Raise SerdeError if anything that is added to what is known of a frontier cannot be stored."""
        self.entries(pending)
        if log is not None:
            self.log(log, namespace)

    def _encode(self, value: Any, where: str) -> bytes:
        encoded = self.serde.encode(value, where)
        return encoded if self._seal is None else self._seal(encoded)


def _values_of(pending: Pending) -> Iterator[tuple[str, Any]]:
    """Yield what users gave, and where it comes from."""
    for result in pending.completed.values():
        writes = result.writes
        for name, update in writes.items() if isinstance(writes, dict) else writes:
            yield f"the update of {result.task.node!r}: {name}", update
        for target in result.targets:
            yield f"where {result.task.node!r} leads", target
    for question in chain(*pending.interrupts.values(), *pending.settled.values()):
        yield "the value of a question", question.value
    for identity, answer in pending.answers.items():
        yield f"the answer to question {identity}", answer
    for (_, name, _), entry in pending.journal.items():
        yield f"the result of step {name!r}", entry.value
