"""What a service tells whoever measures it."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Counts and times. `statewright.observe.Metrics` is one."""

    def begins_run(self, run_id: str, workspace_id: str) -> None:
        """A worker begins with a run of a workspace."""
        ...

    def waited_in_queue(self, seconds: float) -> None:
        """A run was begun with, so long after it was to begin."""
        ...

    def tried_delivery(self, outcome: str) -> None:
        """A message was sent to a webhook: `delivered`, or `failed` this time."""
        ...
