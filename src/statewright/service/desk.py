"""What the parts of a service share: the ledger and the saver, the clock, who listens, and who works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from statewright.checkpoint import Checkpointer
from statewright.clock import Clock
from statewright.runs import Advance, Change, Ledger, RunEvent
from statewright.runtime.awaiting import answered
from statewright.service.attempt import RunAttempt
from statewright.service.catalog import Catalog
from statewright.service.hub import Hub
from statewright.service.records import Records
from statewright.service.settings import ServiceSettings


@dataclass(slots=True)
class Desk:
    """Where requests are met."""

    ledger: Ledger
    saver: Checkpointer
    catalog: Catalog
    clock: Clock
    settings: ServiceSettings
    hub: Hub = field(default_factory=Hub)
    ring: Callable[[], object] = lambda: None
    """Tells the workers of this process that something is due."""
    attempt_at: Callable[[str], RunAttempt | None] = lambda _: None
    """What this process does with a run at this moment."""

    @property
    def records(self) -> Records:
        return Records(self.ledger)

    def now(self) -> datetime:
        return self.clock.now()

    async def write(self, changes: Sequence[Change]) -> None:
        """Make changes, and tell those who listen of the events among them. Raises RecordConflict."""
        await answered(self.ledger.write(changes))
        written: list[RunEvent] = []
        for change in changes:
            if isinstance(change, Advance):
                written = change.written
                self.hub.publish(written)
