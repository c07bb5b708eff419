"""Retention of checkpoints: the policy, and the result of pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from statewright.errors import InvalidConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunePolicy:
    """The checkpoints to keep of each branch of each namespace: the newest ones, and those since an instant.

    With both criteria, a checkpoint is kept if it meets one of them. The head of a branch is always kept, with its
    questions and results; so is all data that a remaining checkpoint needs. Raises InvalidConfig without a criterion,
    or if `keep_last` is less than one.
    """

    keep_last: int | None = None
    keep_since: datetime | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_since is None:
            raise InvalidConfig("PrunePolicy() has no criterion. Pass keep_last= or keep_since=.")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise InvalidConfig(f"keep_last is {self.keep_last!r}. Give a whole number of at least 1: heads stay.")
        if self.keep_since is not None and self.keep_since.tzinfo is None:
            raise InvalidConfig(f"keep_since={self.keep_since!r} has no time zone. Pass a time with one.")

    def kept(self, created_at: Sequence[datetime]) -> int:
        """Return how many checkpoints of a branch are kept, given their times, the newest first."""
        count = self.keep_last or 1
        if self.keep_since is not None:
            since = next((index for index, at in enumerate(created_at) if at < self.keep_since), len(created_at))
            count = max(count, since)
        return min(count, len(created_at))


class Pruned(NamedTuple):
    """The result of pruning: the deleted checkpoints, or those that would be deleted."""

    threads: int
    """The number of affected threads."""
    checkpoints: int


class ThreadEntry(NamedTuple):
    """A thread, as lists show it."""

    thread_id: str
    changed_at: datetime
    """The time of the last claim or release by a run."""
    owner: str | None
    """The run that holds it, though its lease may have lapsed."""
