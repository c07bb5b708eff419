"""What the parts of a service share: the ledger and the saver, the clock, who listens, and who works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from statewright.async_futures import aresolve
from statewright.checkpoint import WorkspaceCheckpointer
from statewright.clock import Clock
from statewright.runs import Advance, Announce, Change, Insert, Ledger, Run, RunStatus, UpdateAll
from statewright.service.attempt import RunAttempt
from statewright.service.catalog import Catalog
from statewright.service.hub import Hub
from statewright.service.records import Records
from statewright.service.run_watch import RunWatch
from statewright.service.settings import ServiceSettings
from statewright.service.spending import Spending
from statewright.service.spending_limits import Limits


@dataclass(slots=True)
class ServiceContext:
    """Where requests are met."""

    ledger: Ledger
    saver: WorkspaceCheckpointer
    """Ask for the one of a workspace: `saver_of`."""
    catalog: Catalog
    clock: Clock
    settings: ServiceSettings
    spending_limits: Limits | None = None
    hub: Hub = field(default_factory=Hub)
    watch: RunWatch = field(init=False)
    """Finds what other processes have made of runs that somebody follows."""
    spending: Spending = field(init=False)
    """What workspaces have spent, and may."""
    ring: Callable[[], object] = lambda: None
    """Tells the worker of this process that a run is due."""
    ring_background: Callable[[], object] = lambda: None
    """Tells those who tell webhooks, and do what else is to be done beside runs."""
    attempt_at: Callable[[str], RunAttempt | None] = lambda _: None
    """What this process does with a run at this moment."""

    def __post_init__(self) -> None:
        self.watch = RunWatch(self.ledger)
        self.spending = Spending(self.ledger, self.clock, self.spending_limits)

    @property
    def records(self) -> Records:
        return Records(self.ledger)

    def saver_of(self, workspace_id: str) -> WorkspaceCheckpointer:
        """Return the saver that sees the threads of a workspace and no others."""
        return self.saver.for_workspace(workspace_id)

    def now(self) -> datetime:
        return self.clock.now()

    async def write(self, changes: Sequence[Change]) -> None:
        """Make changes, and tell those who listen of the events among them. Raises RecordConflict."""
        await aresolve(self.ledger.write(changes))
        self.published(changes)

    def published(self, changes: Sequence[Change]) -> None:
        """Tell those who listen of changes that are saved, and wake those who have work by them."""
        for change in changes:
            if isinstance(change, Advance):
                self.hub.publish(change.written)
        if any(_makes_due(change) for change in changes):
            self.ring()
        if any(isinstance(change, Announce) and change.made for change in changes):
            self.ring_background()


def _makes_due(change: Change) -> bool:
    """Whether a run may be due by a change: this one, or one in whose way it stood."""
    match change:
        case Insert(Run()):
            return True
        case UpdateAll(kind, _, values):
            return kind is Run and values.get("due_at") is not None
        case Advance():
            return change.values.get("due_at") is not None or change.values.get("status") is RunStatus.CANCELLED
        case _:
            return False
