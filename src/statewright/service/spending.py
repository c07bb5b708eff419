"""Whether a workspace has spent what it may spend on a day, and how much that is.

What is spent is written with the supersteps whose calls it counts (see `progress`), so it is exact in the ledger, and
this module only reads.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.runs import DailySpending, Ledger, Workspace
from statewright.runtime.core.limits import warn_unpriced
from statewright.service.spending_limits import EVERY_OTHER, Limits, SpendingLimits, by_name

logger = logging.getLogger("statewright.service")


@dataclass(frozen=True, slots=True)
class SpendingReport:
    """What a workspace has spent today, and what it may."""

    spent: DailySpending
    limits: SpendingLimits | None
    reached: str | None
    """The limit that is used up, if one is."""


class Spending:
    """Knows the limits of workspaces, and what they have spent."""

    def __init__(self, ledger: Ledger, clock: Clock, limits: Limits | None = None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._limits = by_name(limits)
        self._slugs: dict[str, str] = {}
        """The slugs of workspaces by their ids: these never change."""
        self._has_warned = False

    async def limits_of(self, workspace_id: str) -> SpendingLimits | None:
        """What a workspace may spend on a day; None if nothing limits it."""
        if not self._limits:
            return None
        others = self._limits.get(EVERY_OTHER)
        if len(self._limits) == 1 and others is not None:
            return others
        own = self._limits.get(workspace_id) or self._limits.get(await self._slug_of(workspace_id))
        return own or others

    async def _slug_of(self, workspace_id: str) -> str:
        if workspace_id not in self._slugs:
            workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
            if workspace is None:
                return workspace_id
            self._slugs[workspace_id] = workspace.slug
        return self._slugs[workspace_id]

    async def of_today(self, workspace_id: str) -> DailySpending:
        """What a workspace has spent today."""
        nothing = DailySpending.of(workspace_id, self._clock.now())
        return await aresolve(self._ledger.get(DailySpending, nothing.id)) or nothing

    async def check_start(self, workspace_id: str, not_before: datetime | None = None) -> None:
        """Raise SpendingLimitReached if a run is to begin today in a workspace that has used up its day."""
        limits = await self.limits_of(workspace_id)
        if limits is None:
            return
        reached = limits.reached(await self.of_today(workspace_id), self._clock.now())
        if reached is not None and (not_before is None or not_before < reached.ends_at):
            raise reached

    async def report(self, workspace_id: str) -> SpendingReport:
        """What a workspace has spent today, and what it may."""
        limits, spent = await self.limits_of(workspace_id), await self.of_today(workspace_id)
        reached = limits.reached(spent, self._clock.now()) if limits is not None else None
        return SpendingReport(spent, limits, reached.limit if reached is not None else None)

    def warn_if_unpriced(self, limits: SpendingLimits, spent: DailySpending) -> None:
        """Log once that a limit on cost cannot hold, since calls of models whose price is unknown cost nothing."""
        if limits.cost_per_day is not None and spent.tokens and not spent.cost and not self._has_warned:
            self._has_warned = True
            warn_unpriced(f"The spending limit of {limits.cost_per_day:g} dollars a day", spent.tokens)

    async def warn_of_unknown(self) -> None:
        """Log which workspaces with limits are not there: their names may be misspelt."""
        named = set(self._limits) - {EVERY_OTHER}
        if named:
            known = {name for one in await aresolve(self._ledger.find(Workspace)) for name in (one.id, one.slug)}
            for name in sorted(named - known):
                logger.warning("There are spending limits for workspace %r, which is not there (yet).", name)
