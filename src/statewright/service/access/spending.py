"""The daily spending of workspaces, and their spending limits.

Spending is recorded in the transaction that saves the model calls (see `engine/progress.py`), so that the ledger is
exact. This module only reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from math import isfinite
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import InvalidConfig, SpendingLimitReached
from statewright.runs import DailySpending, Ledger, Workspace
from statewright.runtime.invocation.limits import warn_unpriced

logger = logging.getLogger("statewright.service")
EVERY_OTHER: Final = "*"
"""The name that stands for all workspaces without limits of their own."""
_COLUMN_OF_LIMIT: Final = {"tokens_per_day": "tokens", "cost_per_day": "cost", "requests_per_day": "requests"}
"""The column of `DailySpending` to which each limit applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits:
    """Limits on the model calls of all runs of a workspace per day (in UTC)."""

    tokens_per_day: int | None = None
    """Input and output tokens together."""
    cost_per_day: float | None = None
    """In US dollars. Calls of models with unknown prices count as free, so limit tokens too."""
    requests_per_day: int | None = None

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if all(limit is None for limit in values.values()):
            raise InvalidConfig(f"SpendingLimits() has no limit. Give at least one of {', '.join(values)}.")
        for name, limit in values.items():
            classes = (int, float) if name == "cost_per_day" else (int,)
            is_number = isinstance(limit, classes) and not isinstance(limit, bool)
            if limit is not None and not (is_number and isfinite(limit) and limit > 0):
                type_name = "number" if name == "cost_per_day" else "whole number"
                raise InvalidConfig(f"SpendingLimits({name}={limit!r}): give a {type_name} above 0, or leave it out.")

    def find_reached(self, spent: DailySpending, now: datetime) -> SpendingLimitReached | None:
        """Return the error for the first limit that the spending of a day has reached; None if there is none."""
        for name, column in _COLUMN_OF_LIMIT.items():
            limit, used = getattr(self, name), getattr(spent, column)
            if limit is not None and used >= limit:
                return SpendingLimitReached(
                    spent.workspace_id, name, used=used, most=limit, ends_at=spent.ends_at, now=now
                )
        return None


Limits = SpendingLimits | Mapping[str, SpendingLimits]
"""The limits of every workspace, or a mapping from slugs or ids of workspaces to limits, with `*` for all others."""


def limits_by_name(limits: Limits | None) -> dict[str, SpendingLimits]:
    """Return limits by the slug or id of a workspace, with `*` for all other workspaces. Raises InvalidConfig."""
    if limits is None:
        return {}
    if isinstance(limits, SpendingLimits):
        return {EVERY_OTHER: limits}
    by_name = dict(cast("Mapping[Any, Any]", limits))
    for name, value in by_name.items():
        if not isinstance(name, str) or not isinstance(value, SpendingLimits):
            raise InvalidConfig(
                f"spending_limits[{name!r}] is {value!r}. Map the slugs or ids of workspaces to SpendingLimits, and "
                f"{EVERY_OTHER!r} to the limits of all other workspaces."
            )
    return by_name


# -- current spending


@dataclass(frozen=True, slots=True)
class SpendingReport:
    """The spending of a workspace today, and its limits."""

    spent: DailySpending
    limits: SpendingLimits | None
    reached: str | None
    """The name of the limit that was reached, such as `cost_per_day`; None if none was."""


class Spending:
    """Reads the limits and the spending of workspaces."""

    def __init__(self, ledger: Ledger, clock: Clock, limits: Limits | None = None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._limits = limits_by_name(limits)
        self._slugs: dict[str, str] = {}
        """The slugs of workspaces by id; a slug never changes."""
        self._has_warned = False

    async def limits_of(self, workspace_id: str) -> SpendingLimits | None:
        """Return the daily limits of a workspace; None if it has none."""
        if not self._limits:
            return None
        default = self._limits.get(EVERY_OTHER)
        if len(self._limits) == 1 and default is not None:  # all workspaces have this limit, so no slug is needed
            return default
        return self._limits.get(workspace_id) or self._limits.get(await self._slug(workspace_id)) or default

    async def _slug(self, workspace_id: str) -> str:
        """Return the slug of a workspace, or its id if the workspace has no record."""
        if workspace_id not in self._slugs:
            workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
            if workspace is None:
                return workspace_id
            self._slugs[workspace_id] = workspace.slug
        return self._slugs[workspace_id]

    async def of_today(self, workspace_id: str) -> DailySpending:
        """Return the spending of a workspace today."""
        zero = DailySpending.of(workspace_id, self._clock.now())
        return await aresolve(self._ledger.get(DailySpending, zero.id)) or zero

    async def check_start(self, workspace_id: str, not_before: datetime | None = None) -> None:
        """Raise SpendingLimitReached if a workspace has reached a daily limit and a run would start today.

        `not_before` is the earliest start of the run; None to start at once.
        """
        limits = await self.limits_of(workspace_id)
        if limits is None:
            return
        reached = limits.find_reached(await self.of_today(workspace_id), self._clock.now())
        if reached is not None and (not_before is None or not_before < reached.ends_at):
            raise reached

    async def report(self, workspace_id: str) -> SpendingReport:
        """Return the spending of a workspace today, and its limits."""
        limits, spent = await self.limits_of(workspace_id), await self.of_today(workspace_id)
        reached = limits.find_reached(spent, self._clock.now()) if limits is not None else None
        return SpendingReport(spent, limits, reached.limit if reached is not None else None)

    def warn_if_unpriced(self, limits: SpendingLimits, spent: DailySpending) -> None:
        """Warn once that a limit on cost cannot be enforced, because the prices of the called models are unknown."""
        if limits.cost_per_day is not None and spent.tokens and not spent.cost and not self._has_warned:
            self._has_warned = True
            warn_unpriced(f"The spending limit of {limits.cost_per_day:g} dollars a day", spent.tokens)

    async def warn_of_unknown_workspaces(self) -> None:
        """Log a warning for each workspace that has limits but does not exist, because its name may be misspelled."""
        unknown = set(self._limits) - {EVERY_OTHER}
        if unknown:
            for workspace in await aresolve(self._ledger.find(Workspace)):
                unknown -= {workspace.id, workspace.slug}
        for name in sorted(unknown):
            logger.warning("Spending limits are set for workspace %r, which does not exist (yet).", name)
