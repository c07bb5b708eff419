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

    The head of a branch stays in any case, with its questions and all that it knows of its tasks; so does everything
    that a kept checkpoint needs to be read. Raises InvalidConfig if nothing is said, or less than one is kept.
    """

    keep_last: int | None = None
    keep_since: datetime | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_since is None:
            raise InvalidConfig("PrunePolicy() says nothing. Give it keep_last= or keep_since=.")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise InvalidConfig(f"keep_last is {self.keep_last!r}. Give a whole number of at least 1: heads stay.")
        if self.keep_since is not None and self.keep_since.tzinfo is None:
            raise InvalidConfig(f"keep_since={self.keep_since!r} has no time zone, so it is no instant. Give it one.")

    def kept(self, created_at: Sequence[datetime]) -> int:
        """How many of the checkpoints of a line are kept, whose times are given, the newest first."""
        kept = self.keep_last or 1
        if self.keep_since is not None:
            since = next((place for place, at in enumerate(created_at) if at < self.keep_since), len(created_at))
            kept = max(kept, since)
        return min(kept, len(created_at))


class Pruned(NamedTuple):
    """The result of pruning: what was deleted, or would be."""

    threads: int
    """In how many threads."""
    checkpoints: int


class ThreadEntry(NamedTuple):
    """A thread, as lists show it."""

    thread_id: str
    changed_at: datetime
    """When a run took it or let it go last."""
    owner: str | None
    """The run that holds it, though its lease may have lapsed."""
